"""One file per provider: how entries become the messages that it accepts."""

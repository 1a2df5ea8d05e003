"""How commands end; docs/commands.md tells what each code means."""

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130
"""What a shell gives for a program that Ctrl-C ended."""

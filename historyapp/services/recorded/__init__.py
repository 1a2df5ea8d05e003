"""The recorded requests of steps, and the changes between them."""

"""The commands' exit codes, which docs/commands.md explains."""

DONE = 0
FAILED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
"""What a shell gives for a program that Ctrl-C ended."""

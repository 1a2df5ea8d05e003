"""The commands' exit codes, which docs/commands.md explains."""

DONE = 0
FAILED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
"""A shell's exit code of a program that Ctrl-C ended."""

"""Errors that end a command with a message and an exit code."""

from historyapp.management.exit_codes import FAILED, UNREACHABLE, WRONG_USAGE


class CommandFailed(Exception):
    """The command cannot be carried out."""

    code = FAILED


class WrongUsage(CommandFailed):
    """The command line is wrong, or the server refuses a value in it. Nothing was changed."""

    code = WRONG_USAGE


class Unreachable(CommandFailed):
    """The server does not respond, is too busy, or is not Playhead."""

    code = UNREACHABLE

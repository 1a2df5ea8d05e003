"""What failed: the line of a result that says so."""

from historyapp.core.entries import ToolResult
from historyapp.core.results import returned_text
from historyapp.core.text import preview


def error_line(result: ToolResult) -> str:
    """The first line of a result that is not blank, at most 200 characters."""
    return preview(returned_text(result).strip().partition("\n")[0])

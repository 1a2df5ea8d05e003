"""The views of tool calls. Each has a file of its own; the registry lists them.

docs/extending.md shows how to add one.
"""

from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView
from dashboard.tools.default import DEFAULT
from dashboard.tools.edit import EDIT
from dashboard.tools.mcp import MCP
from dashboard.tools.plan import PLAN
from dashboard.tools.question import QUESTION
from dashboard.tools.read import READ
from dashboard.tools.search import SEARCH
from dashboard.tools.shell import SHELL
from dashboard.tools.subagent import SUBAGENT
from dashboard.tools.web import WEB
from historyapp.core.json import is_larger
from historyapp.core.text import MAX_READ

TOOL_VIEWS: dict[str, ToolView] = {
    view.name: view
    for view in (
        EDIT,
        SHELL,
        QUESTION,
        PLAN,
        SUBAGENT,
        READ,
        SEARCH,
        WEB,
        MCP,
        DEFAULT,
    )
}
"""Tool views by name, in the order in which they are tried. The last one fits every call."""


def view_of(tool_call: RecordedCall) -> ToolView:
    """The first view that can show a call. The generic one shows long arguments, as texts in parts: others
    would split them into words or lines, which takes a gigabyte for 30 MB.
    """
    if is_larger(tool_call.arguments, MAX_READ):
        return MCP if MCP.fits(tool_call) else DEFAULT
    return next(view for view in TOOL_VIEWS.values() if view.fits(tool_call))


def draw_call(tool_call: RecordedCall, make: CallBlocks) -> Card:
    """The card that shows a call."""
    return view_of(tool_call).draw(tool_call, make)

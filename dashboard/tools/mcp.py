"""Calls of MCP servers, named ``mcp__server__tool``: server and tool separately, and JSON as a tree."""

from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView
from dashboard.tools.default import draw as draw_default
from historyapp.core.text import preview


def fits(tool_call: RecordedCall) -> bool:
    return mcp_parts(tool_call.name) is not None


def draw(tool_call: RecordedCall, make: CallBlocks) -> Card:
    card = draw_default(tool_call, make)
    server, tool = mcp_parts(tool_call.name) or ("", tool_call.name)
    card.title, card.facts = preview(tool), [f"MCP server {preview(server)}", *card.facts]
    return card


def mcp_parts(name: str) -> tuple[str, str] | None:
    """The server and the tool in a name; None if it is not the name of an MCP tool."""
    mark, _, qualified_name = name.partition("__")
    server, _, tool = qualified_name.partition("__")
    return (server, tool.strip("_")) if mark == "mcp" and server and tool.strip("_") else None


MCP = ToolView(name="mcp", fits=fits, draw=draw)

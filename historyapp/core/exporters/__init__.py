"""The formats that sessions can be exported in."""

from historyapp.core.exporters.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.exporters.base import Exporter
from historyapp.core.exporters.claude_code import CLAUDE_CODE
from historyapp.core.exporters.html_replay import HTML_REPLAY
from historyapp.core.exporters.markdown import MARKDOWN
from historyapp.core.exporters.openai_messages import OPENAI_MESSAGES
from historyapp.core.exporters.playhead_jsonl import PLAYHEAD_JSONL

EXPORTERS: dict[str, Exporter] = {
    exporter.name: exporter
    for exporter in (
        PLAYHEAD_JSONL,
        OPENAI_MESSAGES,
        ANTHROPIC_MESSAGES,
        CLAUDE_CODE,
        MARKDOWN,
        HTML_REPLAY,
    )
}
"""By name, as in the API."""

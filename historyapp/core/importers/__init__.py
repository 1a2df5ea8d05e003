"""The transcript formats that can be imported, and the detection of a file's format."""

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.importers.base import Importer, Source
from historyapp.core.importers.claude_code import CLAUDE_CODE
from historyapp.core.importers.codex_rollout import CODEX_ROLLOUT
from historyapp.core.importers.gemini_cli import GEMINI_CLI
from historyapp.core.importers.mini_swe_agent import MINI_SWE_AGENT
from historyapp.core.importers.openai_chat import OPENAI_CHAT
from historyapp.core.importers.openhands import OPENHANDS
from historyapp.core.importers.playhead_jsonl import PLAYHEAD_JSONL
from historyapp.core.importers.records import head_of
from historyapp.core.importers.state_json import STATE_JSON
from historyapp.core.importers.swe_agent import SWE_AGENT

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        PLAYHEAD_JSONL,
        CLAUDE_CODE,
        CODEX_ROLLOUT,
        GEMINI_CLI,
        STATE_JSON,
        SWE_AGENT,
        MINI_SWE_AGENT,
        OPENHANDS,
        ANTHROPIC_MESSAGES,
        OPENAI_CHAT,
    )
}
"""By name, in the order of detection: formats with a distinctive field come before plain messages."""


def detect(source: Source) -> Importer:
    """The importer of a file. Only the content decides, not the name.

    Raises:
        UnreadableTranscript: if no importer recognises the file.
    """
    head = head_of(source)
    for importer in IMPORTERS.values():
        if importer.recognises(head):
            return importer
    raise UnreadableTranscript(f"{source.name} is in no format that can be imported.")

"""The transcript formats that can be imported, and the detection of a file's format."""

from collections.abc import Mapping
from itertools import islice

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.anthropic_messages import ANTHROPIC_MESSAGES
from historyapp.core.importers.base import Head, Importer, Source
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
from historyapp.core.text import preview

_SHOWN_KEYS, _MAX_KEY = 6, 40
"""The keys of an unknown file that its error names, and the characters of each."""

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
    raise UnreadableTranscript(
        f"This file is in no format that can be imported: {_beginning(head)}. If you know that it is one of "
        f"these formats, choose it: {', '.join(IMPORTERS)}."
    )


def _beginning(head: Head) -> str:
    """What a file begins with, for an error."""
    document = head.document
    if isinstance(document, list):
        first, place = next(iter(document), None), "the first object of its list"
    elif document is not None:
        first, place = document, "its object"
    else:
        first, place = next(iter(head.lines), None), "its first object"
    if not isinstance(first, Mapping):
        return "it does not begin with a JSON object"
    keys = ", ".join(preview(str(key), _MAX_KEY) for key in islice(first, _SHOWN_KEYS))
    return f"{place} has the keys {keys}" if keys else f"{place} is empty"

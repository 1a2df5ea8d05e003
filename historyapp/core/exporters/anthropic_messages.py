"""A session as Anthropic messages: ``{"model": …, "messages": […], "system": […]}``.

``system`` comes last, because the current instruction is known only at the session's end.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from historyapp.core.entries import Entry, MemoryNotebook, SystemInstruction
from historyapp.core.episodes import conversation_parts
from historyapp.core.exporters.base import ExportSession
from historyapp.core.formats.anthropic_messages import ANTHROPIC_MESSAGES as FORMAT
from historyapp.core.formats.anthropic_messages import merged_blocks
from historyapp.core.json import dump_json
from historyapp.core.text import clean


class _AnthropicMessagesExporter:
    name = "anthropic_messages"
    title = "Anthropic messages"
    media_type = "application/json"
    suffix = ".anthropic.json"
    live_only = True
    can_hide_inputs = False
    whole_steps = True

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        current: dict[str, str] = {}

        def message_entries() -> Iterator[Entry]:
            """Yields the entries that are messages, and keeps the newest instruction and notebook."""
            for entry in session.entries:
                if isinstance(entry.body, (SystemInstruction, MemoryNotebook)):
                    current[entry.kind] = entry.body.message_content
                else:
                    yield entry

        blocks = merged_blocks(FORMAT.joined(map(FORMAT.write, conversation_parts(message_entries()))))
        yield f'{{"model": {dump_json(clean(session.model))},\n"messages": ['
        yield from _messages(blocks)
        texts = [current.get(kind, "") for kind in ("system_instruction", "memory_notebook")]
        system = [{"type": "text", "text": clean(text)} for text in texts if text.strip()]
        yield f'\n],\n"system": {dump_json(system)}}}\n'


def _messages(blocks: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The messages as JSON, a block at a time: a message holds all inputs between two steps."""
    last_role = ""
    for role, block in blocks:
        if role == last_role:
            yield f",{dump_json(block)}"
        else:
            end = "]},\n" if last_role else "\n"
            yield f'{end}{{"role":"{role}","content":[{dump_json(block)}'
        last_role = role
    if last_role:
        yield "]}"


ANTHROPIC_MESSAGES = _AnthropicMessagesExporter()

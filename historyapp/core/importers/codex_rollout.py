"""Codex CLI sessions: ``~/.codex/sessions/**/rollout-*.jsonl``, and what ``codex exec --json`` prints."""

from collections.abc import Iterator

from historyapp.core.importers.base import Head, Operation, Skipped, Source
from historyapp.core.importers.codex_exec import ExecStream, is_exec
from historyapp.core.importers.codex_lines import FORMAT
from historyapp.core.importers.codex_session import CodexSession
from historyapp.core.importers.exchanges import readable
from historyapp.core.importers.records import read_lines

_WRAPPED = ("session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state")
_BARE = ("function_call", "function_call_output")


class CodexRollout:
    """Reads Codex rollout files of all ages, and the stream of ``codex exec --json``."""

    name = FORMAT
    title = "Codex rollout"

    def recognises(self, head: Head) -> bool:
        for line in head.lines:
            if isinstance(line.get("payload"), dict):
                if line.get("type") in _WRAPPED:
                    return True
                continue
            # Files of 2025: the first line bare, then bare items.
            is_first = "type" not in line and {"id", "timestamp", "instructions"} <= line.keys()
            is_item = line.get("type") in _BARE and "call_id" in line
            if is_first or is_item or "record_type" in line or is_exec(line):
                return True
        return False

    def read(self, source: Source) -> Iterator[Operation]:
        return readable(_operations(source), source, self.title)


def _operations(source: Source) -> Iterator[Operation]:
    session, stream = CodexSession(source.name), ExecStream()
    for line in read_lines(source.stream):
        if isinstance(line, Skipped):
            yield line
            continue
        records = stream.translate(line.data) if is_exec(line.data) else (line.data,)
        for record in records:
            yield from session.add(line.number, record)
    yield from session.close()


CODEX_ROLLOUT = CodexRollout()

"""Everything in a session, as JSON lines that ``importers/playhead_jsonl`` can read.

A header, then each entry in the order of positions, then summaries and notes; forks follow in the same way::

    {"playhead": 1, "kind": "session", "id": …, "title": …, "forked_from": [id, position], …}
    {"session": id, "position": 1, "kind": "model_input", …its fields, "metadata": {…}, "created_at": …}
    {"session": id, "kind": "summary", "first_position": 3, "last_position": 9, "text": …, …}
    {"session": id, "kind": "note", "position": 3, "text": …, "actor": …, "created_at": …, "updated_at": …}

Versions before 2026-11-24 skip the lines of notes and report them.
The text is ASCII. All other characters are escaped, so that lone surrogates and NUL survive.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from typing import Any

from historyapp.core.dates import known_time
from historyapp.core.entries import dump_body
from historyapp.core.exporters.base import ExportSession
from historyapp.core.json import dump_json

VERSION = 1


class _PlayheadJsonlExporter:
    name = "playhead_jsonl"
    title = "Playhead JSONL"
    media_type = "application/x-ndjson"
    suffix = ".jsonl"
    live_only = False
    can_hide_inputs = False
    whole_steps = False

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        for exported in chain([session], forks):
            yield dump_json(_header(exported)) + "\n"
            for entry in exported.entries:
                fields = {
                    "session": exported.id,
                    "position": entry.position,
                    "kind": entry.kind,
                    **dump_body(entry.body),
                    "metadata": dict(entry.metadata),
                    "created_at": _known_time_text(entry.created_at),
                }
                yield dump_json(fields) + "\n"
            for summary in exported.summaries:
                created_at = summary.created_at.isoformat() if summary.created_at else None
                fields = {
                    "session": exported.id,
                    "kind": "summary",
                    **asdict(summary),
                    "created_at": created_at,
                }
                yield dump_json(fields) + "\n"
            for note in exported.notes:
                times = {"created_at": note.created_at.isoformat(), "updated_at": note.updated_at.isoformat()}
                yield dump_json({"session": exported.id, "kind": "note", **asdict(note), **times}) + "\n"


PLAYHEAD_JSONL = _PlayheadJsonlExporter()


def _known_time_text(moment: datetime | None) -> str | None:
    time = known_time(moment)
    return time.isoformat() if time else None


def _header(session: ExportSession) -> dict[str, Any]:
    return {
        "playhead": VERSION,
        "kind": "session",
        "id": session.id,
        "title": session.title,
        "agent": session.agent,
        "model": session.model,
        "tags": list(session.tags),
        "settings": dict(session.settings),
        "metadata": dict(session.metadata),
        "forked_from": session.forked_from,
        "spawned_by": session.spawned_by,
        "created_at": _known_time_text(session.created_at),
        "status": session.status,
        **({"annotation": dict(session.annotation)} if session.annotation else {}),
    }

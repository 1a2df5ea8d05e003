"""The lines of a Codex file of any version, in the current form."""

from datetime import datetime
from typing import Any, NamedTuple

from historyapp.core.importers.base import Skipped
from historyapp.core.importers.messages import moment
from historyapp.core.importers.recording import Recording
from historyapp.core.importers.records import present_fields
from historyapp.core.json import mapping, text

FORMAT = "codex_rollout"


class RolloutLine(NamedTuple):
    """One line of the file."""

    number: int
    kind: str
    payload: dict[str, Any]
    time: datetime | None

    def source(self) -> dict[str, Any]:
        """The source of an entry, for its metadata."""
        id = self.payload.get("id")
        return {"format": FORMAT, "line": self.number} | ({"id": id} if isinstance(id, str) else {})


def unwrap(number: int, record: dict[str, Any]) -> RolloutLine | Skipped:
    """The line in the current form. Files of 2025 have no payload around items and the first line."""
    kind, payload = record.get("type"), record.get("payload")
    time = moment(record.get("timestamp") or record.get("created_at"))
    if "payload" in record:
        if isinstance(kind, str) and isinstance(payload, dict):
            return RolloutLine(number, kind, payload, time)
        return Skipped(number, "record without a type or a payload")
    if "record_type" in record:
        return Skipped(number, "state record", damaged=False)
    if isinstance(kind, str):
        return RolloutLine(number, "response_item", record, time)
    if "role" in record:
        return RolloutLine(number, "response_item", {**record, "type": "message"}, time)
    if "id" in record and "instructions" in record:
        meta = {**record, "base_instructions": record["instructions"]}
        return RolloutLine(number, "session_meta", meta, time)
    return Skipped(number, "record without a type")


def as_item(event: RolloutLine) -> RolloutLine:
    """The item that an event is a copy of."""
    kind, message = event.payload["type"], event.payload.get("message", event.payload.get("text"))
    if kind == "agent_reasoning":
        item: dict[str, Any] = {"type": "reasoning", "summary": [{"text": message}]}
    else:
        role = "user" if kind == "user_message" else "assistant"
        item = {"type": "message", "role": role, "content": message}
    return event._replace(kind="response_item", payload=item)


def recording_of(meta: dict[str, Any], recording: Recording) -> Recording:
    """The session with the facts of its first line."""
    git, origin = mapping(meta.get("git")), mapping(mapping(meta.get("source")).get("subagent"))
    spawn = mapping(origin.get("thread_spawn"))
    parent = text(meta.get("parent_thread_id")) or text(spawn.get("parent_thread_id"))
    branch = text(git.get("branch"))
    return Recording(
        text(meta.get("id")) or recording.session,
        agent="codex",
        title=recording.title,
        model=recording.model,
        tags=(branch,) if branch else (),
        spawned_by=parent or None,
        metadata=present_fields(
            cwd=meta.get("cwd"),
            version=meta.get("cli_version"),
            originator=meta.get("originator"),
            source=meta.get("source"),
            forked_from=meta.get("forked_from_id"),
            commit=git.get("commit_hash"),
            repository=git.get("repository_url"),
        ),
    )

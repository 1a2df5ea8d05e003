"""What importers of growing transcripts share: sessions read entry by entry, outputs that come in parts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from historyapp.core.entries import Body, EntryDraft, ModelOutput
from historyapp.core.importers.base import Append, Operation, RewindTo, SessionStart
from historyapp.core.importers.messages import Calls, SourceCall

_MAX_HELD = 200


@dataclass(slots=True)
class Recording:
    """One session of a file. Its first operations are held back until title and model may be known."""

    session: str
    agent: str
    title: str = ""
    second_best_title: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    spawned_by: str | None = None
    partial_copy: str | None = None
    whole_copy: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    """Of the newest entry."""
    provisional: bool = False
    """Whether entries are given out now only because the file ended."""
    calls: Calls = field(init=False)
    _held: list[Operation] | None = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calls = Calls(self.session)

    @property
    def is_empty(self) -> bool:
        """Whether no operation of the session was given out yet, not even its start."""
        return self.position == 0 and self._held is not None

    def append(
        self, body: Body, created_at: datetime | None, metadata: Mapping[str, Any]
    ) -> Iterable[Operation]:
        """Appends an entry. Returns the operations that can be given out now."""
        draft = EntryDraft(body, created_at, metadata)
        return self._add(Append(self.session, draft, self.provisional))

    def rewind(self, to_position: int, reason: str) -> Iterable[Operation]:
        """The session goes on from an earlier position."""
        return self._add(RewindTo(self.session, to_position, reason, actor="user"))

    def release_held(self) -> Iterable[Operation]:
        """The session's start and all operations that were held back; nothing at later calls."""
        if self._held is None:
            return ()
        held, self._held = self._held, None
        start = SessionStart(
            self.session,
            title=self.title or self.second_best_title,
            agent=self.agent,
            model=self.model,
            tags=self.tags,
            spawned_by=self.spawned_by,
            partial_copy=self.partial_copy,
            whole_copy=self.whole_copy,
            metadata=self.metadata,
        )
        return (start, *held)

    def _add(self, operation: Append | RewindTo) -> Iterable[Operation]:
        self.position += 1
        if self._held is None:
            return (operation,)
        self._held.append(operation)
        return self.release_held() if len(self._held) >= _MAX_HELD else ()


@dataclass(slots=True)
class OutputParts:
    """A model output, collected from the parts in which a transcript holds it."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[SourceCall] = field(default_factory=list)
    reasoning: list[Any] = field(default_factory=list)
    """Provider blocks to be replayed as they are."""

    def body(self, calls: Calls, source: dict[str, Any]) -> ModelOutput:
        """The output. Where its calls needed other ids, ``source`` gets the file's ids as ``call_ids``."""
        tool_calls, renamed = calls.begin(self.calls)
        if renamed:
            source["call_ids"] = renamed
        return ModelOutput(
            thoughts="\n\n".join(filter(None, self.thoughts)) or None,
            text="\n\n".join(filter(None, self.texts)),
            tool_calls=tool_calls,
            reasoning=self.reasoning,
        )

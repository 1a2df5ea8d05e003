"""Sessions that are read entry by entry, and outputs that a transcript has in parts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from historyapp.core.entries import Body, EntryDraft, ModelOutput
from historyapp.core.importers.base import Append, Operation, RewindTo, SessionStart
from historyapp.core.importers.messages import CallMatcher, SourceCall

_MAX_HELD = 200


@dataclass(slots=True)
class Recording:
    """One session of a file. Its first operations are held until an output, which shows title and model."""

    session: str
    agent: str
    title: str = ""
    fallback_title: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    spawned_by: str | None = None
    partial_copy: str | None = None
    whole_copy: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    """The position of the newest entry."""
    provisional: bool = False
    """Whether entries are yielded only because the file ended."""
    calls: CallMatcher = field(init=False)
    _held: list[Operation] | None = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calls = CallMatcher(self.session)

    @property
    def is_empty(self) -> bool:
        """Whether the session has no operations."""
        return self.position == 0 and self._held is not None

    def append(
        self, body: Body, created_at: datetime | None, metadata: Mapping[str, Any]
    ) -> Iterable[Operation]:
        """Appends an entry. Returns the operations to yield now."""
        draft = EntryDraft(body, created_at, metadata)
        return self._add(Append(self.session, draft, self.provisional))

    def rewind(self, to_position: int, reason: str) -> Iterable[Operation]:
        """Rewinds to an earlier position. Returns the operations to yield now."""
        return self._add(RewindTo(self.session, to_position, reason, actor="user"))

    def release_held(self) -> Iterable[Operation]:
        """Returns the session's start and the held operations, and nothing when called again."""
        if self._held is None:
            return ()
        held, self._held = self._held, None
        start = SessionStart(
            self.session,
            title=self.title or self.fallback_title,
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
    """The parts of a model output."""

    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[SourceCall] = field(default_factory=list)
    reasoning: list[Any] = field(default_factory=list)
    """Provider blocks that are sent again unchanged."""

    def body(self, calls: CallMatcher, source: dict[str, Any]) -> ModelOutput:
        """The output. If tool calls get new ids, ``source`` gets the ids in the file as ``call_ids``."""
        tool_calls, renamed = calls.add_output(self.calls)
        if renamed:
            source["call_ids"] = renamed
        return ModelOutput(
            thoughts="\n\n".join(filter(None, self.thoughts)) or None,
            text="\n\n".join(filter(None, self.texts)),
            tool_calls=tool_calls,
            reasoning=self.reasoning,
        )

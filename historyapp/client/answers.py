"""What the server answers, typed. Fields that a newer server adds are kept as they come."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from historyapp.client.errors import NotYetKnown
from historyapp.core.conversation import call_text
from historyapp.core.entries import Body, load_body
from historyapp.core.text import Text

Item = TypeVar("Item")
R = TypeVar("R", bound="Recorded")


class Answer(BaseModel):
    """Base of all answers: frozen, and tolerant of what it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Page(Answer, Generic[Item]):
    items: list[Item]
    next: str | None = None
    """The cursor of the next page; null on the last one."""


class SessionItem(Answer):
    """A session as lists show it. Counters are of the live history."""

    id: UUID
    title: str
    agent: str
    model: str
    status: str
    """``live``, ``finished`` or ``archived``."""
    tags: list[str]
    head: int
    steps: int
    errors: int
    tokens: int
    cost: float
    """In US dollars, as its source reported it."""
    forked_from: UUID | None
    fork_position: int
    spawned_by: UUID | None
    created_at: datetime
    last_entry_at: datetime


class Settings(Answer):
    """How contexts are chosen and steps compressed; see :class:`historyapp.core.settings.SessionSettings`."""

    llm_name: str
    max_tokens: int | Literal["window"] | None
    spacy_language_model: str
    full_message_count: int
    window_size: int
    compression_batch_size: int
    compression_share: float | None
    """Of ``max_tokens``; null: none."""
    compression_strategy: str
    max_summary_length: int
    compress_automatically: bool
    policy: str


class Session(SessionItem):
    settings: Settings
    metadata: dict[Text, Any]
    instruction: Text | None
    """The current system instruction."""
    notebook: Text | None
    """The current memory notebook."""


class Unpaired(Answer):
    """A result that was recorded and answered no open call."""

    position: int
    index: int
    """Its place among the results of its entry, from 0."""
    tool_call_id: Text | None
    reason: str
    """``answered``, ``abandoned``, ``unknown`` or ``no_open_call``."""
    step: int | None
    """The step that made the call, where it is known."""


class Recorded(Answer):
    """What is known of a write."""

    @classmethod
    def in_spool(cls: type[R]) -> R:
        """The answer to a write that the server has not seen yet."""
        return cast(R, cls.model_construct())

    @property
    def spooled(self) -> bool:
        """Whether the write waits on disk for the server. Then the other fields raise ``NotYetKnown``."""
        return "head" not in self.__dict__

    if not TYPE_CHECKING:  # a type checker would take it for any attribute

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields:
                detail = f"`{name}` is not known yet: this write waits in the spool. Call flush() to send it."
                raise NotYetKnown({"detail": detail})
            return super().__getattr__(name)


class Appended(Recorded):
    positions: list[int]
    head: int
    unpaired: list[Unpaired] = []
    """Results among the entries that answered no open call."""


class Registered(Recorded):
    position: int
    """Of the newest entry that was appended."""
    number: int
    """The step's number in the live history."""
    head: int


class Entry(Answer):
    """One record of the log. The fields of its kind are in ``fields``, and typed in ``body``."""

    position: int
    kind: str
    created_at: datetime
    metadata: dict[Text, Any]
    tokens: int
    live: bool
    """False in a take: a part that a rewind cut off."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.model_extra or {}

    @property
    def body(self) -> Body:
        """The entry's body as the core has it.

        Raises:
            pydantic.ValidationError: when a newer server has a kind or a field that this client lacks.
        """
        return load_body(self.kind, self.fields)


class Action(Answer):
    name: Text
    arguments: Any


class ToolCall(Answer):
    id: Text
    name: Text
    arguments: Any


class ErrorDetails(Answer):
    """A Python exception as data."""

    args: list[Any]
    message: Text
    exception_type: Text
    repr: Text


class Result(Answer):
    """What came back; several results are shown as one."""

    status: str
    """``success``, ``error``, ``skipped`` or ``interrupted_by_human``."""
    tool_call_id: Text | None = None
    tool_name: Text | None = None
    outputs: Any = None
    reason: Text | None = None
    error: ErrorDetails | None = None
    feedback: Text | None = None


class EpisodeFacts(Answer):
    number: int
    status: str
    """``in_flight``, ``success``, ``error``, ``interrupted_by_human``, ``answered`` or ``abandoned``."""
    first_position: int
    last_position: int
    tokens: int
    started_at: datetime
    finished_at: datetime | None


class EpisodeItem(EpisodeFacts):
    """A step in a list: previews of up to 200 characters."""

    tool_names: list[Text]
    input_preview: Text
    thought_preview: Text
    call_preview: Text
    result_preview: Text


class Episode(EpisodeFacts):
    """A step with its bodies."""

    thoughts: Text | dict[Text, Any] | None
    action: Action | None
    """The first one where there are several; null in an answer."""
    tool_calls: list[ToolCall]
    result: Result | None
    summary: Text | None
    formatted: Text
    """The long form."""
    short: Text
    """The short form, in one sentence."""

    def format(self) -> str:
        """The long form."""
        return self.formatted

    def __str__(self) -> str:
        return self.formatted

    @property
    def call(self) -> str:
        """The action as ``name(argument=value)``; empty in an answer."""
        return call_text(self.action.name, self.action.arguments) if self.action else ""


class Summary(Answer):
    id: UUID
    from_step: int
    to_step: int
    first_position: int
    last_position: int
    level: int
    """1: one step, 2: a range, 3 and more: a digest of summaries."""
    text: Text
    key_points: list[Text]
    strategy: str
    model: str
    tokens_before: int
    tokens_after: int
    made_at: int
    """The head when it was made."""
    money: float | str | None
    """``unknown`` where the model's price is; null: no model was asked."""
    run: UUID | None
    """The compression that made it; null where none did."""
    created_at: datetime


class Range(Answer):
    """Entries of one session, both ends included."""

    session: str
    first_position: int
    last_position: int


class Rewound(Answer):
    """What a rewind did."""

    position: int
    """Of the rewind's own entry, by which it can be undone."""
    to_position: int
    cut_off: list[Range]
    steps_cut: int
    head: int


class Take(Answer):
    """A rewind and what it cut off, which stays readable with ``as_of`` one less than its position."""

    position: int
    to_position: int
    reason: Text | None
    actor: Text | None
    created_at: datetime
    cut_off: list[Range]


class TextAnswer(Answer):
    text: Text


class ImportedSession(Answer):
    id: UUID
    source_id: str
    title: str
    new: bool
    entries: int
    steps: int
    calls: int
    results: int
    unpaired_calls: int
    unpaired_results: int
    added: int
    """Entries that this import put into the log."""


class Skipped(Answer):
    line: int
    reason: str
    damaged: bool


class ImportedFile(Answer):
    name: str
    format: str
    sessions: list[ImportedSession]
    skipped: list[Skipped]
    skipped_count: int
    damaged_count: int
    error: str
    """Why reading ended before the end; else empty."""


class Imported(Answer):
    files: list[ImportedFile]

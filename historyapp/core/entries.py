"""The kinds of entry in the log: one frozen model for each, distinguished by ``kind``."""

from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictFloat,
    TypeAdapter,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from historyapp.core.beginnings import beginning, spaced_json_parts
from historyapp.core.embedded_json import with_shared_limit
from historyapp.core.json import text_or_json
from historyapp.core.provider_messages import ProviderToolCall, call_fields
from historyapp.core.text import Text

ResultStatus = Literal["success", "error", "skipped", "interrupted_by_human"]


PERSON = "user"
"""The channel of a person's inputs."""
INTERRUPTION = "interruption"
"""The channel of a note that a person interrupted the model."""
COMPACTION = "compaction"
"""The channel of a summary that replaces the history, and the category of the debug entry that says so."""
CONDENSATION = "condensation"
"""The category of debug entries that say that OpenHands' condenser removed something from the context."""
MAX_UNKNOWN = 20
"""The maximum number of unknown fields that an error names: each takes memory, and there may be millions."""


def check_unknown_fields(model: type[BaseModel], value: Any) -> Any:
    """The value, if the model knows nearly all of its fields.

    Raises:
        PydanticCustomError: one error for all unknown fields, if there are many.
    """
    if (
        isinstance(value, dict)
        and len(value) > MAX_UNKNOWN  # first, because reading the fields of the model costs more
        and len(value) > len(model.model_fields) + MAX_UNKNOWN
        and model.model_config.get("extra") == "forbid"
    ):
        raise PydanticCustomError(
            "many_fields", "has {fields} fields, most of them unknown", {"fields": len(value)}
        )
    return value


class StoredModel(BaseModel):
    """Base of stored models: immutable, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_unknown_fields(cls, value: Any) -> Any:
        few = not isinstance(value, dict) or len(value) <= MAX_UNKNOWN  # nearly always: saves a call
        return value if few else check_unknown_fields(cls, value)


class Thoughts(StoredModel):
    """Structured reasoning: an object with any fields, kept as they are."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        json_schema_extra={
            "properties": {"summary": {"description": "Text that stands for them in lists and contexts."}}
        },
    )

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    @property
    def text(self) -> str:
        """What lists and contexts show: the ``summary`` unless it is blank, else one line for each field."""
        fields = self.model_extra or {}
        summary = fields.get("summary")
        if isinstance(summary, str) and summary.strip():
            return summary
        filled = ((name, value) for name, value in fields.items() if value not in (None, ""))
        return "\n".join(f"{name}: {text_or_json(value)}" for name, value in filled)

    def beginning(self, length: int) -> str:
        """More than ``length`` characters of the text, or all. There may be many fields."""
        fields = self.model_extra or {}
        summary = fields.get("summary")
        if isinstance(summary, str) and summary.strip():
            return summary
        filled = ((name, value) for name, value in fields.items() if value not in (None, ""))
        parts = (
            part
            for number, (name, value) in enumerate(filled)
            for part in chain(("\n" if number else "", f"{name}: "), spaced_json_parts(value))
        )
        return beginning(parts, length)


def _thoughts_object(thoughts: Any) -> Any:
    """Converts reasoning in a pydantic model of the agent's own to the object that the log stores."""
    if isinstance(thoughts, BaseModel) and not isinstance(thoughts, Thoughts):
        return thoughts.model_dump(mode="json")
    return thoughts


ThoughtsInput = Annotated[Text | Thoughts | None, BeforeValidator(_thoughts_object)]


class ToolCall(StoredModel):
    """One tool call of a provider's API."""

    id: Text
    name: Text
    arguments: Any = Field(default_factory=dict)
    """An object, or the raw text if the model wrote something that is not a JSON object."""


_OWN_FIELDS = frozenset(("id", "name", "arguments"))


def _check_name(tool_call: Any) -> Any:
    if not isinstance(tool_call, dict):
        return tool_call
    if not _OWN_FIELDS.issuperset(tool_call):
        tool_call = call_fields(tool_call)
    if tool_call.get("name") is None:
        raise PydanticCustomError(
            "call_without_name",
            'has no name. Name the tool: {"id": "call_1", "name": "read_file", "arguments": {}}',
        )
    return tool_call


ToolCallInput = Annotated[
    ToolCall, BeforeValidator(_check_name, json_schema_input_type=ToolCall | ProviderToolCall)
]
"""A tool call in our shape or in a provider's."""


class UseTool(StoredModel):
    """One action of an agent whose model writes it as text, without provider tool calls."""

    name: Text
    arguments: dict[Text, Any] = Field(default_factory=dict)


class ErrorDetails(StoredModel):
    """A Python exception as data; see :func:`historyapp.core.actions.from_exception`."""

    args: list[Any] = Field(default_factory=list)
    message: Text
    exception_type: Text
    repr: Text


class ToolResult(StoredModel):
    """The result of one tool call, or of the whole action if ``tool_call_id`` is null."""

    tool_call_id: Text | None = None
    tool_name: Text | None = None
    status: ResultStatus
    outputs: Any = None
    """With ``success``: any JSON value, also null."""
    reason: Text | None = None
    """With ``error`` and ``skipped``: why, in words."""
    error: ErrorDetails | None = None
    feedback: Text | None = None
    """With ``interrupted_by_human``: what the person wrote."""


class EntryBody(StoredModel):
    """Base of the kinds of entry. A kind defines what a model and a person read of it."""

    in_step: ClassVar[bool] = False
    """Whether it belongs to a step: an output, its results and its reviews."""
    is_input: ClassVar[bool] = False
    """Whether contexts show it to the model between two steps, as a user's message unless it has a
    channel."""

    @property
    def message_content(self) -> Any:
        """The content outside steps: text, or a list of parts; empty when there is nothing to show."""
        return ""

    @property
    def heading(self) -> str:
        """The title of the entry for people."""
        return self.kind_name().replace("_", " ")

    @classmethod
    def kind_name(cls) -> str:
        return str(cls.model_fields["kind"].default)


class SystemInstruction(EntryBody):
    """Becomes the current instruction."""

    kind: Literal["system_instruction"] = "system_instruction"
    text: Text

    @property
    def message_content(self) -> str:
        return self.text


class MemoryNotebook(EntryBody):
    """Becomes the current notebook."""

    kind: Literal["memory_notebook"] = "memory_notebook"
    content: Text

    @property
    def message_content(self) -> str:
        return self.content


class ModelInput(EntryBody):
    """A message of a person or another program to the agent."""

    is_input: ClassVar[bool] = True
    kind: Literal["model_input"] = "model_input"
    channel: Text = PERSON
    raw_input: Any = None
    """The input as it arrived, if ``content`` is a rendering of it."""
    content: Any
    """Text, or a list of neutral parts: ``{"type": "text", "text": …}``, ``{"type": "image", …}``."""

    @property
    def message_content(self) -> Any:
        return self.content

    @property
    def heading(self) -> str:
        return self.channel


class ModelOutput(EntryBody):
    """What the model proposed or answered. It starts an episode."""

    in_step: ClassVar[bool] = True
    kind: Literal["model_output"] = "model_output"
    thoughts: ThoughtsInput = None
    text: Text = ""
    tool_calls: Annotated[tuple[ToolCallInput, ...], FailFast(), WrapValidator(with_shared_limit)] = ()
    use_tool: UseTool | None = None
    reasoning: list[Any] = Field(default_factory=list)
    """Opaque provider blocks (thinking, signatures, encrypted reasoning), kept verbatim."""
    raw_message: dict[Text, Any] | None = None
    """The assistant message exactly as the provider gave it."""

    @property
    def thoughts_text(self) -> str:
        """The thoughts as contexts and lists show them; empty if there are none."""
        return self.thoughts.text if isinstance(self.thoughts, Thoughts) else self.thoughts or ""

    def thoughts_beginning(self, length: int) -> str:
        """More than ``length`` characters of the thoughts' text, or all."""
        thoughts = self.thoughts
        return thoughts.beginning(length) if isinstance(thoughts, Thoughts) else thoughts or ""


class ToolResults(EntryBody):
    """Results of the newest output's tool calls. Parallel calls may have them in one entry or in several."""

    in_step: ClassVar[bool] = True
    kind: Literal["tool_results"] = "tool_results"
    overall: Text | None = None
    results: Annotated[tuple[ToolResult, ...], FailFast()] = Field(min_length=1)


class Review(EntryBody):
    """A judgement of the newest episode."""

    in_step: ClassVar[bool] = True
    kind: Literal["review"] = "review"
    analysis: Any = None
    supervision: Any = None
    score: StrictFloat | None = None
    passed: StrictBool | None = None


class DebugLog(EntryBody):
    """A note for people, which no model reads."""

    kind: Literal["debug_log"] = "debug_log"
    category: Text
    message: Text

    @property
    def message_content(self) -> str:
        return self.message

    @property
    def heading(self) -> str:
        return f"debug: {self.category}"


class Rewind(EntryBody):
    """Makes the lineage end at ``to_position``; ``spans`` and ``older`` are the lineage after it."""

    kind: Literal["rewind"] = "rewind"
    to_position: int = Field(ge=0)
    spans: Annotated[tuple[tuple[str, int, int], ...], FailFast()]
    """``(session id, first position, last position)``, oldest first: the newest spans, or all if ``older``
    is empty. Rewinds of earlier versions store all."""
    older: Annotated[tuple[Annotated[tuple[tuple[str, int, int], ...], FailFast()], ...], FailFast()] = ()
    """Pointers to the older spans; see :class:`historyapp.core.lineage.Lineage`:
    ``(session id, position of a rewind or a fork point, first position)``."""
    reason: Text | None = None
    actor: Text | None = None


Body = (
    SystemInstruction | MemoryNotebook | ModelInput | ModelOutput | ToolResults | Review | DebugLog | Rewind
)
BODY: TypeAdapter[Body] = TypeAdapter(Annotated[Body, Field(discriminator="kind")])
BODIES: tuple[type[Body], ...] = get_args(Body)
KINDS = tuple([body.kind_name() for body in BODIES])
STEP_KINDS = tuple([body.kind_name() for body in BODIES if body.in_step])
INPUT_KINDS = tuple([body.kind_name() for body in BODIES if body.is_input])


_NO_METADATA: Mapping[str, Any] = {}


class EntryDraft(NamedTuple):
    """An entry that is not appended yet, so it has no position."""

    body: Body
    created_at: datetime | None = None
    """When it happened, with a time zone; null: when it is appended."""
    metadata: Mapping[str, Any] = _NO_METADATA
    """Any fields: source, latency, provider, ``usage``, ``cost`` …"""


class Entry(NamedTuple):
    """One immutable record of the log."""

    position: int
    body: Body
    created_at: datetime
    """:data:`historyapp.core.dates.UNDATED` where the transcript has no times."""
    metadata: Mapping[str, Any] = _NO_METADATA
    tokens: int = 0

    @property
    def kind(self) -> str:
        return self.body.kind


def load_body(kind: str, data: Mapping[str, Any]) -> Body:
    """The model of a stored body.

    Raises:
        pydantic.ValidationError: when the data does not fit its kind.
    """
    return BODY.validate_python({**data, "kind": kind})


def dump_body(body: Body) -> dict[str, Any]:
    """The body as it is stored: without ``kind`` (its own column) and without fields at their default."""
    # ``kind`` is a default in every body. ``model_dump`` takes 1.5 times as long for a short one.
    dumped: dict[str, Any] = body.__pydantic_serializer__.to_python(body, exclude_defaults=True)
    return dumped


def text_of(content: Any) -> str:
    """The text in an input's ``content``: itself, or its text parts joined by blank lines."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "\n\n".join(text for text in texts if isinstance(text, str))
    return "" if content is None else str(content)


def marks_compaction(kind: str, name: str) -> bool:
    """Whether an entry says that the agent compacted its context.

    Args:
        name: the channel of an input, or the category of a debug entry.
    """
    if kind == "debug_log":
        return name.lower() in (COMPACTION, CONDENSATION)
    return kind == "model_input" and name == COMPACTION

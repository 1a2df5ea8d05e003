"""The interface of the views of tool calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from django.utils.functional import cached_property

from dashboard.rendering.blocks import TERMINAL, Block, BlockOptions, Folder
from dashboard.rendering.harness import MessagePart, message_parts
from dashboard.rendering.images import image_block
from dashboard.rendering.values import LabelledValue, argument_values, tree_block
from historyapp.core.call_subjects import CallSubject, call_subject
from historyapp.core.content import are_parts
from historyapp.core.entries import ToolResult
from historyapp.core.failures import check_of, likely_failure, without_error_tag
from historyapp.core.named_files import file_in_window
from historyapp.core.numbering import NumberedCode, numbered_code
from historyapp.core.text import preview

MAX_PARTS = 20
"""The maximum number of texts of one result that are shown one by one, and of images and other parts."""


@dataclass(frozen=True)
class RecordedCall:
    """A tool call with its result, as views get it."""

    name: str
    arguments: Any
    """An object, or the text that the model wrote."""
    result: ToolResult | None = None
    """None: no result was recorded."""
    diff: str = ""
    """What an edit changed, as the agent recorded it; see :mod:`historyapp.core.recorded_diffs`."""

    @cached_property
    def subject(self) -> CallSubject:
        """What it is about. SWE-agent's edit names no file; its result shows the file."""
        subject = call_subject(self.name, self.arguments)
        is_of_open_file = subject.kind == "edit" and not subject.files and self.result is not None
        if is_of_open_file and (file := preview(file_in_window(self.text))):
            return CallSubject("edit", file, (file,))
        return subject

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The arguments by name; empty if they are a text."""
        return self.arguments if isinstance(self.arguments, Mapping) else {}

    def text_of(self, *names: str) -> str:
        """The first of these arguments that is a text; empty if none is."""
        values = (self.fields.get(name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), "")

    @cached_property
    def outputs(self) -> Any:
        """The result: the outputs, or the reason of an error."""
        if self.result is None:
            return None
        if self.result.outputs is None:
            return None if self.result.reason is None else without_error_tag(self.result.reason)
        return self.result.outputs

    @cached_property
    def answer(self) -> list[MessagePart]:
        """The result if it is text, with the harness's additions separated; empty for other values."""
        if isinstance(self.outputs, str):
            return message_parts(self.outputs)
        if not are_parts(self.outputs):
            return []
        parts = (part.get("text") for part in self.outputs if isinstance(part, dict))
        texts = [text for text in parts if isinstance(text, str)]
        if len(texts) > MAX_PARTS:
            texts[MAX_PARTS:] = ["\n\n".join(texts[MAX_PARTS:])]
        return [part for text in texts for part in message_parts(text)]

    @cached_property
    def text(self) -> str:
        """The text of the result, without the harness's additions; empty for other values."""
        return "\n".join(part.text for part in self.answer if not part.tag)

    @cached_property
    def numbered(self) -> NumberedCode | None:
        """The text as lines with their numbers, if it has them. An edit may look for many places in it."""
        return numbered_code(self.text)

    @property
    def has_failed(self) -> bool:
        """Whether it reported an error."""
        return self.result is not None and self.result.status == "error"

    @cached_property
    def looks_failed(self) -> bool:
        """Whether it reported an error, or its result looks like a failure. A file may look like one, too."""
        if self.result is None or self.has_failed:
            return self.has_failed
        check = check_of(self.name, self.arguments, self.subject.kind)
        return likely_failure(self.result, check) is not None


@dataclass(slots=True)
class Card:
    """The content that a view shows for a call."""

    title: str = ""
    """In one line: the command, file, pattern or address."""
    facts: list[str] = field(default_factory=list)
    """Small remarks beside the title: the folder, a range of lines, a count."""
    badge: str = ""
    """How the call ended, if the result says more than its status, for example ``exit 1``."""
    is_bad: bool = False
    """Whether the badge says that the call failed."""
    found_nothing: bool = False
    """Whether it is a search whose reported error says only that nothing matches."""
    values: list[LabelledValue] = field(default_factory=list)
    """Arguments that the view shows nowhere else."""
    request: list[Block] = field(default_factory=list)
    response: list[Block] = field(default_factory=list)


class CallBlocks:
    """Makes the blocks of one call. Their keys contain the index of the call in its step."""

    def __init__(self, folder: Folder, index: int) -> None:
        self.folder = folder
        self.index = index

    def _key(self, side: str, key: str) -> str:
        return f"{side}-{self.index}-{key}" if key else f"{side}-{self.index}"

    def request(
        self, key: str, text: str, language: str = TERMINAL, label: str = "", **more: Unpack[BlockOptions]
    ) -> Block:
        """A text of the request."""
        return self.folder.block(self._key("call", key), text, language, label, **more)

    def response(
        self, key: str, text: str, language: str = TERMINAL, label: str = "", **more: Unpack[BlockOptions]
    ) -> Block:
        """A text of the result."""
        return self.folder.block(self._key("result", key), text, language, label, **more)

    def tree(self, key: str, value: Any, label: str = "") -> Block:
        """A JSON value of the result."""
        return tree_block(self.folder, self._key("result", key), value, label)

    def image(self, key: str, part: Any) -> Block | None:
        """An image of the result, or None if the part is not an image."""
        return image_block(self.folder, self._key("result", key), part)


@dataclass(frozen=True, slots=True)
class ToolView:
    """Shows calls whose arguments and results have one shape."""

    name: str
    """Lower case; the name of the file."""
    fits: Callable[[RecordedCall], bool]
    """Whether the view can show a call. It must check arguments and result, not only the name."""
    draw: Callable[[RecordedCall, CallBlocks], Card]
    """Called only if ``fits`` returns true. It must show every argument and the whole result."""


def answer_blocks(
    tool_call: RecordedCall, make: CallBlocks, draw_text: Callable[[str, str], list[Block]]
) -> list[Block]:
    """The whole result: texts as ``draw_text`` shows them, the harness's additions folded, images as images,
    and other values as trees.

    Args:
        draw_text: called with a text and the end of the key of its block.
    """
    blocks: list[Block] = []
    for number, part in enumerate(tool_call.answer):
        key = str(number) if number else ""
        if part.tag:
            blocks.append(make.response(key, part.text, label=part.tag, is_aside=True))
        else:
            blocks += draw_text(part.text, key)
    if isinstance(tool_call.outputs, str) or tool_call.outputs is None:
        return blocks
    if not are_parts(tool_call.outputs):
        return [*blocks, make.tree("", tool_call.outputs)]
    others = [
        part
        for part in tool_call.outputs
        if not (isinstance(part, dict) and isinstance(part.get("text"), str))
    ]
    for number, part in enumerate(others[:MAX_PARTS]):
        blocks.append(make.image(f"part{number}", part) or make.tree(f"part{number}", part))
    if len(others) > MAX_PARTS:
        blocks.append(make.tree("parts", others[MAX_PARTS:]))
    return blocks


def further_values(tool_call: RecordedCall, make: CallBlocks, *shown: str) -> list[LabelledValue]:
    """The arguments that a view has not shown."""
    others = {name: value for name, value in tool_call.fields.items() if name not in shown}
    return argument_values(make.folder, f"call-{make.index}-rest", others) if others else []

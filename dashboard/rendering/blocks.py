"""Blocks: the texts of a step, folded so that showing a step costs the same at any size."""

from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from django.utils.safestring import SafeString

from dashboard.rendering.code import highlighted
from dashboard.rendering.line_breaks import page_end, part_end, with_breaks
from dashboard.rendering.lines import diff_lines, matches, numbered_lines, side_by_side, task_list
from dashboard.rendering.markdown import markdown
from dashboard.rendering.text import terminal
from dashboard.rendering.tree import tree
from historyapp.core.image_sizes import ShownImages
from historyapp.core.line_diff import WorkLeft, rewritten_ends

HEAD_LINES, HEAD_CHARACTERS = 40, 4_000
"""The maximum number of lines and characters that are shown of one block before it is opened."""
LONG = 10_000
"""A text with at least this many hidden characters has a link to a page of its own."""
PAGE_CHARACTERS = 60_000
"""Characters added each time a reader opens more, if a browser lays them out at once."""
STEP_CHARACTERS = 16_000
"""Characters shown of all blocks of one step together, so that a move of the playhead stays under 30 KB."""
MIN_CHARACTERS, RESERVED_CHARACTERS = 200, 4_000
"""The minimum characters of a block: enough to show a short command in full after long blocks have used up
the step's characters. They come from a reserved part."""
ASIDE_CHARACTERS = 400
"""The maximum number of characters that are shown of a block that is closed at first."""

TERMINAL, MARKDOWN = "terminal", "markdown"
SCREEN = "screen"
"""Output of a shell: dark in both schemes."""
DIFF, SPLIT = "diff", "split"
"""A diff of one file, with the changes below each other or side by side."""
MATCHES, TASKS = "matches", "tasks"
TREE = "tree"
"""A JSON value; the text is the value as JSON."""
IMAGE = "image"
"""The text is the image in base64."""


@dataclass(frozen=True, slots=True)
class Block:
    """One text of a step and the part of it that is shown."""

    key: str
    """The key of the block within its step, for example ``call-0-command``."""
    text: str
    language: str = TERMINAL
    """How it is shown: one of the constants of this module, or a language that pygments knows."""
    label: str = ""
    start: int = 0
    end: int = 0
    """Characters ``start`` to ``end`` are shown."""
    first_line: int = 0
    """The number of the first line of code; 0: its lines have no numbers."""
    code: str = "text"
    """The language of the code in a diff."""
    value: Any = None
    """The value of a tree."""
    is_aside: bool = False
    """Whether the block is closed at first, below its label."""

    @property
    def html(self) -> SafeString:
        return with_breaks(self._drawn())

    def _drawn(self) -> SafeString:
        shown = self.text[self.start : self.end]
        span = self.start, self.end
        match self.language:
            case "terminal" | "screen":
                return terminal(shown)
            case "markdown":
                return markdown(shown)
            case "diff":
                return diff_lines(self.text, span, self.code)
            case "split":
                return side_by_side(self.text, span, self.code)
            case "matches":
                return matches(shown)
            case "tasks":
                return task_list(shown)
            case "tree":
                return tree(self.value, self.end)[0]
            case "image":
                return SafeString()  # the template names its address
        if self.first_line:
            return numbered_lines(self.text, span, self.first_line, self.language)
        return highlighted(shown, self.language)

    @property
    def shape(self) -> str:
        """The element that the template uses: ``lines`` for code with line numbers, ``code`` for code
        without."""
        if self.language in (TERMINAL, SCREEN, MARKDOWN, DIFF, SPLIT, MATCHES, TASKS, TREE, IMAGE):
            return self.language
        return "lines" if self.first_line else "code"

    @property
    def is_diff(self) -> bool:
        return self.language == DIFF

    @property
    def can_be_copied(self) -> bool:
        """Whether the block itself has a button that copies it."""
        return self.shape in ("terminal", "screen", "code", "lines", "matches") and bool(self.end)

    @property
    def split(self) -> "Block":
        """A diff with its changes side by side."""
        return replace(self, language=SPLIT)

    @property
    def hidden_characters(self) -> int:
        return len(self.text) - self.end

    @property
    def hidden_lines(self) -> int:
        hidden = self.text[self.end :]
        return hidden.count("\n") + (not hidden.endswith("\n")) if hidden else 0

    @property
    def is_long(self) -> bool:
        """Whether its first part has a link to a page of its own, with a search in it."""
        return not self.start and self.hidden_characters > LONG and self.language != IMAGE

    @property
    def added(self) -> int:
        """Lines that a diff adds."""
        return f"\n{self.text}".count("\n+") - rewritten_ends(self.text)

    @property
    def removed(self) -> int:
        """Lines that a diff removes."""
        return f"\n{self.text}".count("\n-") - rewritten_ends(self.text)

    def page(self, start: int) -> "Block":
        """The part that follows ``start``. A tree continues as text from the start of its value."""
        language = self.language
        if language == TREE:
            start, language = (0 if start == self.end else start), "json"
        start = max(0, min(start, len(self.text)))
        end = page_end(self.text, start, PAGE_CHARACTERS)
        return replace(self, start=start, end=end, language=language, is_aside=False)


class BlockOptions(TypedDict, total=False):
    """Further fields of a :class:`Block`."""

    first_line: int
    code: str
    value: Any
    is_aside: bool


class Folder:
    """Makes the blocks of one step. The more they have shown, the less each further block shows."""

    def __init__(self) -> None:
        self._left = STEP_CHARACTERS - RESERVED_CHARACTERS
        self._reserve = RESERVED_CHARACTERS
        self.blocks: dict[str, Block] = {}
        """Every block made, by key."""
        self.work = WorkLeft()
        """For comparing the texts of the step's edits."""
        self.images = ShownImages()

    def block(
        self,
        key: str,
        text: str,
        language: str = TERMINAL,
        label: str = "",
        *,
        is_closed: bool = False,
        **options: Unpack[BlockOptions],
    ) -> Block:
        """A block that shows its first lines, or less if the step's other blocks have used up the space.

        Args:
            is_closed: whether it is inside an element that is closed at first.
        """
        limit = ASIDE_CHARACTERS if options.get("is_aside") or is_closed else HEAD_CHARACTERS
        end = part_end(text, 0, min(limit, self._left), HEAD_LINES)
        if end < MIN_CHARACTERS and len(text) > end:
            end = max(end, part_end(text, 0, min(MIN_CHARACTERS, end + self._reserve), HEAD_LINES))
        if len(text) - end < 200 and self._left >= len(text):  # too short to fold
            end = len(text)
        if language == IMAGE:
            end = len(text)  # the page only links to the image
        else:
            self._reserve -= max(0, end - self._left)
            self._left = max(0, self._left - end)
        self.blocks[key] = Block(key, text, language, label, 0, end, **options)
        return self.blocks[key]

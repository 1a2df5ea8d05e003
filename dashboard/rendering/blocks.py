"""Blocks: the texts that a step is made of, folded so that a step costs the same however much it holds."""

from dataclasses import dataclass, replace

from django.utils.safestring import SafeString

from dashboard.rendering.code import highlighted
from dashboard.rendering.markdown import markdown
from dashboard.rendering.text import terminal

HEAD_LINES, HEAD_CHARACTERS = 40, 4_000
"""The most lines and characters that are shown of one block before it is opened."""
PAGE_CHARACTERS = 60_000
"""Characters added each time a reader opens more."""
STEP_CHARACTERS = 18_000
"""Characters shown of all blocks of one step together, so that a move of the playhead stays under 30 KB."""
STEP_COMPARISONS = 10_000_000
"""What comparing the edits of one step may cost: a second or two. Others are shown as old and new."""

TERMINAL, MARKDOWN = "terminal", "markdown"


@dataclass(frozen=True, slots=True)
class Block:
    """One text of a step and the part of it that is shown."""

    key: str
    """Names the block within its step, as in ``call-0-command``."""
    text: str
    language: str = TERMINAL
    """``terminal``, ``markdown``, or a language that pygments knows."""
    label: str = ""
    start: int = 0
    end: int = 0
    """Characters ``start`` to ``end`` are shown."""

    @property
    def html(self) -> SafeString:
        shown = self.text[self.start : self.end]
        if self.language == TERMINAL:
            return terminal(shown)
        return markdown(shown) if self.language == MARKDOWN else highlighted(shown, self.language)

    @property
    def hidden_characters(self) -> int:
        return len(self.text) - self.end

    @property
    def hidden_lines(self) -> int:
        rest = self.text[self.end :]
        return rest.count("\n") + (not rest.endswith("\n")) if rest else 0

    def page(self, start: int) -> "Block":
        """The part that follows ``start``."""
        start = max(0, min(start, len(self.text)))
        return replace(self, start=start, end=_end(self.text, start, PAGE_CHARACTERS))


class Folder:
    """Makes the blocks of one step, and shows less of each as their sum grows."""

    def __init__(self) -> None:
        self._left = STEP_CHARACTERS
        self._comparisons = STEP_COMPARISONS
        self.blocks: dict[str, Block] = {}
        """Every block made, by key."""

    def may_compare(self, comparisons: int) -> bool:
        """Whether the step's budget is enough for an edit, which then takes its part of it."""
        if comparisons > self._comparisons:
            return False
        self._comparisons -= comparisons
        return True

    def block(self, key: str, text: str, language: str = TERMINAL, label: str = "") -> Block:
        """A block that shows its first lines, or less when the step has shown enough."""
        end = _end(text, 0, min(HEAD_CHARACTERS, self._left), HEAD_LINES)
        if len(text) - end < 200 and self._left >= len(text):  # not worth a fold
            end = len(text)
        self._left -= end
        self.blocks[key] = Block(key, text, language, label, 0, end)
        return self.blocks[key]


def _end(text: str, start: int, characters: int, lines: int | None = None) -> int:
    """Where a part ends: after the given characters or lines, at a line's end if one is near."""
    limit = min(len(text), start + max(0, characters))
    position = start
    for _ in range(lines or 0):
        position = text.find("\n", position, limit) + 1
        if not position:
            break
    else:
        if lines:
            return position
    if limit == len(text):
        return limit
    newline = text.rfind("\n", start + (limit - start) // 2, limit)
    return newline + 1 if newline >= 0 else limit

"""Finds a text in a session: in its blocks, and in the entries after them.

One search reads a bounded number of blocks and entries. If it stops early, the next search continues there.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from historyapp.core.command_files import MAX_PARSED
from historyapp.core.errors import Invalid
from historyapp.core.lineage import Span
from historyapp.core.named_files import NamedFile
from historyapp.core.searchable import Match, Passage, lowered, matches, trigrams
from historyapp.models.history import History
from historyapp.models.lineage_blocks import Piece
from historyapp.models.text_blocks import (
    BLOCK_CHARACTERS,
    BLOCK_ENTRIES,
    ReadPassages,
    read_entries,
)
from historyapp.models.visibility import OF_THE_AGENT, hides_results

MAX_CHARACTERS = 200
"""The maximum number of characters of a text to find."""
MAX_HITS = 2_000
"""Hits of one batch."""
MAX_BLOCKS = 400
"""The maximum number of blocks of one search. Each takes about 0.3 ms."""
MAX_ENTRIES = 3_000
"""The maximum number of entries outside of blocks of one search. Each takes about 0.03 ms."""
MAX_TEXT, MAX_BLOCK_TEXT = 1 << 24, 1 << 26
"""The maximum number of characters of these entries and blocks. A block may have one entry of any length."""


class Hit(NamedTuple):
    """An entry that contains the text."""

    session: UUID
    live: bool
    match: Match


@dataclass(slots=True)
class TextMatches:
    """The hits of one search, oldest first."""

    hits: list[Hit] = field(default_factory=list)
    more: int | None = None
    """The position after which the next search continues. None if the search is complete."""
    more_step: int | None = None
    """The step of the last hit, if the search stopped there."""
    unindexed: set[UUID] = field(default_factory=set)
    """The session, if its entries or those that it shares are not all in blocks."""


def wanted_text(text: str) -> str:
    """Strips and checks a text to find.

    Raises:
        Invalid: if the text is empty or too long.
    """
    text = text.strip()
    if not text:
        raise Invalid("The text to find is empty. Give at least one character.")
    if len(text) > MAX_CHARACTERS:
        raise Invalid(
            f"The text to find has {len(text):,} characters. Use at most {MAX_CHARACTERS:,} of them."
        )
    return text


def wanted_trigrams(needle: str) -> set[int]:
    """The trigrams of a text. Every block with the text has them. Empty for a text of one or two bytes.

    Args:
        needle: in lower case.
    """
    return trigrams(needle) if len(needle.encode("utf-8", "surrogatepass")) > 2 else set()


class TextSearch:
    """Searches the live entries of a history, and on request its takes, for a text.

    Args:
        text: see :func:`wanted_text`.
        with_takes: also search takes.
        named_file: search only calls that name it. At most :data:`MAX_PARSED` characters of their command
            lines are parsed.
    """

    def __init__(
        self,
        history: History,
        text: str,
        *,
        with_takes: bool = False,
        named_file: NamedFile | None = None,
    ) -> None:
        self.history = history
        self.named_file = named_file
        self.needle = lowered(wanted_text(text))
        self.trigrams = wanted_trigrams(self.needle)
        self.with_takes = with_takes and history.visible.takes
        self.blocks_left, self.block_text_left = MAX_BLOCKS, MAX_BLOCK_TEXT
        self.entries_left, self.text_left = MAX_ENTRIES, MAX_TEXT

    def find(
        self,
        limit: int,
        after: int = 0,
        last: int | None = None,
        *,
        newest_first: bool = False,
        max_steps: int = MAX_HITS,
    ) -> TextMatches:
        """At most ``limit`` hits in at most ``max_steps`` steps, in order, after a position and up to
        ``last`` if it is given.

        With newest first, the entries before the position ``more`` have not been searched.
        """
        result, steps = TextMatches(), set[int]()
        blocks = self.history.blocks
        end = blocks.last if last is None else min(last, blocks.last)
        for piece in blocks.pieces(after + 1, end, newest_first=newest_first):
            reached = piece.last + 1 if newest_first else piece.first - 1
            for read in self._read(piece, result, newest_first=newest_first):
                hits = self._hits(read.passages, piece.first, piece.last)
                for hit in hits[::-1] if newest_first else hits:
                    if len(result.hits) == limit or (len(steps) == max_steps and hit.match.step not in steps):
                        result.more, result.more_step = (
                            result.hits[-1].match.position,
                            result.hits[-1].match.step,
                        )
                        return result
                    steps.add(hit.match.step)
                    result.hits.append(hit)
                reached = read.first if newest_first else read.last
            if self._has_reached_limits:
                result.more = max(reached, piece.first) if newest_first else min(reached, piece.last)
                return result
        return result

    def _hits(self, read: Iterable[Passage], first: int, last: int) -> list[Hit]:
        accepted: Iterator[Passage] = filter(lambda one: first <= one.position <= last, read)
        accepted = self.named_file.first_calls(accepted) if self.named_file else accepted
        if not self.history.visible.inputs:
            accepted = filter(lambda one: one.field in OF_THE_AGENT, accepted)
        hits = [self._hit(match) for match in matches(accepted, self.needle)]
        hits = [hit for hit in hits if hit.live or self.with_takes]
        if self.history.visible.inputs:
            return hits
        # Results may contain a person's text.
        steps = {hit.match.step for hit in hits if hit.match.field == "result" and hit.live}
        rows = self.history.load(steps) if steps else {}
        shown = {number for number in steps if number in rows and not hides_results(rows[number])}
        return [hit for hit in hits if hit.match.field != "result" or (hit.live and hit.match.step in shown)]

    @property
    def _has_reached_limits(self) -> bool:
        parsed_left = MAX_PARSED - self.named_file.parsed if self.named_file else 1
        return (
            min(self.blocks_left, self.block_text_left, self.entries_left, self.text_left, parsed_left) <= 0
        )

    def _hit(self, match: Match) -> Hit:
        live = self.history.lineage.session_at(match.position)
        return Hit(UUID(live or self.history.blocks.owner(match.position)), live is not None, match)

    def _read(self, piece: Piece, result: TextMatches, *, newest_first: bool) -> Iterator[ReadPassages]:
        """Passages that may contain the text."""
        if piece.in_blocks:
            yield from self._read_blocks(piece, newest_first=newest_first)
        else:
            yield from self._read_entries(piece.spans, result, newest_first=newest_first)

    def _read_blocks(self, piece: Piece, *, newest_first: bool) -> Iterator[ReadPassages]:
        for read in self.history.blocks.texts(
            piece, self.trigrams, self.needle, self.blocks_left, newest_first=newest_first
        ):
            self.blocks_left -= 1
            self.block_text_left -= read.size
            yield read
            if self._has_reached_limits:
                break

    def _read_entries(
        self, spans: Sequence[Span], result: TextMatches, *, newest_first: bool
    ) -> Iterator[ReadPassages]:
        count, text = 0, 0
        for read in read_entries(spans, newest_first=newest_first):
            count, text = count + 1, text + sum([len(passage.text) for passage in read.passages])
            self.entries_left -= 1
            self.text_left -= read.size
            if count >= BLOCK_ENTRIES or text >= BLOCK_CHARACTERS:
                result.unindexed.add(self.history.session.pk)
            yield read
            if self._has_reached_limits:
                break


def in_steps(hits: Iterable[Hit], steps: int) -> dict[int, list[Hit]]:
    """Live hits by the step that shows them. The newest step shows the inputs after it."""
    by_step: dict[int, list[Hit]] = {}
    for hit in hits:
        if hit.live:
            by_step.setdefault(min(hit.match.step, steps), []).append(hit)
    return by_step

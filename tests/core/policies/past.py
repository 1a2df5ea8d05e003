"""Sessions in memory, as policies read them."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from historyapp.core.conversation import InputMessage, input_messages
from historyapp.core.entries import Entry, MemoryNotebook, ModelInput, SystemInstruction, ToolResults
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.excerpts import (
    ExcerptLine,
    FoundLine,
    TextLines,
    begin_excerpt,
    continue_excerpt,
    read_text,
)
from historyapp.core.identifiers import identifiers
from historyapp.core.policies.base import Origin, RangeSummary, StepOutline
from historyapp.core.results import returned_text
from historyapp.core.tokens import count_tokens, entry_tokens


@dataclass
class Summary:
    """A summary as the database would hold it."""

    id: str
    first_position: int
    last_position: int
    first_step: int
    last_step: int
    text: str
    level: int = 2
    key_points: Sequence[str] = ()


class MemoryPast:
    """Live entries as of a position (None: the newest)."""

    def __init__(
        self, entries: Iterable[Entry], summaries: Sequence[Summary] = (), as_of: int | None = None
    ) -> None:
        self._entries = [entry for entry in entries if as_of is None or entry.position <= as_of]
        last = self._entries[-1].position if self._entries else 0
        self._summaries = [summary for summary in summaries if summary.last_position <= last]
        step_summaries = {s.first_step: s.text for s in self._summaries if s.first_step == s.last_step}
        grouped = group_episodes(self._entries)
        self._episodes = [replace(episode, summary=step_summaries.get(episode.number)) for episode in grouped]

    @property
    def steps(self) -> int:
        return len(self._episodes)

    @property
    def instruction(self) -> str | None:
        bodies = [entry.body for entry in self._entries]
        return next((b.text for b in reversed(bodies) if isinstance(b, SystemInstruction)), None)

    @property
    def notebook(self) -> str | None:
        bodies = [entry.body for entry in self._entries]
        return next((b.content for b in reversed(bodies) if isinstance(b, MemoryNotebook)), None)

    @property
    def first_input(self) -> InputMessage | None:
        first = next((entry for entry in self._entries if isinstance(entry.body, ModelInput)), None)
        return next(input_messages(first)) if first else None

    def episodes_newest_first(self, last: int | None = None, first: int = 1) -> Iterator[Episode]:
        return reversed(self._episodes[first - 1 : last])

    def episodes(self, first: int, last: int) -> list[Episode]:
        return self._episodes[max(0, first - 1) : last]

    def bodies(self, steps: Sequence[StepOutline]) -> list[Episode]:
        return self.episodes(steps[0].number, steps[-1].number) if steps else []

    def lines_with(self, names: Sequence[tuple[StepOutline, str]]) -> list[FoundLine | None]:
        texts = {
            step.number: read_text(*map(returned_text, self._episodes[step.number - 1].results))
            for step, _ in names
        }
        return [TextLines(texts[step.number]).line_with(name) for step, name in names]

    def outline(self, first: int, last: int) -> list[StepOutline]:
        ranges = {s.last_step: s for s in self._summaries if s.first_step < s.last_step}
        return [_outlined(episode, ranges.get(episode.number)) for episode in self.episodes(first, last)]

    def inputs_newest_first(self, before: int | None = None) -> Iterator[InputMessage]:
        first = self._episodes[0].first_position if self._episodes else sys.maxsize
        orphans = [e for e in self._entries if isinstance(e.body, ToolResults) and e.position < first]
        inputs = [entry for entry in self._entries if entry.body.is_input]
        for entry in sorted((*inputs, *orphans), key=lambda entry: entry.position, reverse=True):
            if before is None or entry.position < before:
                yield from input_messages(entry, in_step=False)

    def summaries_newest_first(self, before: int) -> Iterator[Summary]:
        ended = [summary for summary in self._summaries if summary.last_position < before]
        return iter(sorted(ended, key=lambda s: (s.last_position, s.level, s.id), reverse=True))

    def origins(self, outputs: Sequence[int], format: str, model: str) -> Mapping[int, Origin]:
        """No request was recorded: each output was made from everything before it."""
        changed = max(
            (e.position for e in self._entries if isinstance(e.body, (SystemInstruction, MemoryNotebook))),
            default=0,
        )
        return {at: Origin(change="the instruction changed" if at < changed else "") for at in outputs}


def _outlined(episode: Episode, range: Summary | None) -> StepOutline:
    result_tokens = entry_tokens(ToolResults(results=episode.results)) if episode.results else 0
    excerpt = begin_excerpt(episode.output, entry_tokens(episode.output))
    if episode.results:
        excerpt = continue_excerpt(excerpt, [*map(returned_text, episode.results)], result_tokens)
    outlined = StepOutline(
        episode.number, episode.first_position, episode.last_position, episode.status, excerpt
    )
    step_summary, range_summary = line_of(episode.summary), line_of(range.text) if range else None
    digest = RangeSummary(range.id, range.first_step, range_summary) if range and range_summary else None
    return outlined._replace(summary=step_summary, digest=digest)


def line_of(text: str | None) -> ExcerptLine | None:
    """A summary's text as an outline has it."""
    return ExcerptLine(text, count_tokens(text), tuple(identifiers(text))) if text else None

"""The ``budgeted`` policy on a recorded session, as it was before a given step."""

import sys
from collections.abc import Iterator, Mapping, Sequence

from bench.quality.corpus import Recorded
from bench.quality.costs import METER, tokens_of
from historyapp.core.context import Context, Item
from historyapp.core.conversation import InputMessage, input_messages
from historyapp.core.entries import ToolResults
from historyapp.core.episodes import Episode
from historyapp.core.excerpts import FoundLine, TextLines, begin_excerpt, continue_excerpt, read_text
from historyapp.core.policies.base import Origin, StepOutline, SummaryLike
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.results import returned_text
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import entry_tokens


class Replayed:
    """A session's past in memory. It has no instructions, because they are the same for every policy."""

    instruction: str | None = None
    notebook: str | None = None

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._outlined = [_outlined(episode) for episode in recorded.episodes]
        self.steps = len(recorded.episodes)

    def before(self, step: int) -> "Replayed":
        """The past as it was directly before step ``step``."""
        self.steps = step - 1
        return self

    def first_step_after(self, tokens: int) -> int:
        """The number of the first step whose history has at least ``tokens`` tokens.

        If no step's history is that long: the number after the last step.
        """
        before = 0
        for outline in self._outlined:
            if before >= tokens:
                return outline.number
            before += outline.excerpt.output_tokens + outline.excerpt.result_tokens
        return len(self._outlined) + 1

    def outline(self, first: int, last: int) -> list[StepOutline]:
        return self._outlined[first - 1 : last]

    def bodies(self, steps: Sequence[StepOutline]) -> list[Episode]:
        return self._recorded.episodes[steps[0].number - 1 : steps[-1].number]

    def lines_with(self, names: Sequence[tuple[StepOutline, str]]) -> list[FoundLine | None]:
        texts = {
            step.number: read_text(*map(returned_text, self._recorded.episodes[step.number - 1].results))
            for step, _ in names
        }
        return [TextLines(texts[step.number]).line_with(name) for step, name in names]

    @property
    def first_input(self) -> InputMessage | None:
        inputs = self._recorded.inputs
        return next(input_messages(inputs[0])) if inputs and inputs[0].position < self._end else None

    def episodes_newest_first(self, last: int | None = None, first: int = 1) -> Iterator[Episode]:
        return reversed(self._recorded.episodes[first - 1 : self.steps if last is None else last])

    def inputs_newest_first(self, before: int | None = None) -> Iterator[InputMessage]:
        end = self._end if before is None else min(before, self._end)
        for entry in reversed(self._recorded.inputs):
            if entry.position < end:
                yield from input_messages(entry)

    def summaries_newest_first(self, before: int) -> Iterator[SummaryLike]:
        return iter(())

    def origins(self, outputs: Sequence[int], format: str, model: str) -> Mapping[int, Origin]:
        return {position: Origin() for position in outputs}

    @property
    def _end(self) -> int:
        """The position at which the next step begins."""
        episodes = self._recorded.episodes
        return episodes[self.steps].first_position if self.steps < len(episodes) else sys.maxsize


def _outlined(episode: Episode) -> StepOutline:
    output_tokens = entry_tokens(episode.output, tokens_of)
    result_tokens = entry_tokens(ToolResults(results=episode.results), tokens_of) if episode.results else 0
    excerpt = begin_excerpt(episode.output, output_tokens, tokens_of)
    if episode.results:
        texts = [returned_text(result) for result in episode.results]
        excerpt = continue_excerpt(excerpt, texts, result_tokens, tokens_of)
    return StepOutline(episode.number, episode.first_position, episode.last_position, episode.status, excerpt)


def budgeted_context(recorded: Recorded, step: int, budget: int) -> Context:
    past = past_of(recorded).before(step)
    return BUDGETED.choose(past, SessionSettings(max_tokens=budget), METER)


def budgeted(recorded: Recorded, step: int, budget: int) -> list[Item]:
    return [item for part in budgeted_context(recorded, step, budget).parts for item in part.items]


_pasts: dict[int, tuple[Recorded, Replayed]] = {}


def past_of(recorded: Recorded) -> Replayed:
    """Built once for each session, because excerpts are computed when a step is written."""
    if id(recorded) not in _pasts:
        _pasts[id(recorded)] = recorded, Replayed(recorded)
    return _pasts[id(recorded)][1]

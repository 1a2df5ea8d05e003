"""What items are made of, read from the log: consecutive ones together."""

from collections.abc import Iterator, Sequence

from historyapp.core.entries import ModelInput, text_of
from historyapp.core.strategies.base import Material
from historyapp.models import CompressionItem, CompressionRun, Summary
from historyapp.models.history import History

LONGEST_TASK = 2000
"""Characters of the session's first input that each prompt repeats."""


def materials(run: CompressionRun, items: Sequence[CompressionItem]) -> list[Material]:
    """What each item, none of them a digest, stands for; they are given in the order of their numbers."""
    history = History(run.session, run.head)
    task = _task(history)
    return [made for some in _runs(items) for made in _consecutive(history, some, task)]


def _runs(items: Sequence[CompressionItem]) -> Iterator[list[CompressionItem]]:
    """Items whose steps follow one another."""
    some: list[CompressionItem] = []
    for item in items:
        if some and item.first_step != some[-1].last_step + 1:
            yield some
            some = []
        some.append(item)
    if some:
        yield some


def _consecutive(history: History, items: Sequence[CompressionItem], task: str) -> Iterator[Material]:
    first, last = items[0].first_step, items[-1].last_step
    episodes = {episode.number: episode for episode in history.episodes(first, last)}
    said = list(_said(history, history.end_of(first - 1), episodes[last].last_position))
    after = 0
    for item in items:
        steps = tuple(episodes[number] for number in range(item.first_step, item.last_step + 1))
        end = steps[-1].last_position
        yield Material(steps, tuple(text for position, text in said if after < position <= end), task)
        after = end


def _said(history: History, after: int, last: int) -> Iterator[tuple[int, str]]:
    for entry in history.entries(after=after, before=last + 1, kinds=("model_input",)):
        body = entry.core().body
        if (
            isinstance(body, ModelInput)
            and body.channel == "user"
            and (text := text_of(body.content)).strip()
        ):
            yield entry.position, text


def _task(history: History) -> str:
    first = next(iter(history.entries(kinds=("model_input",), limit=1)), None)
    body = first.core().body if first else None
    return text_of(body.content)[:LONGEST_TASK] if isinstance(body, ModelInput) else ""


def parts_of(item: CompressionItem) -> list[str]:
    """The texts of the summaries that a digest is made of, oldest first."""
    summaries = Summary.objects.filter(pk__in=item.parts).order_by("first_position", "level", "id")
    return [summary.text for summary in summaries]

"""Older steps in one text: the progress message, and the history compiled within a budget."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

from historyapp.core.episodes import Episode
from historyapp.core.manifest import Form
from historyapp.core.rendering import long_form
from historyapp.core.settings import SessionSettings
from historyapp.core.tokens import TokenCounter

PROGRESS = (
    "## Progress on your Task so far\n"
    "Here is a summary of the steps that you have executed so far, use this as your consideration for "
    "determining the next action!\n"
)

T = TypeVar("T")
Line = tuple[Episode, str, int]
"""A step, its line in a progress message, and the line's tokens."""


class Steps(Protocol):
    """The live steps of a session."""

    @property
    def steps(self) -> int:
        """The number of the newest step; 0 without any."""
        ...

    def episodes_newest_first(self) -> Iterator[Episode]: ...


def progress_line(episode: Episode, *, full: bool = False) -> str:
    """``* Step N:`` with the summary, or with the long form if ``full`` or if there is no summary."""
    if episode.summary is not None and not full:
        return f"* Step {episode.number}: {episode.summary}"
    text = long_form(episode).replace("\n", "\n  ").strip()
    return f"* Step {episode.number}: {text}"


def form_of(episode: Episode) -> Form:
    """The form of an older step in a progress message."""
    return "full" if episode.summary is None else "summarised"


def compile_progress(past: Steps, settings: SessionSettings, count: TokenCounter) -> str:
    """The history as text within ``settings.max_tokens``.

    Long forms for the newest ``full_message_count`` steps and where no summary exists, summaries for the
    rest. Oldest first; steps that do not fit are left out.
    """
    newest_full = past.steps - settings.full_message_count
    fitted = fill(
        past.episodes_newest_first(),
        0,
        settings.budget(),
        count,
        lambda episode: progress_line(episode, full=episode.number > newest_full),
    )
    return "\n\n".join(text for _, text, _ in fitted)


def fill(
    newest_first: Iterable[Episode],
    used: int,
    max_tokens: int | None,
    count: TokenCounter,
    line: Callable[[Episode], str],
) -> list[Line]:
    """The newest steps that fit, oldest first."""
    fitted: list[Line] = []
    for episode in newest_first:
        text = line(episode)
        tokens = count(text)
        if max_tokens is not None and used + tokens > max_tokens:
            break
        used += tokens
        fitted.append((episode, text, tokens))
    return fitted[::-1]


def write_newest(
    lines: Sequence[Line], limit: int | None, write: Callable[[Sequence[str]], tuple[T, int]]
) -> tuple[Sequence[Line], T] | None:
    """The newest lines that fit in one message, and this message; None if not even one line fits.

    A message has more tokens than its lines, because of what joins them. Usually it is written three times.

    Args:
        lines: oldest first.
        limit: the maximum number of tokens of the message.
        write: writes a message of some lines and counts its tokens. Fewer lines never have more tokens.
    """
    texts = [text for _, text, _ in lines]
    if not texts:
        return None
    written, tokens = write(texts)
    if limit is None or tokens <= limit:
        return lines, written
    removed_tokens = [0, *accumulate(tokens + 1 for _, _, tokens in lines)]
    too_few, excess = 0, tokens - limit  # the number of removed lines, and the tokens above the limit
    enough, spare = len(lines), max(0, limit)
    attempts = 0
    while enough - too_few > 1:
        attempts += 1
        share = excess / (excess + spare)
        start, end = removed_tokens[too_few], removed_tokens[enough]
        likely = bisect_left(removed_tokens, start + share * (end - start))
        halved = attempts % 3 == 0  # so that unequal lines need few attempts too
        removed = (too_few + enough) // 2 if halved else min(max(likely, too_few + 1), enough - 1)
        message, tokens = write(texts[removed:])
        if tokens <= limit:
            enough, spare, written = removed, limit - tokens, message
        else:
            too_few, excess = removed, tokens - limit
    return (lines[enough:], written) if enough < len(lines) else None

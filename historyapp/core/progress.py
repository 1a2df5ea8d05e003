"""Older steps in one text: the progress message, and the history compiled within a budget."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

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
) -> list[tuple[Episode, str, int]]:
    """The newest steps that fit, each with its line and the line's tokens, oldest first."""
    fitted: list[tuple[Episode, str, int]] = []
    for episode in newest_first:
        text = line(episode)
        tokens = count(text)
        if max_tokens is not None and used + tokens > max_tokens:
            break
        used += tokens
        fitted.append((episode, text, tokens))
    return fitted[::-1]

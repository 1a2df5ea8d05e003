"""An episodic history in memory, as agents kept it before. docs/agents.md shows how to replace it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from historyapp.core.actions import (
    ActionError,
    ActionProposal,
    ActionSuccess,
    as_tool_result,
    from_exception,
    output_of,
)
from historyapp.core.entries import Body, Entry, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.rendering import as_list, long_form

__all__ = ["ActionError", "ActionProposal", "ActionSuccess", "EpisodicHistory", "UseTool", "from_exception"]


@dataclass(frozen=True)
class Remembered:
    episode: Episode

    @property
    def result(self) -> ToolResult | None:
        return self.episode.result

    def format(self) -> str:
        return long_form(self.episode)


class EpisodicHistory:
    """Everything is lost when the process ends."""

    def __init__(self, full_message_count: int) -> None:
        self.full_message_count = full_message_count
        self._entries: list[Entry] = []

    def register_action(self, proposal: ActionProposal) -> None:
        self._append(output_of(proposal))

    def register_result(self, result: ActionSuccess | ActionError) -> None:
        self._append(ToolResults(results=(as_tool_result(result, "tool"),)))

    def rewind(self, number_of_episodes: int) -> None:
        del self._entries[-2 * number_of_episodes :]

    def get_messages(self) -> list[str]:
        return [episode.format() for episode in self][-self.full_message_count :]

    def fmt_list(self) -> str:
        return as_list(self._episodes())

    @property
    def cursor(self) -> int:
        return len(self)

    @property
    def current_episode(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self._episodes())

    def __iter__(self) -> Iterator[Remembered]:
        return map(Remembered, self._episodes())

    def __getitem__(self, index: int) -> Remembered:
        return list(self)[index]

    def _append(self, body: Body) -> None:
        self._entries.append(Entry(len(self._entries) + 1, body, datetime.now(UTC)))

    def _episodes(self) -> list[Episode]:
        return list(group_episodes(self._entries))

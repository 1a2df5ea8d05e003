"""Groups steps, so that few bodies of large steps are read at once."""

from collections.abc import Iterator, Sequence

from historyapp.models.episodes import Episode

READ_TOKENS = 50_000
"""The maximum number of tokens of steps whose bodies are read together. A single step may have more."""


def in_groups(rows: Sequence[Episode]) -> Iterator[list[Episode]]:
    """Groups rows by :data:`READ_TOKENS`; a group has at least one step."""
    group: list[Episode] = []
    for row in rows:
        if group and sum(other.tokens for other in group) + row.tokens > READ_TOKENS:
            yield group
            group = []
        group.append(row)
    if group:
        yield group

"""A span: consecutive entries of one session."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The entries ``first`` to ``last`` (both included) that were appended to ``session``."""

    session: str
    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last:
            raise ValueError(f"a span needs 1 <= first <= last, not {self.first}..{self.last}")

    def __len__(self) -> int:
        return self.last - self.first + 1

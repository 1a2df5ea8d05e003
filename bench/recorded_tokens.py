"""How well we count the tokens of recorded requests: our count compared with the provider's, on a corpus.

For each model call of the Claude Code, Codex and Gemini CLI sessions in a folder, the request is rebuilt from
the entries before it. The part that the transcript does not contain is computed from the first reported
request of the window, so that request is not measured. A window begins with the session, after the agent
compacted or cleared its context, with a new process of the agent, and with another model. No later report of
the session is used for a request.

    python -m bench.recorded_tokens ../shared/corpus
    python -m bench.recorded_tokens ../shared/corpus --halves
"""

import argparse
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from bench.quality.corpus import read_file
from historyapp.core.entries import Entry, SystemInstruction
from historyapp.core.request_tokens import BEGINNINGS, Reason, RequestTokens, count_request
from historyapp.core.tokens import entry_tokens
from historyapp.core.windows import READ, LogRow, find_window

FORMATS = ("claude_code", "codex_rollout", "gemini_cli")
UNBOUNDED = 10**9
GOAL = 0.15
COMPUTED: tuple[Reason, ...] = ("cleared",)
"""Changes that are computed from the log by the harness's rule, not from a report."""
REDACTED = ("localpush__", "scrubbed__")
"""Files whose text was replaced before they were published, in part letter by letter: their tokens are not in
the file."""
MIN_INPUT = 2_000
"""Reported input tokens below which a session is an invented example, not a recording."""


class Miss(NamedTuple):
    """One request after the first of its window."""

    file: str
    reported: int
    expected: int
    is_event: bool
    """Whether the unseen part is computed again from this request, because the log names the reason."""
    in_window: int
    """Tokens by which the unseen part was computed again since the window's first request."""
    unnamed: int
    """Those of them since the newest event that the log names."""
    in_context: int
    """The same as ``in_window`` if windows began only where the context was compacted or cleared."""
    cause: Reason
    """The reason of the largest of the changes in the window."""

    @property
    def share(self) -> float:
        return self._share(0)

    @property
    def named_share(self) -> float:
        """The same if the unseen part were computed again only at events that the log names."""
        return self._share(self.unnamed)

    @property
    def window_share(self) -> float:
        """The same if it were computed only from the first request of each window."""
        return self._share(self.in_window)

    @property
    def context_share(self) -> float:
        """The same if windows began only where the context was compacted or cleared."""
        return self._share(self.in_context)

    def _share(self, changes: int) -> float:
        return abs(self.reported - self.expected + changes) / self.reported


def misses(entries: Sequence[Entry], file: str) -> Iterator[Miss]:
    """The requests of one session, oldest first."""
    rows: list[LogRow] = []
    instruction = 0
    for entry in entries:
        tokens = entry_tokens(entry.body)
        if isinstance(entry.body, SystemInstruction):
            instruction = tokens
        row = _row(entry, tokens)
        if entry.kind == "model_output":
            window = find_window(reversed(rows), UNBOUNDED)
            counted = count_request(window.rows, {"instruction": instruction}, row)
            if miss := _miss(file, row.position, counted):
                yield miss
        if entry.kind in READ:
            rows.append(row)


def _miss(file: str, position: int, counted: RequestTokens) -> Miss | None:
    """What the report of a request differs from; None for the first request of a window."""
    jumps = [jump for jump in counted.jumps if jump.reason not in COMPUTED]
    began = max([jump.position for jump in jumps if jump.reason in BEGINNINGS], default=0)
    is_computed = counted.anchor == position
    is_first = is_computed and (began == position or not any(jump.position == position for jump in jumps))
    if counted.reported is None or is_first:
        return None
    anchor = counted.anchor or 0
    in_window = [jump for jump in jumps if jump.position > began]
    return Miss(
        file,
        counted.reported.input,
        counted.expected,
        is_event=is_computed,
        in_window=sum(jump.tokens for jump in in_window),
        unnamed=sum(jump.tokens for jump in jumps if jump.position > anchor),
        in_context=sum(jump.tokens for jump in jumps),
        cause=max(in_window, key=lambda jump: abs(jump.tokens)).reason if in_window else "unknown",
    )


def _row(entry: Entry, tokens: int) -> LogRow:
    holds_body = entry.kind not in ("model_output", "tool_results")
    body = entry.body.model_dump() if holds_body else {}
    return LogRow(entry.position, entry.kind, entry.created_at, tokens, entry.metadata, body)


def table(misses: Iterable[float]) -> str:
    """One line: requests, median, 90th and 95th percentile, and the worst."""
    shares = sorted(misses)
    if len(shares) < 2:
        return f"{len(shares)} requests"
    at = statistics.quantiles(shares, n=100, method="inclusive")
    figures = (statistics.median(shares), at[89], at[94], shares[-1])
    return f"{len(shares):5} requests   " + "   ".join(f"{figure:6.1%}" for figure in figures)


def report(format: str, by_file: Mapping[str, Sequence[Miss]], *, with_files: bool) -> None:
    """Prints the distribution of one format."""
    complete = [
        miss for name, of_file in by_file.items() if not name.startswith(REDACTED) for miss in of_file
    ]
    redacted = [miss for name, of_file in by_file.items() if name.startswith(REDACTED) for miss in of_file]
    print(f"{format}: {len(by_file)} files   (median, p90, p95, worst)")
    for name, shares in MEASURES.items():
        print(f"  {name:30} {table(shares(complete))}")
    if redacted:
        print(f"  {'texts redacted in the file':30} {table(MEASURES['as shown'](redacted))}")
    above = [miss for miss in complete if miss.window_share > GOAL]
    print(f"  above {GOAL:.0%} of a window: {len(above)}, by the largest change in it:")
    for (file, cause), requests in sorted(Counter((miss.file, miss.cause) for miss in above).items()):
        print(f"    {file[:40]:40} {cause:10} {requests}")
    for name, of_file in by_file.items() if with_files else ():
        print(f"    {name[:40]:40} {table(miss.share for miss in of_file)}")


MEASURES: dict[str, Callable[[Iterable[Miss]], Iterable[float]]] = {
    "as shown": lambda misses: (miss.share for miss in misses if not miss.is_event),
    "fixed at named events": lambda misses: (miss.named_share for miss in misses if not miss.is_event),
    "fixed once for each window": lambda misses: (miss.window_share for miss in misses),
    "fixed once for each context": lambda misses: (miss.context_share for miss in misses),
}
"""When the unseen part is computed from a report, and the differences in that case."""
Sessions = dict[str, list[Sequence[Entry]]]
"""The sessions of each file."""


def count_files(sessions: Sessions) -> dict[str, list[Miss]]:
    """The requests of each file, without those of invented examples."""
    by_file = defaultdict[str, list[Miss]](list)
    for name, file_sessions in sessions.items():
        for session in file_sessions:
            session_misses = list(misses(session, name))
            if session_misses and max(miss.reported for miss in session_misses) >= MIN_INPUT:
                by_file[name] += session_misses
    return by_file


def half_of(file: str) -> int:
    """The half of the projects to which a file belongs. The factors and rules were developed on half 0."""
    return sha256(file.partition("__")[0].encode()).digest()[0] % 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", action="store_true", help="one line for each file, too")
    parser.add_argument("--halves", action="store_true", help="the two halves of the projects, too")
    options = parser.parse_args()
    for format in FORMATS:
        paths = sorted((options.folder / format).rglob("*.json*"))
        by_file = count_files({path.name: list(read_file(path)) for path in paths})
        report(format, by_file, with_files=options.files)
        for half in (0, 1) if options.halves else ():
            of_half = {name: of_file for name, of_file in by_file.items() if half_of(name) == half}
            report(f"{format}, half {half}", of_half, with_files=False)


if __name__ == "__main__":
    main()

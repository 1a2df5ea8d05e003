"""How well we count the tokens of recorded requests: our count compared with the provider's, on a corpus.

For each model call of the Claude Code and Codex sessions in a folder, the request is rebuilt from the entries
before it. The part that the transcript does not contain is computed from the first reported request of the
window, so that request is not measured. No later report of the session is used for a request.

    python -m bench.recorded_tokens ../shared/corpus
    python -m bench.recorded_tokens ../shared/corpus --held
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.quality.corpus import read_file
from historyapp.core.entries import Entry, SystemInstruction
from historyapp.core.request_tokens import FACTORS, count_request
from historyapp.core.tokens import entry_tokens
from historyapp.core.windows import READ, LogRow, find_window

FORMATS = ("claude_code", "codex_rollout")
UNBOUNDED = 10**9
REDACTED = ("localpush__", "scrubbed__")
"""Files whose text was replaced before they were published, in part letter by letter: their tokens are not in
the file."""
CANDIDATES = [1 + step / 20 for step in range(17)]
MIN_INPUT = 2_000
"""Reported input tokens below which a session is an invented example, not a recording."""


class Miss(NamedTuple):
    """One request after the first of its window."""

    file: str
    reported: int
    expected: int
    unseen_changes: int
    """Tokens added or removed without a record since the window's first request, as later requests showed."""
    unnamed_changes: int
    """Those of them since the newest event that the log names."""

    @property
    def share(self) -> float:
        return abs(self.reported - self.expected) / self.reported

    @property
    def strict_share(self) -> float:
        """The same if the unseen part were never computed again within a window."""
        return abs(self.reported - self.expected + self.unseen_changes) / self.reported

    @property
    def named_share(self) -> float:
        """The same if it were computed again only at events that the log names."""
        return abs(self.reported - self.expected + self.unnamed_changes) / self.reported


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
            changes = sum(jump.tokens for jump in counted.jumps)
            since = counted.anchor or 0
            unnamed = sum(jump.tokens for jump in counted.jumps if jump.position > since)
            if counted.reported and counted.anchor != row.position:
                yield Miss(file, counted.reported.input, counted.expected, changes, unnamed)
        if entry.kind in READ:
            rows.append(row)


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
    print(f"  as shown                     {table(miss.share for miss in complete)}")
    print(f"  fixed again at named events  {table(miss.named_share for miss in complete)}")
    print(f"  unseen part fixed only once  {table(miss.strict_share for miss in complete)}")
    if redacted:
        print(f"  texts redacted in the file   {table(miss.share for miss in redacted)}")
    for name, of_file in by_file.items() if with_files else ():
        print(f"    {name[:40]:40} {table(miss.share for miss in of_file)}")


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


def fit_factors(sessions: Sessions) -> None:
    """Sets the factors of Claude's two tokenizers to those with the least mean difference."""
    for factor in sorted({FACTORS[name] for name in FACTORS if name}):
        names = [name for name in FACTORS if name and FACTORS[name] == factor]
        scores = {}
        for candidate in CANDIDATES:
            FACTORS.update(dict.fromkeys(names, candidate))
            shares = [miss.named_share for of_file in count_files(sessions).values() for miss in of_file]
            scores[candidate] = statistics.fmean(shares)
        FACTORS.update(dict.fromkeys(names, min(scores, key=lambda tried: scores[tried])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", action="store_true", help="one line for each file, too")
    parser.add_argument(
        "--held", action="store_true", help="fit the factors on every other file, and report the others"
    )
    options = parser.parse_args()
    for format in FORMATS:
        paths = sorted((options.folder / format).rglob("*.jsonl"))
        sessions: Sessions = {path.name: list(read_file(path)) for path in paths}
        if options.held and format == "claude_code":
            fit_factors({name: sessions.pop(name) for name in list(sessions)[::2]})
            print(f"factors of Claude: {sorted({FACTORS[name] for name in FACTORS if name})}")
        report(format, count_files(sessions), with_files=options.files)


if __name__ == "__main__":
    main()

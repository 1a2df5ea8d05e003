"""Importing, compared with a peer in one run: ``python -m bench.peer PYTHON``, a Python with openai-agents.

The peer is the fastest of those in ``../shared/bench``: a library that stores an agent's items in SQLite. In
the table there it stores 5,000 steps a second in batches, which is also the target of an import. Times
differ between machines, so this runs both on one machine and reports their ratio.
"""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

from bench.importing import import_measured, write_claude_code
from bench.machinery import home, report
from tests.shared import SHARED

STEPS = 100_000
ROUNDS = 3
_PEERS = SHARED / "bench" / "peers"
_FLOOR = re.compile(r"sqlite full batch 100 rows/s .* median (\d+)")


def main(python: str) -> None:
    playhead_rates, peer_rates, floor_rates = list[float](), list[float](), list[float]()
    with home() as folder:
        file = folder / "session.jsonl"
        write_claude_code(file, STEPS)
        for number in range(ROUNDS):
            peer_rates.append(_peer(python))
            playhead_rates.append(STEPS / import_measured(folder / str(number), file)[0])
            floor_rates.append(_floor(python))
    ratio = statistics.median(playhead_rates) / statistics.median(peer_rates)
    share = statistics.median(playhead_rates) / statistics.median(floor_rates)
    rows = [
        (f"importing {STEPS:,} steps", _listed(playhead_rates), ""),
        ("openai-agents' SQLite session, batched (its table: 5,000)", _listed(peer_rates), ""),
        ("rows of 3 KB, 100 a transaction, synchronous=FULL (its table: 99,000)", _listed(floor_rates), ""),
        ("import / peer, medians", f"{ratio:.2f}", "1"),
        ("import / rows, medians", f"{share:.3f}", f"{5_000 / 99_000:.3f}"),
    ]
    report(f"Steps a second beside a peer, {ROUNDS} times by turns", rows)


def _listed(figures: list[float]) -> str:
    return ", ".join(f"{figure:,.0f}" for figure in figures)


def _peer(python: str) -> float:
    """Steps a second of 100 sessions of 100 steps."""
    return float(json.loads(_run(python, "b1_openai_agents.py").splitlines()[-1])["steps_s"])


def _floor(python: str) -> float:
    """Rows that one process inserts into SQLite in a second."""
    match = _FLOOR.search(_run(python, "b5_raw_db.py"))
    if match is None:
        raise SystemExit("b5_raw_db.py printed no rate")
    return float(match[1])


def _run(python: str, script: str) -> str:
    """The output of one of the peers' scripts. Its errors are shown."""
    return subprocess.run([python, script], cwd=_PEERS, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    if not _PEERS.is_dir():
        raise SystemExit(f"The peers' scripts are not there: {_PEERS}")
    main(str(Path(sys.argv[1]).absolute()))

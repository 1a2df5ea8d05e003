"""Time on the server of the overview of long sessions: plain, with takes, and in a fork."""

import os
import subprocess
import sys

from bench.machinery import ROOT, home

LENGTHS = (100, 10_000, 100_000)
INSIDE = "from bench.overview_pages import measure; measure({lengths}, {rounds})"


def main(rounds: int = 15) -> None:
    """Runs the measure in a database of its own."""
    with home() as folder:
        environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF"}
        inside = INSIDE.format(lengths=LENGTHS, rounds=rounds)
        for command in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", inside]):
            subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    main()

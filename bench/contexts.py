"""What building a context costs at 100 and at 100,000 steps: server time, and queries."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.length import LONG, SHORT, filled
from bench.machinery import ROOT, home, report

BUDGET = 2048
ROUNDS = 200
MEASURE = """
from bench.contexts import measure
measure({ids})
"""


def main() -> None:
    with home() as folder:
        _migrate(folder)
        measured = _measured(folder, filled(folder))
    rows = []
    for policy, ((short, queries), (long, more)) in measured.items():
        rows.append((f"{policy}: {short:.2f} ms → {long:.2f} ms", f"**{long:.2f} ms**", "5 ms"))
        rows.append((f"{policy}, ratio", f"**{long / short:.2f}**", "1.3"))
        rows.append((f"{policy}, queries: {queries} → {more}", f"**{more}**", str(queries)))
    report(f"A context of {BUDGET:,} tokens, {SHORT} steps → {LONG:,} steps", rows)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PLAYHEAD_HOME": str(folder), "DEBUG": ""}


def _migrate(folder: Path) -> None:
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env=_environment(folder), check=True)


def _measured(folder: Path, ids: tuple[str, str]) -> dict[str, list[tuple[float, int]]]:
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", MEASURE.format(ids=ids)]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(folder), stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(ids: tuple[str, str]) -> None:
    """Prints median milliseconds and queries for each policy and session, as JSON; runs inside Django.

    Measured is the view with all that it does for a request, without the network around it.
    """
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from bench.machinery import alternate
    from historyapp.core.policies import POLICIES
    from historyapp.models import Session
    from historyapp.services.keys import create_key

    project = Session.objects.get(pk=ids[0]).project
    key = create_key(project, "bench")[1]
    client = Client(headers={"Authorization": f"Bearer {key}", "Host": "127.0.0.1"})
    measured = {}
    for policy in POLICIES:

        def build(id: str, policy: str = policy) -> None:
            query = {"policy": policy, "max_tokens": BUDGET}
            answer = client.get(f"/api/v1/sessions/{id}/contexts", query)
            assert answer.status_code == 200, answer.content

        def queries(id: str) -> int:
            with CaptureQueriesContext(connection) as captured:
                build(id)
            return len(captured)

        for id in ids:
            build(id)
        times = alternate(lambda: build(ids[0]), lambda: build(ids[1]), rounds=ROUNDS)
        measured[policy] = [(time, queries(id)) for time, id in zip(times, ids, strict=True)]
    print(json.dumps(measured))


if __name__ == "__main__":
    main()

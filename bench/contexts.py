"""The cost of building a context at 100 and at 100,000 steps: processor time and queries."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.length import LONG, SHORT, filled
from bench.machinery import ROOT, home, report
from historyapp.core.policies import POLICIES

BUDGET = 2048
ROUNDS = 100
COLD_ROUNDS = 20
"""Rounds of the slower measurements."""
MEASURE = """
from bench.contexts import measure
measure({ids})
"""
WHAT_IF = "what-if in the dashboard, with the diff"
COLD = "budgeted, in a process without caches"


def main() -> None:
    with home() as folder:
        _migrate(folder)
        measured = _measured(folder, filled(folder))
    rows = []
    for name, ((short, queries), (long, more)) in measured.items():
        bound = "5 ms" if name in POLICIES else "100 ms"
        rows.append((f"{name}: {short:.2f} ms → {long:.2f} ms", f"**{long:.2f} ms**", bound))
        rows.append((f"{name}, ratio", f"**{long / short:.2f}**", "1.3" if name in POLICIES else ""))
        rows.append((f"{name}, queries: {queries} → {more}", f"**{more}**", str(queries)))
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

    It measures the view with everything that it does for a request, without the network.
    """
    ask, look = _agent(), _person()
    measured = {policy: _medians(ids, partial(ask, policy), ROUNDS) for policy in POLICIES}
    measured[COLD] = _medians(ids, partial(_anew, ask), COLD_ROUNDS)
    measured[WHAT_IF] = _medians(ids, look, COLD_ROUNDS)
    print(json.dumps(measured))


def _medians(ids: tuple[str, str], send: Callable[[str], Any], rounds: int) -> list[tuple[float, int]]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from bench.machinery import alternate

    def queries(id: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            send(id)
        return len(captured)

    for id in ids:
        send(id)
    times = alternate(*(partial(send, id) for id in ids), rounds=rounds)
    return [(time, queries(id)) for time, id in zip(times, ids, strict=True)]


def _agent() -> Callable[[str, str], None]:
    """A function that requests a context of a session under a policy."""
    from django.test import Client

    from historyapp.services.bootstrap import default_project
    from historyapp.services.keys import create_key

    key = create_key(default_project(), "bench")[1]
    client = Client(headers={"Authorization": f"Bearer {key}", "Host": "127.0.0.1"})

    def ask(policy: str, id: str) -> None:
        query: dict[str, str | int] = {"policy": policy, "max_tokens": BUDGET}
        response = client.get(f"/api/v1/sessions/{id}/contexts", query)
        assert response.status_code == 200, response.content

    return ask


def _person() -> Callable[[str], None]:
    """A function that opens the context diff in the middle of a session, with another budget each time."""
    from itertools import count

    from django.test import Client

    from historyapp.models import Session
    from historyapp.services.bootstrap import bootstrap

    client = Client(headers={"Host": "127.0.0.1", "HX-Request": "true"})
    client.force_login(bootstrap().user)
    budgets = count(BUDGET)

    def look(id: str) -> None:
        middle = Session.objects.values_list("steps", flat=True).get(pk=id) // 2
        query: dict[str, str | int] = {
            "step": middle,
            "view": "diff",
            "policy": "budgeted",
            "max_tokens": next(budgets),
        }
        response = client.get(f"/sessions/{id}/context", query | {"policy": "budgeted"})
        assert response.status_code == 200, response.content

    return look


def _anew(ask: Callable[[str, str], None], id: str) -> None:
    """Requests a context as if the process had not read the session before."""
    from historyapp.models import outlines

    outlines._cache.clear()
    ask("budgeted", id)


if __name__ == "__main__":
    main()

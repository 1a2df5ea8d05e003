"""Processor time of pages and API calls, and bytes on disk, in sessions that are long in one direction.

``python -m bench.directions rewinds forks`` measures only these; ``rewinds=1000`` sets the long amount. The
requests run in this process, without a server. The figures are processor time of the application and of
SQLite, so other programs do not affect them. Requests to the short and to the long session alternate.
"""

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

from bench.machinery import KEY, home, machine, report

ROUNDS = 15
BOUND = 1.3


def main(*arguments: str) -> None:
    with home() as folder:
        os.environ |= {
            "PLAYHEAD_HOME": str(folder),
            "PLAYHEAD_API_KEY": KEY,
            "PLAYHEAD_SYNCHRONOUS": "OFF",
            "DJANGO_SETTINGS_MODULE": "historyapp.settings",
        }
        import django
        from django.urls import get_resolver

        django.setup()
        get_resolver().url_patterns  # noqa: B018  (loads the views, like the server)
        gc.collect()
        gc.freeze()
        _measure_all(arguments)


def _measure_all(arguments: tuple[str, ...]) -> None:
    from django.core.management import call_command

    from bench.fill_directions import DIRECTIONS

    call_command("migrate", verbosity=0)
    wanted = dict(argument.partition("=")[::2] for argument in arguments) or dict.fromkeys(DIRECTIONS, "")
    for name, amount in wanted.items():
        fill, short, long = DIRECTIONS[name]
        long = int(amount or long)
        rows = _measure(fill, short, long)
        report(f"{name}: {short:,} → {long:,} ({machine()})", rows)


def _measure(fill: Callable[..., UUID], short: int, long: int) -> list[tuple[str, str, str]]:
    agents, sizes = [], []
    for amount in (short, long):
        before = _bytes()
        agents.append(_Requests(fill, amount, long))
        sizes.append(_bytes() - before)
    rows = []
    for name in agents[0].requests:
        times: list[list[float]] = [[], []]
        response_sizes = [0, 0]
        for _ in range(ROUNDS):
            for index, agent in enumerate(agents):
                begin = time.process_time()
                response_sizes[index] = agent.requests[name]()
                times[index].append((time.process_time() - begin) * 1000)
        short_time, long_time = map(statistics.median, times)
        label = f"{name}: {short_time:.2f} → {long_time:.2f} ms"
        if response_sizes[1] > BOUND * response_sizes[0]:
            label += f" (responses of {response_sizes[0] / 1000:,.0f} → {response_sizes[1] / 1000:,.0f} KB)"
        rows.append((label, f"**{long_time / short_time:.2f}**", str(BOUND)))
    shown = " → ".join(f"{size / 1e6:.1f}" for size in sizes)
    rows.append((f"database: {shown} MB", f"**{sizes[1] / sizes[0]:.2f}**", "linear"))
    return rows


def _bytes() -> int:
    """The size of the database, including its write-ahead log."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        return int(cursor.fetchone()[0])


def _finish_counting(session: UUID) -> None:
    """Does what a worker does after the first requests: blocks of texts, the index of names and figures."""
    from historyapp.models import Session
    from historyapp.models.history import History
    from historyapp.services.figures.run_figures import count_run
    from historyapp.services.names.index import catch_up
    from historyapp.services.text_index import index_text

    history = History(Session.objects.get(pk=session))
    for owner in history.lineage.owners:
        index_text(UUID(owner))
    while not catch_up(history.lineage, limit=None):
        pass
    count_run(history)


class _Requests:
    """Pages and calls of a project with a filled session."""

    def __init__(self, fill: Callable[..., UUID], amount: int, total: int) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        from bench.fill_directions import numbered_steps
        from historyapp.models import Membership, Project, Session
        from historyapp.services.keys import create_key

        project = Project.objects.create(name=fill.__name__)
        user = User.objects.create_user(f"{fill.__name__} {project.pk}")
        Membership.objects.create(project=project, user=user, is_owner=True)
        _, text = create_key(project, "measurement")
        host = {"Host": "localhost"}
        self.agent = Client(headers={**host, "Authorization": f"Bearer {text}"})
        self.person = Client(headers=host)
        self.person.force_login(user)
        self.session = fill(project, amount, total)
        _finish_counting(self.session)
        self.newest = Session.objects.get(pk=self.session).steps
        self.middle = self.newest // 2
        self._steps = numbered_steps()
        api, page, middle = f"/api/v1/sessions/{self.session}", f"/sessions/{self.session}", self.middle
        self.requests: dict[str, Callable[[], int]] = {
            "page": lambda: self._see(page),
            "page, middle": lambda: self._see(f"{page}?step={middle}"),
            "page, newest": lambda: self._see(f"{page}?step=-1"),
            "page, errors only": lambda: self._see(f"{page}?status=error"),
            "rows": lambda: self._see(f"{page}/steps?after={middle}", htmx=True),
            "list of sessions": lambda: self._see("/"),
            "GET sessions": lambda: self._get("/api/v1/sessions?limit=20"),
            "GET sessions of a tag": lambda: self._get("/api/v1/sessions?limit=20&tag=tag+5"),
            "GET session": lambda: self._get(api),
            "GET messages": lambda: self._get(f"{api}/messages"),
            "GET progress": lambda: self._get(f"{api}/progress"),
            "GET episodes": lambda: self._get(f"{api}/episodes"),
            "GET episodes, middle": lambda: self._get(f"{api}/episodes?from={middle}"),
            "GET episodes, errors": lambda: self._get(f"{api}/episodes?status=error"),
            "GET episodes/{n}": lambda: self._get(f"{api}/episodes/{middle + 1}"),
            "GET episodes/6": lambda: self._get(f"{api}/episodes/6"),
            "GET origins": lambda: self._get(f"{api}/episodes/{middle + 1}/origins"),
            "GET origins, newest": lambda: self._get(f"{api}/episodes/{self.newest}/origins"),
            "GET find": lambda: self._get(f"{api}/find?q=nowhere+in+it+at+all"),
            "GET overview": lambda: self._get(f"{api}/overview"),
            "page, overview": lambda: self._see(f"{page}/overview"),
            "GET entries": lambda: self._get(f"{api}/entries"),
            "GET summaries": lambda: self._get(f"{api}/summaries?limit=10"),
            "GET rewinds": lambda: self._get(f"{api}/rewinds?limit=10"),
            "POST contexts, budgeted": lambda: self._context("budgeted"),
            "POST contexts, sliding window": lambda: self._context("sliding_window"),
            "fork": lambda: self._post(f"{api}/forks", {}),
        }
        if Session.objects.get(pk=self.session).live_tail.step.progress.pending:
            self._ids = count()
            self.requests["result of one call"] = self._answer
        else:
            self.requests |= {"action and result": self._append, "step and rewind": self._rewind}

    # Each returns the number of bytes of the last response.

    def _see(self, path: str, *, htmx: bool = False) -> int:
        headers = {"HX-Request": "true"} if htmx else {}
        response = self.person.get(path, headers=headers)
        assert response.status_code == 200, (path, response.status_code)
        return len(response.content)

    def _get(self, path: str) -> int:
        response = self.agent.get(path)
        assert response.status_code == 200, (path, response.content[:300])
        return len(response.content)

    def _post(self, path: str, body: Any) -> int:
        response = self.agent.post(path, body, content_type="application/json")
        assert 200 <= response.status_code < 300, (path, response.content[:300])
        return len(response.content)

    def _context(self, policy: str) -> int:
        body = {"policy": policy, "max_tokens": 20_000}
        return self._post(f"/api/v1/sessions/{self.session}/contexts", body)

    def _append(self) -> int:
        action, result = next(self._steps)
        self._post(f"/api/v1/sessions/{self.session}/actions", action)
        return self._post(f"/api/v1/sessions/{self.session}/results", result)

    def _answer(self) -> int:
        answered = {"tool_call_id": f"call {next(self._ids)}", "status": "success", "outputs": "Done."}
        entry = {"kind": "tool_results", "results": [answered]}
        return self._post(f"/api/v1/sessions/{self.session}/entries", {"entries": [entry]})

    def _rewind(self) -> int:
        self._append()
        return self._post(f"/api/v1/sessions/{self.session}/rewinds", {"episodes": 1})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Makes long sessions through the services, and measures their overview pages. Runs inside Django."""

import time
from collections.abc import Iterator
from statistics import median

from django.contrib.auth.models import User
from django.test import Client

from bench.fill import step
from bench.machinery import report
from historyapp.models import Membership, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.bootstrap import default_project
from historyapp.services.figures.run_figures import count_run
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session

BATCH, CUT = 1000, 5
"""Steps of one append. With takes, the last ``CUT`` of each batch are rewound."""


def measure(lengths: tuple[int, ...], rounds: int) -> None:
    """Prints the milliseconds of each page."""
    project = default_project()
    person = _member(project)
    rows: list[tuple[str, str, str]] = []
    for length in lengths:
        for name, session in _sessions(project, length):
            started = time.perf_counter()
            count_run(History(session))
            counted = time.perf_counter() - started
            pages = [_page(person, session) for _ in range(rounds)]
            wall, processor = (sorted(times) for times in zip(*pages, strict=True))
            what = f"{name}, {length:,} steps; counted once in {counted:.1f} s"
            spread = f"{wall[0]:.0f} to {wall[-1]:.0f} ms, processor {median(processor):.0f} ms"
            rows.append((f"{what}; {spread}", f"**{median(wall):.0f} ms**", "300 ms"))
    report("overview page, in the server process", rows)


def _member(project: Project) -> Client:
    user = User.objects.create_user("bench")
    Membership.objects.create(project=project, user=user, is_owner=True)
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(user)
    return client


def _page(person: Client, session: Session) -> tuple[float, float]:
    """Milliseconds of one page, by the wall clock and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    response = person.get(f"/sessions/{session.pk}/overview")
    milliseconds = (time.perf_counter() - wall) * 1000, (time.process_time() - processor) * 1000
    assert response.status_code == 200
    assert b"so far" not in response.content
    return milliseconds


def _sessions(project: Project, length: int) -> Iterator[tuple[str, Session]]:
    """A plain session, one with a take in each batch, and a fork of the latter with further steps."""
    yield "plain", _filled(project, length, cut=0)
    taken = _filled(project, length, cut=CUT)
    yield "with takes", taken
    child = fork(project, taken.pk, at_step=length - 50)
    append(project, child.pk, [draft for number in range(40) for draft in step(number)])
    yield "fork", Session.objects.get(pk=child.pk)


def _filled(project: Project, length: int, *, cut: int) -> Session:
    session = create_session(project, names={"title": f"{length} steps"})
    for start in range(0, length, BATCH):
        numbers = range(start, min(length, start + BATCH) + cut)
        append(project, session.pk, [draft for number in numbers for draft in step(number)])
        if cut:
            rewind(project, session.pk, Target(episodes=cut))
    return Session.objects.get(pk=session.pk)

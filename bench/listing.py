"""How long the list of sessions takes in a project of 1,000,000 steps in 5,000 sessions.

``python -m bench.listing [sqlite|postgres]``. One session of 200 steps is recorded; the others are copies of
its rows with other names, figures and times. Each case is the first page as a browser gets it, with its
facets. Garbage is collected between the requests.
"""

import gc
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from bench.machinery import ROOT, home, report
from historyapp.core.call_stack import with_room_for_calls
from tests.environment import start_postgres, stop_postgres

SESSIONS, STEPS, ROUNDS, BOUND = 5000, 200, 40, 50
AGENTS = ("claude-code", "codex", "fixer", "writer")
MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-4-5", "claude-sonnet-4-5")
TAGS = ("main", "nightly", "urgent")
SORTS = (
    "last_entry",
    "started",
    "duration",
    "steps",
    "errors",
    "likely_failures",
    "tokens",
    "money",
    "model",
)
"""What the list is sorted by."""
FACETS = (
    "", "errors=with", "agent=codex", "model=gpt-5&status=finished", "tag=nightly", "date=7-days", "q=parser",
    "folder=%2Fsrv%2Fapp-3&errors=with&date=30-days", "status=archived", "date=undated",
)  # fmt: skip


def main(database: str = "sqlite") -> None:
    """Measures in a process of its own, with a database of its own."""
    with home() as folder:
        url = start_postgres(folder / "postgres") if database == "postgres" else ""
        environment = {
            **os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF", "DATABASE_URL": url,
            "ALLOWED_HOSTS": "*", "DEBUG": "",
        }  # fmt: skip
        code = "from bench.listing import measure; measure()"
        try:
            for command in (["migrate", "--verbosity", "0"], ["shell", "--no-imports", "-c", code]):
                subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)
        finally:
            if url:
                stop_postgres(folder / "postgres")


@with_room_for_calls  # as the threads of the web process
def measure() -> None:
    """Fills the project and requests the pages alternately. Runs inside Django."""
    client = fill()
    paths = [*(f"/?sort=-{name}" for name in SORTS), *(f"/?{query}" for query in FACETS)]
    cases: dict[str, Callable[[], Any]] = {path: partial(client.get, path) for path in paths}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, get in cases.items():
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            assert get().status_code == 200
            used = time.process_time() - processor
            taken[name].append((1000 * (time.perf_counter() - wall), 1000 * used))
    rows = []
    for name, times in taken.items():
        clock, processors = (sorted(values) for values in zip(*times, strict=True))
        p95 = int(0.95 * ROUNDS)
        figures = (statistics.median(clock), clock[p95], statistics.median(processors), processors[p95])
        rows.append((name, "{:.0f}, {:.0f} ms; {:.0f}, {:.0f} ms".format(*figures), f"{BOUND} ms"))
    report("List of sessions (median, p95 by the clock; median, p95 of processor time)", rows)


def fill() -> Any:
    """Fills a project with many sessions, and returns a client that is signed in."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.utils import timezone

    from bench.fill import fill as record
    from historyapp.models import Episode, Membership, Session

    record((STEPS,))
    first, now, dice = Session.objects.get(), timezone.now(), random.Random(5)
    user = User.objects.create_user("person")
    Membership.objects.create(project=first.project, user=user, is_owner=True)
    copies = [_copy(first, number, now, dice) for number in range(SESSIONS - 1)]
    Session.objects.bulk_create(copies, batch_size=200)
    columns = [str(field.column) for field in Episode._meta.concrete_fields]
    copied = ["new.id" if name == "session_id" else f"old.{name}" for name in columns]
    table = Episode._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(copied)} "
            f"FROM historyapp_session new, {table} old WHERE old.session_id = %s AND new.id <> %s",
            [first.pk.hex if connection.vendor == "sqlite" else first.pk] * 2,
        )
        cursor.execute("ANALYZE")
        print(f"{Session.objects.count():,} sessions, {Episode.objects.count():,} steps")
    client = Client()
    client.force_login(user)
    return client


def _copy(first: Any, number: int, now: Any, dice: random.Random) -> Any:
    from uuid_utils.compat import uuid7

    from historyapp.models import Session

    values = {field.attname: getattr(first, field.attname) for field in Session._meta.concrete_fields}
    ended = now - timedelta(minutes=dice.randrange(90 * 24 * 60))
    took = dice.randrange(60_000, 7_200_000)
    values |= {
        "id": uuid7(), "title": f"Repair the parser of module {number}", "agent": dice.choice(AGENTS),
        "model": dice.choice(MODELS), "status": dice.choice(("live", "finished", "finished", "archived")),
        "tags_text": "\n" + "".join(f"{tag}\n" for tag in TAGS if dice.random() < 0.2),
        "created_at": ended - timedelta(milliseconds=took), "last_entry_at": ended, "duration": took,
        "errors": dice.choice((0, 0, 3, 20)), "likely_failures": dice.choice((0, 0, 0, 2)),
        "shown_tokens": dice.randrange(10**7), "money": dice.randrange(10**7),
        "steps": dice.randrange(20, 500), "metadata": {"cwd": f"/srv/app-{dice.randrange(40)}"},
    }  # fmt: skip
    return Session(**values)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How long the page of figures takes in a project of 1,000,000 steps in 5,000 sessions.

Its rows are written directly: 180 days, three agents, four models and ten tools, and 200 steps in each of the
sessions whose failures the page looks for. Without arguments on SQLite; DATABASE_URL names another database.
"""

import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from itertools import product

SESSIONS, STEPS, DAYS, REPEATS = 5000, 1_000_000, 180, 40


def main() -> None:
    os.environ.setdefault("PLAYHEAD_HOME", tempfile.mkdtemp())
    os.environ["DJANGO_SETTINGS_MODULE"] = "historyapp.settings"
    os.environ["ALLOWED_HOSTS"] = "*"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    client = fill()
    for path in ("/figures?days=7", "/figures", "/figures?days=90"):
        took, worked = [], []
        for _ in range(REPEATS):
            started, worked_before = time.perf_counter(), time.thread_time()
            assert client.get(path).status_code == 200
            took.append((time.perf_counter() - started) * 1000)
            worked.append((time.thread_time() - worked_before) * 1000)
        for name, times in (("by the clock", took), ("processor", worked)):
            p95 = sorted(times)[int(0.95 * len(times))]
            sys.stdout.write(f"{path}, {name}: median {statistics.median(times):.0f} ms, p95 {p95:.0f} ms\n")


def fill():  # type: ignore[no-untyped-def]
    from django.contrib.auth.models import User
    from django.test import Client
    from django.utils import timezone

    from historyapp.models import Episode, FiguresProgress, Membership, Project, ProjectDay, Session

    now = timezone.now()
    project, user = Project.objects.create(name="large"), User.objects.create_user("person")
    Membership.objects.create(project=project, user=user, is_owner=True)
    FiguresProgress.objects.create(project=project, is_complete=True)
    names = list(
        product(
            range(DAYS),
            ("fixer", "writer", "tester"),
            ("gpt-5", "gpt-5-mini", "claude-opus-4-5", "claude-sonnet-4-5"),
            (*(f"tool {n}" for n in range(9)), ""),
            (True, False),
        )
    )
    row_steps = STEPS // len(names)
    ProjectDay.objects.bulk_create(
        [
            ProjectDay(
                project=project, day=(now - timedelta(days=day)).date(), agent=agent, model=model, tool=tool,
                has_cost=False, is_live=is_live, steps=row_steps, errors=row_steps // 20,
                model_calls=row_steps, uncached=row_steps * 900, output=row_steps * 90, sessions=1,
            )
            for day, agent, model, tool, is_live in names
        ],
        batch_size=1000,
    )  # fmt: skip
    sessions = [
        Session(
            project=project,
            title=f"run {n}",
            last_entry_at=now - timedelta(minutes=n),
            tail_start=1,
            head=400,
        )
        for n in range(SESSIONS)
    ]
    Session.objects.bulk_create(sessions, batch_size=500)
    Episode.objects.bulk_create(
        [
            Episode(
                session=session, anchor=2 * n + 1, number=n + 1, first_position=2 * n + 1,
                last_position=2 * n + 2, status="success" if n % 10 else "error", error_line="no such file",
                started_at=now,
            )
            for session in sessions[:30]
            for n in range(200)
        ],
        batch_size=500,
    )  # fmt: skip
    sys.stdout.write(f"{len(names):,} rows of figures, {SESSIONS:,} sessions\n")
    client = Client()
    client.force_login(user)
    return client


if __name__ == "__main__":
    main()

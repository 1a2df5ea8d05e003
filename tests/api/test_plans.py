"""Every frequent statement selects rows by session, by project or by key, and its plan uses that condition.

Such a statement costs the same however many other sessions there are. A statement that reads a whole table
would pass all other tests: their tables are small.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from uuid_utils.compat import uuid7

from dashboard.tabs import TABS
from historyapp.compression_workers import RunScheduler
from historyapp.models import (
    CompressionRun,
    Entry,
    Episode,
    Membership,
    Project,
    Session,
    Snapshot,
    Summary,
)
from historyapp.services.compression.claims import claim, release, renew
from historyapp.services.compression.start import (
    compress_if_due,
    due_sessions,
    projects_with_unclaimed_runs,
    unclaimed_runs,
)
from tests.api.agent import Agent, ask
from tests.api.compressing import carry_out
from tests.api.test_query_counts import READS, WRITES, with_steps
from tests.plans import Access, Statement, forget_statistics, statements

COPIES = 600
"""So many that no partition has only a few: there, reading a whole small index is cheaper than a search."""
IN_PROJECT = 100
"""Copies that are in the same project."""
BY_SESSION = {"historyapp_entry", "historyapp_episode", "historyapp_snapshot"}
"""Tables whose rows are found by their session. Others may be found by their own key, too."""
SMALL = {
    "historyapp_project", "historyapp_membership", "historyapp_worker", "historyapp_tokencorrection",
    "historyapp_spendingcap", "historyapp_retentionpass", "historyapp_total",
}  # fmt: skip
"""Tables that do not grow with what agents record."""
WAITING = {"session_due_by_project"}
"""Indexes that hold only the rows that wait for a worker. They are read as a whole."""
LISTS = [
    "/sessions", "/sessions?q=run", "/sessions?tag=a&errors=true&status=all", "/sessions?agent=b",
    "/facets", "/facets?agent=b&tag=a&from=2026-01-01",
]  # fmt: skip
PAGES = [
    "", "?step=3", "?status=error", "?tool=ls&step=2", "/steps?around=5", "/steps/3", "/steps/3/raw",
    "/context?step=4", "/news?revision=0&steps=3&seen=3&step=3",
    "/settings", "/compressions/new", *(f"/{name}" for name in TABS),
]  # fmt: skip


def base_table(access: Access) -> str:
    return re.sub(r"_p\d+$", "", access.table)


def wrong_accesses(issued_statements: Iterable[Statement]) -> list[str]:
    """The statements that read a growing table without the key of the rows that they need."""
    return [
        f"{access.table} by {access.by or 'nothing'}: {statement.sql}"
        for statement in issued_statements
        for access in statement.accesses
        if base_table(access) not in SMALL
        and access.index not in WAITING
        and not access.table.startswith(("auth_", "django_"))
        and ("session_id" not in access.by if base_table(access) in BY_SESSION else not access.by)
    ]


def copy_rows(session: UUID) -> None:
    """Fills the tables until PostgreSQL's planner has a reason to use indexes, and updates its statistics."""
    if connection.vendor == "sqlite":
        return
    forget_statistics()
    others = Project.objects.create(name="others").pk
    with connection.cursor() as cursor:
        for model in (Session, Entry, Episode, Snapshot, Summary, CompressionRun):
            table, columns = (
                model._meta.db_table,
                [str(field.column) for field in model._meta.concrete_fields],
            )
            copied = ["gen_random_uuid()" if name == "id" else f"old.{name}" for name in columns]
            source = f"{table} old, generate_series(1, {COPIES}) number WHERE old.id = %s"
            if model is Session:
                copied[columns.index("title")] = "'a copy'"
                copied[columns.index("project_id")] = (
                    f"CASE WHEN number <= {IN_PROJECT} THEN old.project_id ELSE '{others}' END"
                )
            else:
                copied[columns.index("session_id")] = "new.id"
                source = (
                    f"{table} old, historyapp_session new WHERE old.session_id = %s AND new.title = 'a copy'"
                )
            names = ", ".join(columns)
            cursor.execute(
                f"INSERT INTO {table} ({names}) SELECT {', '.join(copied)} FROM {source}", [session]
            )
            if cursor.rowcount:  # statistics of no rows say that the table is small
                cursor.execute(f"ANALYZE {table}")


@pytest.fixture
def fork(alice: Agent) -> Agent:
    """A session with a parent, among many: its statements name two sessions."""
    parent = with_steps(alice, 20)
    parent.append(*[{"kind": kind, field: "x"} for kind, field in RARE.items()])
    run = alice.within(f"/sessions/{parent.post('/forks')['id']}")
    run.append(ask(), *[{"kind": kind, field: "y"} for kind, field in RARE.items()])
    for _ in range(3):
        run.step()
    for step in range(-3, 0):
        run.post("/summaries", {"from_step": step, "to_step": step, "text": "x"})
    copy_rows(UUID(run.get()["id"]))
    return run


RARE = {"system_instruction": "text", "memory_notebook": "content"}


def issued(calls: Iterable[Callable[[], Any]]) -> list[Statement]:
    with statements() as issued_statements:
        for call in calls:
            response = call()
            status = getattr(response, "status", None) or getattr(response, "status_code", 200)
            assert status in (200, 201, 202, 302), response
    return issued_statements


def test_the_api_finds_rows_by_session_or_project(alice: Agent, fork: Agent) -> None:
    issued_statements = issued(
        [
            *[partial(alice.get, path) for path in LISTS],
            *[partial(fork.get, path) for path in READS],
            *[partial(fork.post, path, body) for path, body in WRITES],
            lambda: fork.append(ask()) and fork.get(),
        ]
    )
    tables = {base_table(access) for statement in issued_statements for access in statement.accesses}
    assert tables >= {*BY_SESSION, "historyapp_session", "historyapp_apikey"}
    assert "\n".join(wrong_accesses(issued_statements)) == ""


def test_the_pages_find_rows_by_session_or_project(fork: Agent, project: Project) -> None:
    user = User.objects.create_user("alice")
    Membership.objects.create(project=project, user=user, is_owner=True)
    client = Client()
    client.force_login(user)
    fork.act()
    fork.fail()
    session = fork.get()["id"]
    addresses: list[str] = [
        "/",
        "/?q=run&errors=with",
        "/compressions",
        *[f"/sessions/{session}{page}" for page in PAGES],
    ]
    issued_statements = issued([partial(client.get, path) for path in addresses])
    assert "\n".join(wrong_accesses(issued_statements)) == ""


def test_workers_find_rows_by_session_or_run(fork: Agent, project: Project) -> None:
    run = UUID(fork.post("/compressions", {"strategy": "simple_extract", "from_step": 1, "to_step": 8})["id"])
    owner = uuid7()
    issued_statements = issued(
        [
            unclaimed_runs,
            lambda: projects_with_unclaimed_runs(calls_model=False),
            lambda: projects_with_unclaimed_runs(calls_model=True),
            RunScheduler().take,
            RunScheduler(calls_model=True).take,
            due_sessions,
            lambda: compress_if_due(UUID(fork.get()["id"])),
            lambda: carry_out(run, limit=4),
            lambda: claim(run, owner, 2),
            lambda: renew(owner),
            lambda: release(owner),
            lambda: carry_out(run),
        ]
    )
    assert any(
        "compressionitem" in access.table for statement in issued_statements for access in statement.accesses
    )
    assert "\n".join(wrong_accesses(issued_statements)) == ""


def test_a_statement_without_a_session_is_noticed(fork: Agent) -> None:
    """The other tests could not fail if plans were read wrongly."""
    with statements() as issued_statements:
        Entry.objects.filter(tokens=7).first()
        list(Entry.objects.filter(kind="model_input").order_by("position")[:1])
        Session.objects.filter(agent="nobody").first()
        Episode.objects.filter(session__project__name="x", number=3).first()
    assert len(wrong_accesses(issued_statements)) >= 3

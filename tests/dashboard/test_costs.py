"""The cost of a page does not depend on the length of the session."""

import gzip
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoDbBlocker

from historyapp.core.entries import EntryDraft, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures import run_figures
from historyapp.services.names.index import catch_up
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html
from tests.examples import thorough
from tests.limited_blocks import without_limits
from tests.services.drafts import act, ok

SHORT, LONG = 500, 5_000
"""Above 400 steps the timeline counts the inputs of each bar, in one more query."""
PAGE, MOVE = 150_000, 30_000
"""Bytes, compressed."""


class SharedSessions(NamedTuple):
    project: Project
    short: Session
    long: Session


@pytest.fixture(scope="module")
def shared(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[SharedSessions]:
    """Created once for all tests, which only read it."""
    with django_db_blocker.unblock(), transaction.atomic():
        project = Project.objects.create(name="Alice's project")
        sessions = [long_session(project, steps) for steps in (SHORT, LONG)]
        for session in sessions:
            assert index_text(session.pk)
            assert catch_up(session.lineage(), seconds=60, limit=None)
        yield SharedSessions(project, *sessions)
        transaction.set_rollback(True)


@pytest.fixture
def project(shared: SharedSessions, db: None) -> Project:
    return shared.project


@pytest.fixture
def short(shared: SharedSessions) -> Session:
    return shared.short


@pytest.fixture
def long(shared: SharedSessions) -> Session:
    return shared.long


@contextmanager
def queries() -> Iterator[list[str]]:
    """The queries that the block issues."""
    issued: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield issued
    issued += [query["sql"] for query in captured]


def compressed(response: Any) -> int:
    assert response.status_code == 200
    return len(gzip.compress(response.content, 6))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("session", ""),
        ("session", "?step=60"),
        thorough("session", "?step=-1"),
        ("session", "?step=60&zoom=41-80&axis=time"),
        ("session", "?step=60&turn=1"),
        ("session", "?step=60&status=error"),
        ("session", "?step=60&kind=read&zoom=41-80"),
        thorough("session", "?step=60&since=2000-01-01T00:00"),
        ("session", "?step=60&noted=1"),
        ("session", "?step=60&tool=read_file&zoom=41-80"),
        thorough("session", "?step=60&tool=none&zoom=41-80"),
        ("session", "?step=60&names=unseen&zoom=41-80"),
        ("session", "?step=60&text=notes&zoom=41-80"),
        ("continue", "?step=60"),
        ("step", ""),
        ("steps", "?around=60"),
        ("replay-time", ""),
        ("steps", "?after=60"),
        thorough("steps", "?after=60&text=notes"),
        ("news", "?revision=0&steps=60&seen=60&step=60"),
        ("rewind", "?step=60"),
        thorough("compress", ""),
        ("compress", "?strategy=structured&from_step=1"),
        ("compare", ""),
        ("session-settings", ""),
        ("write-summary", "?first=60&last=70"),
    ],
)
def test_a_long_session_issues_the_queries_of_a_short_one(
    alice: Client, short: Session, long: Session, name: str, query: str
) -> None:
    counts = []
    for session in (short, long):
        kwargs = {"session_id": session.pk} | ({"number": 60} if name == "step" else {})
        address = reverse(name, kwargs=kwargs) + query
        with queries() as issued:
            response = alice.get(address) if name == "session" else fragment(alice, address)
        assert response.status_code == 200
        counts.append(len(issued))
    assert counts[0] == counts[1]
    assert counts[0] <= 15


@pytest.mark.parametrize(
    "query",
    ["file=notes.txt", "file=notes.txt&text=fine", "find=notes", "find=absent", "find=notes&kind=read"],
)
def test_a_search_of_a_long_session_issues_no_more_queries_than_that_of_a_short_one(
    alice: Client, short: Session, long: Session, query: str
) -> None:
    """A search that reaches the end also reads the entries that are in no block yet."""
    counts = []
    for session in (short, long):
        with queries() as issued:
            address = reverse("session", args=[session.pk])
            assert alice.get(f"{address}?step=60&zoom=41-80&{query}").status_code == 200
        counts.append(len(issued))
    assert counts[1] <= counts[0] <= 15


def test_the_page_of_a_few_steps_needs_few_queries_too(alice: Client, session: Session) -> None:
    with queries() as issued:
        assert alice.get(reverse("session", args=[session.pk])).status_code == 200
    assert len(issued) <= 15


def test_the_page_of_a_session_of_many_rewinds_needs_a_few_queries_more_for_each_level_of_blocks(
    alice: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 4)
    monkeypatch.setattr(run_figures, "INTERVAL", 15)
    counts = []
    for amount in (20, 50):
        session = create_session(project)
        for number in range(amount):
            append(project, session.pk, [act(f"kept{number}"), ok(), act("dropped"), ok()])
            rewind(project, session.pk, Target(episodes=1))
        run_figures.count_run(History(Session.objects.get(pk=session.pk)))
        taken = []
        for query in ("", "?step=15", "?status=error", "/overview"):
            with queries() as issued:
                assert alice.get(reverse("session", args=[session.pk]) + query).status_code == 200
            taken.append(len(issued))
        counts.append(taken)
    few, many = counts
    assert all(more <= less + 2 for less, more in zip(few, many, strict=True))
    assert max(many) <= 24
    rewinds = sum("kind = 'rewind' AND position <=" in statement for statement in issued)
    assert rewinds == 1, "the overview shows takes twice"


def test_the_page_of_a_long_session_is_small(alice: Client, long: Session) -> None:
    response = alice.get(reverse("session", args=[long.pk]) + "?step=2500")
    assert compressed(response) < PAGE
    assert html(response).count('data-step="') <= 51


def test_every_bar_of_a_long_session_has_an_equal_share_of_steps(alice: Client, long: Session) -> None:
    page = html(alice.get(reverse("session", args=[long.pk])))
    assert page.count('<rect class="bar bar-share') == 250
    assert "steps 41–60 · 1 error · 10,000 tokens" in page


def noise(length: int) -> str:
    """Text that does not compress."""
    source = random.Random(7)
    return "".join(map(chr, source.choices(range(0x4E00, 0x9FFF), k=length)))


@pytest.mark.parametrize("calls", [1, thorough(30), 1_000])
def test_the_response_to_a_move_is_small_for_any_step(
    alice: Client, project: Project, session: Session, calls: int
) -> None:
    names = [
        ToolCall(id=f"c{n}", name="run", arguments={"code": noise(9_000 // calls + 300)})
        for n in range(calls)
    ]
    results = [
        ToolResult(tool_call_id=call.id, status="success", outputs=noise(9_000)) for call in names[:50]
    ]
    append(project, session.pk, [EntryDraft(ModelOutput(thoughts=noise(9_000), tool_calls=tuple(names)))])
    append(project, session.pk, [EntryDraft(ToolResults(results=tuple(results)))])
    response = fragment(alice, reverse("step", args=[session.pk, 6]))
    assert compressed(response) < MOVE


def test_five_megabytes_of_output_are_folded(alice: Client, project: Project, session: Session) -> None:
    output = "A" * 5_000_000
    append(project, session.pk, [EntryDraft(ModelOutput(tool_calls=(ToolCall(id="a", name="cat"),)))])
    result = ToolResult(tool_call_id="a", status="success", outputs=output)
    append(project, session.pk, [EntryDraft(ToolResults(results=(result,)))])
    response = fragment(alice, reverse("step", args=[session.pk, 6]))
    assert len(response.content) < 20_000
    more = fragment(alice, reverse("block", args=[session.pk, 6, "result-0"]) + "?start=4000")
    assert 50_000 < len(more.content) < 80_000


def test_the_list_reads_the_rewinds_of_ended_sessions_at_once(alice: Client, project: Project) -> None:
    counts = list[int]()
    for sessions in (1, 5):
        for _ in range(sessions - Session.objects.filter(status="finished").count()):
            ended = create_session(project, metadata={"exit_status": "submitted"})
            append(project, ended.pk, [act(), ok(), act(), ok()])
            undo_rewind(project, ended.pk, rewind(project, ended.pk, Target(to_step=1)).position)
            Session.objects.filter(pk=ended.pk).update(status=Session.Status.FINISHED)
        with queries() as issued:
            assert html(alice.get("/")).count('title="submitted"') == sessions
        counts.append(len(without_limits(issued)))
    assert counts[0] == counts[1] <= 18


def test_the_list_reads_no_bodies_and_issues_few_queries(
    alice: Client, short: Session, session: Session
) -> None:
    for _ in range(3):
        ended = create_session(short.project, metadata={"exit_status": "submitted"})
        Session.objects.filter(pk=ended.pk).update(status=Session.Status.FINISHED)
    append(short.project, fork(short.project, session.pk).pk, [act(), ok()])
    with queries() as issued:
        assert "a fork is recording now" in html(alice.get("/"))
    # One for webhooks that are switched off, one for a bulk action, two for what is folded, two for all
    # facets (the tags of a limited number of sessions apart), one for who is at work, one for the parents of
    # forks that record now, one for how runs ended, one for saved searches.
    assert len(without_limits(issued)) <= 16
    assert not any("historyapp_entry" in sql or "historyapp_episode" in sql for sql in issued)

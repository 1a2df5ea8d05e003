"""Pages of the list of sessions in every order."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.errors import Invalid
from historyapp.models import Project, Session
from historyapp.models.annotations import Annotation
from historyapp.models.session_lists import ORDERS, SORTS, Order, page_of

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERY_ORDER = [sign + name for name in ORDERS for sign in ("", "-")]


@pytest.fixture
def many(db: None) -> Project:
    """A project with 23 sessions. Several have the same figures."""
    project = Project.objects.create(name="many")
    Session.objects.bulk_create(
        Session(
            project=project,
            created_at=START + timedelta(days=n % 5),
            last_entry_at=START + timedelta(days=n % 4),
            model=f"model-{n % 3}",
            **dict.fromkeys(("steps", "errors", "likely_failures", "duration"), n % 6),
            shown_tokens=(n % 3) * 2**40,
            money=n % 2,
        )
        for n in range(23)
    )
    scored = Session.objects.filter(project=project).order_by("pk")[:12]
    Annotation.objects.bulk_create(
        Annotation(session=session, score=(None, -0.5, 0, 0.1, 1e9)[n % 5])
        for n, session in enumerate(scored)
    )
    return project


@pytest.mark.parametrize("sort", [sign + name for name in SORTS for sign in ("", "-")])
def test_pages_contain_every_session_once_in_order(many: Project, sort: str) -> None:
    order, listed, cursor = Order.parse(sort), list[Session](), ""
    sessions = Session.objects.filter(project=many)
    while True:
        page = page_of(sessions, order, "all", cursor=cursor, limit=5)
        listed += page.sessions
        cursor = page.cursor
        if not cursor:
            break
    assert listed == list(order.apply(sessions))
    assert len(set(listed)) == 23


@pytest.mark.parametrize("sort", EVERY_ORDER)
def test_every_order_has_an_index(many: Project, sort: str) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads few rows without an index")
    order = Order.parse(sort)
    following = order.after(
        Session.objects.filter(project=many), getattr(Session(), order.column), Session().pk
    )
    plan = order.apply(following).explain()
    assert "USING INDEX session_" in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("sort", ["score", "-score"])
def test_sessions_without_a_score_come_last(many: Project, sort: str) -> None:
    order = Order.parse(sort)
    scores = [order.value_of(session) for session in order.apply(Session.objects.filter(project=many))]
    scored = [score for score in scores if score is not None]
    assert len(scored) == 9
    assert scores == [*sorted(scored, reverse=sort == "-score"), *[None] * 14]


def test_a_cursor_belongs_to_one_list_and_one_order(many: Project) -> None:
    sessions = Session.objects.filter(project=many)
    cursor = page_of(sessions, Order("steps"), "all", limit=5).cursor
    for order, query in ((Order("errors"), "all"), (Order("steps", False), "all"), (Order("steps"), "other")):
        with pytest.raises(Invalid, match="belongs to another list"):
            page_of(sessions, order, query, cursor=cursor)
    for wrong in (cursor[:-1] + "x", cursor + "9" * 30, cursor.replace("~", ""), "~~", "x" * 2000):
        with pytest.raises(Invalid, match="belongs to another list"):
            page_of(sessions, Order("steps"), "all", cursor=wrong)


def test_a_page_takes_one_query_at_any_number_of_steps(many: Project) -> None:
    Session.objects.update(steps=10**6)
    with CaptureQueriesContext(connection) as issued:
        page_of(Session.objects.filter(project=many), Order("steps"), "all", limit=5)
    # On PostgreSQL, others limit its time.
    queries = [query["sql"] for query in issued if "FROM" in query["sql"]]
    assert len(queries) == 1
    assert "historyapp_episode" not in queries[0]


def test_the_error_of_an_unknown_order_lists_the_known_ones() -> None:
    with pytest.raises(Invalid, match="last_entry, started"):
        Order.parse("-title")

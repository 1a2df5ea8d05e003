"""Long bodies are stored compressed in SQLite; reading gives the same values."""

from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection
from hypothesis import given
from hypothesis import strategies as st

from historyapp.models import Entry, Episode, Project
from historyapp.models.fields import pack, unpack
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok

LONG = "The parser drops the last line when the file does not end in a newline. " * 20


@given(st.text() | st.text().map(lambda text: text * 50))
def test_what_is_packed_comes_back(text: str) -> None:
    assert unpack(pack(text)) == text


@pytest.fixture
def history(transactional_db: None) -> History:
    project = Project.objects.create(name="ours")
    session = create_session(project)
    append(
        project,
        session.pk,
        [draft for n in range(3) for draft in (act("read", path=f"{n}"), ok(outputs=LONG))],
    )
    session.refresh_from_db()
    return History(session)


def everything(history: History) -> list[Any]:
    """All that is stored of entries and steps, as readers get it."""
    return [
        list(Entry.objects.order_by("position").values()),
        list(Episode.objects.order_by("number").values()),
        list(history.entries()),
        history.outline(1, 3),
    ]


def stored() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT typeof(body) FROM historyapp_entry WHERE length(body) > 300")
        bodies = {kind for (kind,) in cursor.fetchall()}
        cursor.execute("SELECT DISTINCT typeof(body) FROM historyapp_entry WHERE kind = 'tool_results'")
        return bodies | {kind for (kind,) in cursor.fetchall()}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL compresses long values itself")
def test_a_database_of_an_older_version_reads_the_same_before_and_after(history: History) -> None:
    written = everything(history)
    assert stored() == {"blob"}
    call_command("migrate", "historyapp", "0012", verbosity=0)
    assert stored() == {"text"}
    assert everything(history) == written, "rows that were not migrated yet"
    call_command("migrate", "historyapp", verbosity=0)
    assert stored() == {"blob"}
    assert everything(history) == written
    with pytest.raises(IntegrityError, match="entries never change"), connection.cursor() as cursor:
        cursor.execute("UPDATE historyapp_entry SET tokens = 0")


def test_a_long_result_is_read_as_it_was_written(history: History) -> None:
    results = [entry.body for entry in history.entries() if entry.kind == "tool_results"]
    assert [body["results"][0]["outputs"] for body in results] == [LONG] * 3

"""Sessions are found by words in any case, on every database."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from historyapp.models import Project, Session
from historyapp.services.sessions import change_session, create_session
from tests.plans import statements


@pytest.fixture
def session(db: None) -> Session:
    project = Project.objects.create(name="Alice's")
    return create_session(project, names={"title": "Größe", "agent": "Ёж"}, tags=["ÉTÉ"])


@pytest.mark.parametrize("text", ["größe", "GRÖSSE", "ёж Größe", "été", "ÉT"])
def test_a_session_is_found_by_its_words_in_any_case(session: Session, text: str) -> None:
    assert Session.objects.search(text).get() == session
    assert not Session.objects.search(f"{text} groesse").exists()


def test_a_session_is_found_by_its_new_name_only(session: Session) -> None:
    change_session(session.project, session.pk, {"title": "Ärger"})
    assert Session.objects.search("ärger").exists()
    assert not Session.objects.search("größe").exists()


def test_sessions_older_than_the_search_column_are_found(session: Session) -> None:
    Session.objects.update(search_text="")
    import_module("historyapp.migrations.0007_search_text").fill(apps, connection.schema_editor())
    assert Session.objects.search("größe été").get() == session


def test_sessions_without_tags_are_not_read_for_a_tag(db: None) -> None:
    project = Project.objects.create(name="Bob's")
    for number in range(30):
        create_session(project, names={"title": f"run {number}"}, tags=["nightly"] if number % 10 else [])
    with statements() as issued:
        tagged = Session.objects.filter(project=project).tagged(["nightly"])
        titles = [session.title for session in tagged.newest_first()]
    assert len(titles) == 27
    [statement] = issued
    if connection.vendor == "sqlite":  # PostgreSQL decides by its statistics
        assert [access.index for access in statement.accesses] == ["session_tagged"]
    assert not Session.objects.tagged(["night"]).exists()
    assert Session.objects.tagged([]).count() == 30


def test_the_tail_equals_the_column_also_after_a_change(session: Session) -> None:
    assert session.live_tail is session.live_tail
    session.tail = {"totals": {"steps": 7}, "step": None, "input_preview": ""}
    assert session.live_tail.totals.steps == 7
    session.refresh_from_db()
    assert session.live_tail.totals.steps == 0

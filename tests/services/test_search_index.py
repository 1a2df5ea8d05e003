"""The index of searches reads few bodies at a time, whatever a step contains."""

from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.db import DataError, OperationalError

from historyapp.core import search_documents
from historyapp.core.entries import EntryDraft
from historyapp.core.search_documents import GAP, SearchDocument, facet_tokens
from historyapp.models import Entry, SearchProgress, SearchStep, Session, search_steps
from historyapp.models.changes import newest_cursor
from historyapp.models.search_steps import ReadCount, ReadingStopped, documents, logged_entries
from historyapp.models.sql import fetch_all
from historyapp.services.append import append
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from historyapp.services.search import index as search_index
from historyapp.services.search.index import catch_up, catch_up_for_search, index_session
from historyapp.services.sessions import create_session
from tests.purging import purge_after
from tests.services.drafts import act, ask, failed, ok


def record(session: Session, *drafts: EntryDraft) -> None:
    append(session.project, session.pk, list(drafts))
    session.refresh_from_db()


def made(session: Session, count: ReadCount | None = None) -> list[SearchDocument]:
    return list(documents(session.project_id, session.pk, 1, session.head, count))


def texts(document: SearchDocument) -> str:
    return document.tokens.split(f" {GAP} ", 1)[-1]


def test_entries_are_the_same_with_long_bodies_read_one_by_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(session, *[draft for n in range(9) for draft in (ask(f"look {n} " * 200), act("ls"), ok())])
    together = made(session)
    monkeypatch.setattr(search_steps, "_SHORT_BODY", 0)
    monkeypatch.setattr(search_steps, "_RANGE", 2)
    assert made(session) == together
    assert [document.first for document in together] == list(range(1, 28, 3))


def test_a_body_is_read_only_when_it_is_needed_and_counted_before(session: Session) -> None:
    record(session, ask("few"), ask("much " * 100_000), act("ls"))
    bodies = {entry.position: len(entry.body["content"]) for entry in Entry.objects.filter(position__lt=3)}
    assert bodies[2] == 500_000
    count = ReadCount()
    logged = list(logged_entries(session.pk, 1, session.head, count))
    count.limit, before = 400_000, count.characters
    body, size = logged[0].read()
    assert body["content"] == "few"
    assert count.characters == before + size
    with pytest.raises(ReadingStopped):
        logged[1].read()
    assert count.characters == before + size
    with pytest.raises(ReadingStopped):
        made(session, ReadCount(5_000))


def test_inputs_after_many_characters_of_a_step_are_not_searched_but_its_call_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_documents, "MAX_READ", 3_000)
    record(
        session,
        ask("wombat " * 600),
        ask("quokka"),
        act("bash", command="make dingo"),
        failed(reason="numbat"),
    )
    (document,) = made(session)
    assert "wombat" in texts(document)
    assert "quokka" not in texts(document)
    assert "dingo" in texts(document)
    assert "numbat" in texts(document)
    assert (document.first, document.last, document.anchor, document.step) == (1, 4, 3, 1)
    assert (document.tools, document.status, document.is_capped) == (("bash",), "error", True)


def test_files_of_command_lines_are_searched(session: Session) -> None:
    sed = act("bash", command="sed -i s/a/b/ lib/separable.py")
    record(session, sed, ok(), act("bash", command="cat no.md"))
    edit, read = made(session)
    has_edit = f"{search_documents.MARKS['has']}edit"
    assert " ".join(facet_tokens("file", "lib/separable.py")) in edit.tokens
    assert " ".join(facet_tokens("file", "no.md")) in read.tokens
    assert (has_edit in edit.tokens, has_edit in read.tokens) == (True, False)


def test_results_after_many_characters_of_a_step_are_not_searched(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_documents, "MAX_READ", 3_000)
    record(session, act("bash"), ok(outputs="wombat " * 600), ok(outputs="quokka"), ask("numbat"), act("ls"))
    first, second = made(session)
    assert ("wombat" in texts(first), "quokka" in texts(first), first.last) == (True, False, 3)
    assert "numbat" in texts(second), "each step has its own limit"
    assert (first.is_capped, second.is_capped) == (True, False)


def test_a_step_with_many_long_words_is_indexed_in_part(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL stores words of at most a megabyte for each step."""
    words = [f"{number:05}" + "я" * 35 for number in range(14_000)]
    monkeypatch.setattr(search_documents._Texts, "tokens", lambda _: words)
    record(session, act("ls"), ok())
    assert index_session(session.pk)
    (document,) = made(session)
    assert document.is_capped
    assert 899_900 < len(document.tokens.encode()) <= 900_000
    assert set(document.tokens.split()) > set(words[:11_000])


@pytest.mark.django_db(transaction=True)
def test_a_session_that_cannot_be_indexed_does_not_keep_others_from_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up(session.project_id, lambda: False)
    other = create_session(session.project)
    for one in (session, other):
        record(one, act("ls"), ok())
    error: Exception = DataError("string is too long for tsvector")
    with monkeypatch.context() as patch:
        usual = search_index.index_session
        patch.setattr(
            search_index,
            "index_session",
            lambda id, *rest: Mock(side_effect=error)() if id == session.pk else usual(id, *rest),
        )
        assert catch_up(session.project_id, lambda: False)
        assert [row.session_id for row in SearchStep.objects.all()] == [other.pk]
        error = OperationalError("the connection is lost")
        record(session, act("ls"), ok())
        with pytest.raises(OperationalError):
            catch_up(session.project_id, lambda: False)


@pytest.mark.django_db(transaction=True)
def test_a_search_leaves_much_text_to_the_workers(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "MAX_READ_BY_SEARCH", 50_000)
    monkeypatch.setattr(search_index, "READ_SECONDS", 10)  # on a busy machine, 0.15 s are too short
    record(session, ask("little"), act("ls"), ok())
    assert catch_up_for_search(session.project_id)
    record(session, ask("little"), act("ls"), ok(), ask("much " * 20_000), act("ls"), ok())
    assert not catch_up_for_search(session.project_id)
    assert SearchStep.objects.count() == 2, "the steps before are added"
    assert catch_up(session.project_id, lambda: False)
    assert SearchStep.objects.count() == 3
    assert catch_up_for_search(session.project_id), "nothing is missing"
    assert rebuild(session).differences == []


def test_a_worker_can_stop_after_each_long_step(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "BATCH_READ", 20_000)
    record(session, *[draft for n in range(3) for draft in (act("ls"), ok(outputs=f"{n} " * 20_000))])
    record(session, act("ls"), ok())
    turns = [(index_session(session.pk, lambda: True), SearchStep.objects.count()) for _ in range(3)]
    assert turns == [(False, 2), (False, 3), (True, 4)]
    assert rebuild(session).differences == []


def test_a_rewind_at_the_end_is_no_missing_step(session: Session) -> None:
    record(session, act("ls"), ok(), act("ls"), ok())
    rewind(session.project, session.pk, Target(to_step=1))
    assert index_session(session.pk, lambda: True)


def test_an_index_stops_if_the_session_is_deleted_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(session, ask("much " * 20_000), act("ls"))

    def fetch(statement: str, values: list[object]) -> list[object]:
        return [] if statement == search_steps._BODY else fetch_all(statement, values)

    monkeypatch.setattr(search_steps, "_SHORT_BODY", 10)
    monkeypatch.setattr(search_steps, "fetch_all", fetch)
    assert not index_session(session.pk)
    assert index_session(UUID(int=7))


@pytest.mark.skipif(
    "config.getoption('database') != 'sqlite'", reason="PostgreSQL refuses the rows when it commits"
)
def test_nothing_is_stored_if_the_session_is_deleted_after_its_text_was_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(session, ask("secret words"), act("ls"))
    purge_after(monkeypatch, search_index, "_next_batch", session)
    assert not index_session(session.pk)
    assert not SearchStep.objects.exists()


def test_an_index_is_complete_after_the_last_session_even_if_the_time_is_over(
    session: Session, settled: None
) -> None:
    record(session, act(), ok())
    assert catch_up(session.project_id, lambda: True)


@pytest.mark.parametrize("is_behind", [False, True])
def test_indexing_stops_at_sessions_without_steps_and_continues_after_them(
    session: Session, monkeypatch: pytest.MonkeyPatch, settled: None, *, is_behind: bool
) -> None:
    """A search may stop after its time, however many sessions are empty."""
    monkeypatch.setattr(search_index, "MAX_CHANGES", 50)
    assert catch_up(session.project_id, lambda: False)
    for _ in range(120):
        create_session(session.project)
    if is_behind:
        SearchProgress.objects.update(
            is_behind=True, done_to=None, cursor=str(newest_cursor(session.project_id))
        )
    indexed = list[UUID]()
    index = search_index.index_session

    def index_one(session: UUID, *arguments: Any) -> bool:
        indexed.append(session)
        return index(session, *arguments)

    monkeypatch.setattr(search_index, "index_session", index_one)
    turns = [catch_up(session.project_id, lambda: True) for _ in range(4)]
    assert turns[-1]
    assert turns[0] is False
    assert len(indexed) <= 3 * 50
    assert set(Session.objects.values_list("pk", flat=True)) - {session.pk} <= set(indexed)

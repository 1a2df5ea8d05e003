"""The words of deleted sessions do not stay in SQLite's text index."""

import pytest

from historyapp.models import Project, SearchProgress, Session
from historyapp.models.database_clock import database_now
from historyapp.models.projects import PURGED
from historyapp.models.sql import fetch_all
from historyapp.services.append import append
from historyapp.services.retention import erase
from historyapp.services.search import deleted_words
from historyapp.services.search.deleted_words import remove_deleted_words
from historyapp.services.search.index import catch_up, projects_to_index
from historyapp.services.sessions import change_session, create_session
from tests.services.drafts import act, ask, ok

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="SQLite's text index"),
]
WORD = "zqpassword" * 5


@pytest.fixture(autouse=True)
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the log of changes can be emptied: not within the transaction of a test."""
    answers = [True]
    monkeypatch.setattr(deleted_words, "empty_wal", lambda: answers[-1])
    return answers


@pytest.fixture
def kept(project: Project) -> Session:
    """A session of words that are older than those of deleted sessions."""
    words = [f"word{number * 7919 % 4001}" for number in range(3_000)]
    return recorded(project, *[" ".join(["kept", *words[start::10]]) for start in range(10)])


def recorded(project: Project, *texts: str) -> Session:
    """A session whose steps have been indexed, the last one also before it grew."""
    session = create_session(project)
    append(project, session.pk, [draft for text in texts for draft in (ask(text), act("bash"))])
    catch_up(project.pk, lambda: False)
    append(project, session.pk, [ok(outputs=texts[-1])])
    catch_up(project.pk, lambda: False)
    change_session(project, session.pk, {"status": "archived"})
    session.refresh_from_db()
    return session


def has_word() -> bool:
    """Whether a page of the text index contains the end of the word: words are stored without what they have
    in common with the word before them."""
    pages = fetch_all("SELECT block FROM historyapp_searchwords_data", [])
    return any(WORD[10:].encode() in block for (block,) in pages)


def must_remove() -> bool:
    return PURGED in projects_to_index()


def found(text: str) -> int:
    return len(fetch_all("SELECT rowid FROM historyapp_searchwords WHERE tokens MATCH %s", [text]))


def test_no_word_of_a_deleted_session_stays_in_the_text_index(
    project: Project, kept: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_words, "_PAGES", 1)
    erase(recorded(project, f"the {WORD} of", f"more {WORD}"))
    assert (found(WORD), has_word(), must_remove()) == (0, True, True)
    parts = 0

    def stop_after_one_part() -> bool:
        nonlocal parts
        parts += 1
        return parts % 2 == 0

    while must_remove():
        remove_deleted_words(stop_after_one_part)
    assert parts > 4
    assert not has_word()
    assert found("kept") == 10
    assert remaining_segments() == 1


def remaining_segments() -> int:
    return len(fetch_all("SELECT DISTINCT id >> 37 FROM historyapp_searchwords_data WHERE id > 10", []))


def test_words_deleted_while_the_index_is_written_are_removed_after_a_rest(
    project: Project, kept: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_words, "_PAGES", 1)
    later = recorded(project, f"later {WORD}")
    erase(recorded(project, "first"))
    remove_deleted_words(lambda: True)
    erase(later)
    remove_deleted_words()
    assert (has_word(), must_remove()) == (True, False)
    after_rest = database_now() + deleted_words.REST
    monkeypatch.setattr(deleted_words, "database_now", lambda: after_rest)
    assert must_remove()
    remove_deleted_words()
    assert not has_word()


def test_without_deletions_the_index_is_not_written_again(project: Project, kept: Session) -> None:
    assert not must_remove()
    erase(kept)
    remove_deleted_words()
    assert SearchProgress.objects.get(project=PURGED).done_to is None
    assert not must_remove()


def test_the_removal_is_not_complete_until_the_log_of_changes_is_empty(
    kept: Session, emptied: list[bool]
) -> None:
    emptied.append(False)
    erase(kept)
    remove_deleted_words()
    assert must_remove()
    emptied.append(True)
    remove_deleted_words()
    assert not must_remove()

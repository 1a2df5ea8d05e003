"""A text is found in every live entry, with and without blocks, also in forks and takes."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.errors import Invalid
from historyapp.models import Project, Session, TextBlock, text_search
from historyapp.models.history import History
from historyapp.models.text_search import TextSearch, in_steps
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.services.drafts import act, ask, ok

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def with_steps(project: Project, count: int, size: int = 0) -> Session:
    """An input, then steps with a name of their own; each result has ``size`` more characters."""
    session = create_session(project)
    drafts = [ask("Find the BUG, please.")]
    for number in range(1, count + 1):
        drafts += [act("grep", pattern=f"name_{number}_x"), ok(outputs="filler " * (size // 7))]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session


def positions(session: Session, text: str, *, takes: bool = False, as_of: int | None = None) -> list[int]:
    hits = TextSearch(History(session, as_of), text, with_takes=takes).find(100)
    assert hits.more is None
    return [hit.match.position for hit in hits.hits]


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[UUID]:
    """Each test undoes its changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield with_steps(Project.objects.create(name="Alice's"), 300, 700).pk
        transaction.set_rollback(True)


@pytest.fixture(params=["scanned", "indexed"])
def long(request: pytest.FixtureRequest, recorded: UUID, db: None) -> Session:
    if request.param == "indexed":
        assert index_text(recorded) == 3
    return Session.objects.get(pk=recorded)


def test_a_text_is_found_in_any_case_and_within_words(long: Session) -> None:
    assert positions(long, "NAME_250_") == [500]
    assert positions(long, "ame_250") == [500]
    assert positions(long, " the bug, p ") == [1]
    assert positions(long, "name_3_x") == [6]
    assert positions(long, "name_301") == []


def test_short_texts_are_found(long: Session) -> None:
    assert positions(long, "g,") == [1]
    assert positions(long, "Ω") == []


def test_no_character_has_a_special_meaning(long: Session) -> None:
    texts = ["%", "*", '"', "a AND b", "(", "\\", "' OR 1=1", "\0", "\ud800", "😀"]
    for number, text in enumerate(texts):
        assert positions(long, text) == []
        append(long.project, long.pk, [ask(f"literally {text} here")])
        long.refresh_from_db()
        assert positions(long, text) == [602 + number]


def test_texts_in_takes_are_found_only_on_request(long: Session) -> None:
    rewind(long.project, long.pk, Target(to_step=200))
    append(long.project, long.pk, [act("grep", pattern="name_250_x"), ok()])
    long.refresh_from_db()
    assert positions(long, "name_250_x") == [603]
    assert positions(long, "name_250_x", takes=True) == [500, 603]
    assert positions(long, "name_250_x", as_of=601) == [500]
    hits = TextSearch(History(long), "name_250_x", with_takes=True).find(10)
    assert [hit.live for hit in hits.hits] == [False, True]


def test_a_fork_finds_shared_and_own_texts(long: Session) -> None:
    child = fork(long.project, long.pk, at_step=100)
    append(long.project, child.pk, [act("grep", pattern="name_100_x and more"), ok()])
    child.refresh_from_db()
    assert positions(child, "name_100_x") == [200, 202]
    assert positions(child, "name_101_x") == []
    assert positions(long, "name_100_x and") == []


def test_pages_give_the_same_hits_as_one_search(long: Session) -> None:
    whole = [hit.match.position for hit in TextSearch(History(long), "name_1").find(500).hits]
    paged, after = [], 0
    while True:
        hits = TextSearch(History(long), "name_1").find(7, after)
        paged += [hit.match.position for hit in hits.hits]
        if hits.more is None:
            break
        after = hits.more
    assert len(whole) == 111
    assert [*dict.fromkeys(paged)] == paged == whole[: len(paged)] == whole


def test_a_search_that_stops_early_continues_where_it_stopped(
    long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_BLOCKS", 1)
    monkeypatch.setattr(text_search, "MAX_ENTRIES", 50)
    hits, after, searches = list[int](), 0, 0
    while True:
        page = TextSearch(History(long), "name_").find(500, after)
        hits += [hit.match.position for hit in page.hits]
        searches += 1
        if page.more is None:
            break
        assert page.more > after
        after = page.more
    assert hits == list(range(2, 602, 2))
    assert searches > 2


def test_the_search_names_sessions_that_lack_a_block(project: Project) -> None:
    short, long = with_steps(project, 3), with_steps(project, 300, 700)
    assert TextSearch(History(short), "x").find(10).unindexed == set()
    assert TextSearch(History(long), "x").find(10_000).unindexed == {long.pk}
    index_text(long.pk)
    assert TextSearch(History(long), "x").find(10_000).unindexed == set()


def test_hits_are_grouped_by_the_step_that_shows_them(project: Project) -> None:
    session = with_steps(project, 2)
    append(project, session.pk, [ask("And name_2_x again?")])
    session.refresh_from_db()
    page = TextSearch(History(session), "name_2_x").find(10)
    assert {step: len(hits) for step, hits in in_steps(page.hits, 2).items()} == {2: 2}


@pytest.mark.parametrize("text", ["", "  ", "x" * 201])
def test_empty_and_very_long_texts_are_refused(project: Project, text: str) -> None:
    with pytest.raises(Invalid):
        TextSearch(History(with_steps(project, 1)), text)


def test_entries_outside_of_blocks_are_read_in_growing_batches(
    project: Project, django_assert_max_num_queries: object
) -> None:
    session = with_steps(project, 1_400, 5)
    for newest_first in (False, True):
        with django_assert_max_num_queries(5):  # type: ignore[operator]
            hits = TextSearch(History(session), "name_700_x").find(10, newest_first=newest_first)
        assert [hit.match.step for hit in hits.hits][:1] == [700]


def test_the_number_of_queries_does_not_grow_with_the_session(
    project: Project, django_assert_max_num_queries: object
) -> None:
    session = with_steps(project, 300, 700)
    index_text(session.pk)
    with django_assert_max_num_queries(4):  # type: ignore[operator]
        TextSearch(History(session), "name_250_x").find(10)
    assert TextBlock.objects.count() == 3

"""A search of a fork finds the same texts whichever entries of its lineage are in blocks."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.lineage import Span
from historyapp.models import Project, Session, TextBlock, block_cache, lineage_blocks, text_blocks
from historyapp.models.history import History
from historyapp.models.lineage_blocks import OwnPart, covered, divided, own_parts
from historyapp.models.step_texts import read_around
from historyapp.models.text_search import Hit, TextSearch
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db
BLOCK = 8


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_ENTRIES", BLOCK)


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Alice's")


def record(session: Session, count: int) -> None:
    """Steps whose results name their positions and session; every third has the word ``third``."""
    for number in range(session.head + 2, session.head + 2 + 2 * count, 2):
        text = f"name_{number}_x{' third' * (number % 3 == 0)} of {session.pk}"
        append(session.project, session.pk, [act(), ok(outputs=text)])
    session.refresh_from_db()


def chain(project: Project, lengths: list[int]) -> list[Session]:
    """A session and forks of forks. Each goes on by two steps after it was forked."""
    sessions = [create_session(project)]
    record(sessions[0], lengths[0])
    for length in lengths[1:]:
        child = fork(project, sessions[-1].pk)
        record(sessions[-1], 2)
        record(child, length)
        sessions.append(child)
    return sessions


def hits(session: Session, text: str, *, newest_first: bool = False, as_of: int | None = None) -> list[Hit]:
    """All hits of a search in pages of three, also in takes."""
    found, history = list[Hit](), History(session, as_of)
    after, last = 0, None
    while True:
        search = TextSearch(history, text, with_takes=True)
        page = search.find(3, after, last, newest_first=newest_first)
        found += page.hits
        if page.more is None:
            return found
        after, last = (after, page.more - 1) if newest_first else (page.more, last)


def all_hits(session: Session) -> list[list[Hit]]:
    positions = (None, session.head - 3, session.fork_position + 1, session.fork_position - 3)
    searches = [
        hits(session, text, newest_first=newest_first, as_of=as_of)
        for text in ("third", "name_12_x", "nowhere")
        for newest_first in (False, True)
        for as_of in positions
    ]
    assert any(searches)
    return searches


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_blocks_of_any_sessions_change_no_hit(
    project: Project, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not together:
        monkeypatch.setattr(lineage_blocks, "MAX_ENTRIES_TOGETHER", 0)
    sessions = chain(project, [7, 1, 1, 9, 1, 2, 6])
    newest = sessions[-1]
    rewind(project, newest.pk, Target(episodes=2))
    newest.refresh_from_db()
    record(newest, 2)
    expected = all_hits(newest)
    for session in (sessions[0], sessions[4], newest, sessions[3]):  # ancestors have later blocks too
        index_text(session.pk)
        assert all_hits(newest) == expected
    for block in TextBlock.objects.order_by("?"):
        TextBlock.objects.filter(session=block.session_id, first_position__gte=block.first_position).delete()
        assert all_hits(newest) == expected


@pytest.mark.parametrize("together", [True, False], ids=["together", "one by one"])
def test_blocks_of_earlier_versions_begin_with_the_first_own_entry(
    project: Project, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not together:
        monkeypatch.setattr(lineage_blocks, "MAX_ENTRIES_TOGETHER", 0)
    sessions = chain(project, [6, 9])
    newest = sessions[-1]
    expected = all_hits(newest)
    own = own_parts(newest, newest.head)[0]
    (block, *_) = text_blocks.blocks([Span(*own)])
    block.save()
    assert block.first_position == newest.fork_position + 1
    assert all_hits(newest) == expected
    index_text(newest.pk)
    assert TextBlock.objects.filter(session=newest).first() == block
    assert all_hits(newest) == expected
    names = hits(newest, "name")
    index_text(sessions[0].pk)  # its second block also has entries after the fork
    assert TextSearch(History(newest), "name").find(50).hits == names
    assert hits(newest, "name") == names
    assert hits(newest, "name", newest_first=True) == names[::-1]


def test_short_forks_have_as_many_blocks_as_one_session(project: Project) -> None:
    sessions = chain(project, [1] * 17)
    newest = sessions[-1]
    assert index_text(newest.pk) == 4
    stored = TextBlock.objects.order_by("first_position")
    assert list(stored.values_list("first_position", "last_position")) == [
        (1, 8), (9, 16), (17, 24), (25, 32)
    ]  # fmt: skip
    assert [block.session_id for block in stored] == [sessions[number].pk for number in (3, 7, 11, 15)]
    assert index_text(newest.pk) == 0


def test_a_search_takes_as_many_queries_for_more_forks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for lengths in ([5, 6], [1] * 11, [1] * 23):
        newest = chain(project, lengths)[-1]
        index_text(newest.pk)
        history = History(Session.objects.get(pk=newest.pk))
        _ = history.session.ancestors
        with CaptureQueriesContext(connection) as queries:
            assert not TextSearch(history, "nowhere").find(10).hits
        counts.append(len(queries))
    assert counts == [2, 2, 2], "one for all signatures and one for the entries after the last block"
    monkeypatch.setattr(block_cache, "_IN_ONE_DIRECTION", 2)
    assert [hit.match.position for hit in TextSearch(History(newest), "name_12_x").find(10).hits] == [12]


def test_a_newer_block_replaces_older_ones() -> None:
    parts = [OwnPart("c", 21, 30), OwnPart("b", 19, 20), OwnPart("a", 1, 18)]
    blocks = {"a": lineage_blocks.Covered(1, 18, 16), "c": lineage_blocks.Covered(17, 24, 24)}
    pieces = divided(parts, blocks)
    assert [(piece.in_blocks, [(s.session, s.first, s.last) for s in piece.spans]) for piece in pieces] == [
        (True, [("a", 1, 16), ("c", 17, 24)]),
        (False, [("c", 25, 30)]),
    ]
    complete = divided(parts[1:], {"a": blocks["a"]}, complete=True)
    assert [(piece.in_blocks, [(s.session, s.first, s.last) for s in piece.spans]) for piece in complete] == [
        (True, [("a", 1, 16)]),
        (False, [("a", 17, 18), ("b", 19, 20)]),
    ]
    assert covered([]) == {}
    assert divided([], {}) == []


def test_a_fork_reads_its_own_block_where_one_of_its_parent_begins_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_blocks, "MAX_ENTRIES_TOGETHER", 0)
    parent, newest = chain(project, [6, 9])
    for session in (parent, newest):
        index_text(session.pk)
    starts = TextBlock.objects.filter(first_position=9).values_list("session", flat=True)
    assert {*starts} == {parent.pk, newest.pk}, "each has a block from here on"
    history = History(newest)
    read_around(history, 2, ["name"])
    found = TextSearch(history, "name").find(50).hits
    assert found == hits(newest, "name")
    assert sum(str(newest.pk) in hit.match.after for hit in found) == 9

"""Blocks that were read before are found in the same order as by reading them one after the other."""

from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.searchable import lowered
from historyapp.models import Project, Session, TextBlock, block_cache, text_blocks
from historyapp.models.block_cache import BlockCache, read_texts
from historyapp.models.history import History
from historyapp.models.text_search import TextSearch, wanted_trigrams
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db
STEPS, BLOCK = 120, 8


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[UUID]:
    """Thirty blocks. Each test undoes its changes."""
    drafts = [one for n in range(STEPS) for one in (act(), ok(outputs="seven" if n % 7 == 0 else "none"))]
    with (
        django_db_blocker.unblock(),
        transaction.atomic(),
        patch.object(text_blocks, "BLOCK_ENTRIES", BLOCK),
    ):
        project = Project.objects.create(name="Alice's")
        session = create_session(project)
        append(project, session.pk, drafts)
        assert index_text(session.pk)
        assert TextBlock.objects.count() == 2 * STEPS // BLOCK
        yield session.pk
        transaction.set_rollback(True)


@pytest.fixture
def session(recorded: UUID, db: None, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The queries read only a few of its blocks at once."""
    for name in ("_NEAR", "_IN_ONE_DIRECTION", "_FURTHER"):
        monkeypatch.setattr(block_cache, name, 3)
    monkeypatch.setattr(block_cache, "_TEXTS_AT_ONCE", (2, 4))
    return Session.objects.get(pk=recorded)


@pytest.mark.parametrize("around", [None, 0, 1, 8, 9, 100, 233, 240])
@pytest.mark.parametrize("newest_first", [False, True])
def test_every_block_is_found_once_and_in_order(
    session: Session, around: int | None, newest_first: bool
) -> None:
    trigrams = wanted_trigrams(lowered("seven"))
    for first, last in ((1, 240), (9, 16), (100, 239), (240, 240), (1, 1)):
        known = BlockCache(str(session.pk))
        if around is not None:
            known.read_around(around, [trigrams])
        candidates = list(known.candidates(first, last, set(), newest_first=newest_first))
        expected = [one for one in range(1, 240, BLOCK) if one <= last and one + BLOCK - 1 >= first]
        assert candidates == (expected[::-1] if newest_first else expected)
        assert known.end == 240
        firsts = known.candidates(first, last, trigrams, newest_first=newest_first)
        blocks = ((known.session, start) for start in firsts)
        texts = list(read_texts(blocks, "seven", 100, known.texts, newest_first=newest_first))
        assert [one.first for one in texts] == sorted([one.first for one in texts], reverse=newest_first)
        positions = {passage.position for one in texts for passage in one.passages}
        sevens = {2 * n + 2 for n in range(0, STEPS, 7)}
        assert {one for one in sevens if first <= one <= last} <= positions


def test_a_session_without_blocks_is_queried_once() -> None:
    session = create_session(Project.objects.create(name="Alice's"))
    known = BlockCache(str(session.pk))
    with CaptureQueriesContext(connection) as captured:
        known.read_around(10, [set()])
        assert list(known.candidates(1, 100, set())) == list(known.candidates(1, 5, set(), newest_first=True))
    assert known.end == 0
    assert len(captured) == 1


def test_a_search_finds_the_same_with_and_without_the_cache(session: Session) -> None:
    read = History(session)
    read.blocks.read_around(120, [wanted_trigrams("seven")])
    searches = [TextSearch(history, "seven") for history in (read, History(session))]
    for after, last, newest_first in ((0, 240, False), (121, 200, False), (5, 120, True)):
        first, second = (one.find(100, after, last, newest_first=newest_first).hits for one in searches)
        assert first == second != []

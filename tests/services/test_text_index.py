"""Text blocks depend only on the log, not on the process that makes them or on the number of parts."""

from datetime import timedelta

import pytest
from django.utils import timezone

from historyapp.core.lineage import Span
from historyapp.models import Project, Session, TextBlock
from historyapp.models.text_blocks import BLOCK_ENTRIES, blocks
from historyapp.services import text_index
from historyapp.services.append import append
from historyapp.services.projections import rebuild
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session
from historyapp.services.text_index import index_text
from tests.purging import purge_after
from tests.services.drafts import act, ok


def record(session: Session, count: int, size: int = 0) -> None:
    drafts = [draft for number in range(count) for draft in (act(path=f"{number}"), ok(outputs="y" * size))]
    append(session.project, session.pk, drafts)
    session.refresh_from_db()


def ranges(session: Session) -> list[tuple[int, int]]:
    return list(
        TextBlock.objects.filter(session=session)
        .order_by("first_position")
        .values_list("first_position", "last_position")
    )


def contents(session: Session) -> dict[int, tuple[int, bytes, str]]:
    return {block.first_position: block.content() for block in TextBlock.objects.filter(session=session)}


def test_a_block_ends_after_enough_entries_or_text(session: Session) -> None:
    record(session, 300)
    assert index_text(session.pk) == 1
    assert ranges(session) == [(1, BLOCK_ENTRIES)]
    record(session, 2, 70_000)
    assert index_text(session.pk) == 2
    assert ranges(session) == [(1, BLOCK_ENTRIES), (BLOCK_ENTRIES + 1, 602), (603, 604)]
    assert index_text(session.pk) == 0


def test_blocks_made_while_a_session_grows_equal_those_made_afterwards(session: Session) -> None:
    for _ in range(4):
        record(session, 150, 700)
        index_text(session.pk)
    grown = contents(session)
    TextBlock.objects.all().delete()
    assert index_text(session.pk) == len(grown) > 2
    assert contents(session) == grown


def test_it_can_stop_after_each_block(session: Session) -> None:
    record(session, 6, 70_000)
    assert index_text(session.pk, lambda: True) == 1
    assert ranges(session) == [(1, 2)]
    assert index_text(session.pk) == 5


def test_few_long_blocks_are_written_in_one_transaction(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(session, 6, 70_000)
    written: list[int] = []
    create = TextBlock.objects.bulk_create
    monkeypatch.setattr(text_index, "_BATCH_BYTES", 1)
    monkeypatch.setattr(
        TextBlock.objects,
        "bulk_create",
        lambda batch, **options: written.append(len(create(batch, **options))),
    )
    assert index_text(session.pk) == 6
    assert written == [1] * 6


def test_rebuilding_gives_equal_blocks_and_names_those_that_differed(session: Session) -> None:
    record(session, 6, 70_000)
    index_text(session.pk)
    before = contents(session)
    assert len(before) == 6
    assert rebuild(session).differences == []
    assert contents(session) == before
    TextBlock.objects.filter(first_position=1).update(signature=b"\0" * 8)
    assert rebuild(session, check_only=True).differences == ["text block 1 differed"]
    assert rebuild(session).differences == ["text block 1 differed"]
    assert rebuild(session).differences == []
    TextBlock.objects.filter(first_position=1).delete()
    assert rebuild(session).differences == ["text block 1 was missing"]
    assert contents(session) == before


def test_a_rewind_changes_no_block(session: Session) -> None:
    record(session, 300)
    index_text(session.pk)
    before = contents(session)
    rewind(session.project, session.pk, Target(to_step=3))
    assert index_text(session.pk) == 0
    assert contents(session) == before


def test_the_first_block_of_a_fork_begins_after_the_last_one_that_it_shares(session: Session) -> None:
    record(session, 300)
    child = fork(session.project, session.pk, at_step=280)
    other = fork(session.project, session.pk, at_step=100)
    record(child, 300)
    record(other, 300)
    assert index_text(child.pk) == 2
    assert ranges(session) == [(1, BLOCK_ENTRIES)]
    assert ranges(child) == [(BLOCK_ENTRIES + 1, 2 * BLOCK_ENTRIES)]
    assert index_text(other.pk) == 1
    assert ranges(other) == [(1, BLOCK_ENTRIES)], "it shares a part of a block"
    for one in (session, child, other):
        assert rebuild(one).differences == []


def test_rebuilding_keeps_blocks_of_earlier_versions(session: Session) -> None:
    record(session, 300)
    child = fork(session.project, session.pk, at_step=280)
    record(child, 300)
    (block,) = blocks([Span(str(child.pk), 561, child.head)])
    block.save()
    assert rebuild(child).differences == []
    assert ranges(child) == [(561, 560 + BLOCK_ENTRIES)]


def test_blocks_are_deleted_with_their_session(project: Project, session: Session) -> None:
    record(session, 300)
    index_text(session.pk)
    change_session(project, session.pk, {"status": "archived"})
    purge(project, [session.pk], timezone.now() + timedelta(days=1))
    assert TextBlock.objects.count() == 0
    assert index_text(session.pk) == 0


def test_nothing_is_stored_if_the_session_is_deleted_meanwhile(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(session, 300)
    purge_after(monkeypatch, text_index, "_next_batch", session)
    assert index_text(session.pk) == 0
    assert TextBlock.objects.count() == 0

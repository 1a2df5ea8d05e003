"""The index of names continues after a rewind without reading the entries before it again."""

from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import MemoryNotebook, ModelInput
from historyapp.models import NameIndex, Project, Session, StepNames, sql
from historyapp.models.entries import Entry
from historyapp.models.history import History
from historyapp.models.own_rows import own_rows
from historyapp.services.append import append
from historyapp.services.names import index as name_index
from historyapp.services.names.index import catch_up
from historyapp.services.names.origins import origins_of
from historyapp.services.names.seen import SeenEntries
from historyapp.services.rewinds import Target, fork, rewind
from tests.examples import thorough
from tests.services.drafts import act, ask, draft, ok


def index_all(session: Session) -> list[tuple[Any, ...]]:
    """Indexes a session from its beginning. Returns the flagged steps."""
    NameIndex.objects.all().delete()
    lineage = Session.objects.get(pk=session.pk).lineage()
    while not catch_up(lineage, limit=None):
        pass
    return list(StepNames.objects.order_by("index", "position").values_list("position", "unseen", "gone"))


def test_the_entries_before_a_rewind_are_read_once(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 10,000 rewinds, each read a thousand entries again, and the index took a worker five minutes."""
    append(project, session.pk, [ask(f"see src/a_{number}.py") for number in range(50)])
    for number in range(20):
        append(project, session.pk, [act(path=f"src/a_{number}.py"), ok(), act(path="src/b.py"), ok()])
        rewind(project, session.pk, Target(episodes=1))
    read, own = Mock(side_effect=sql._log_row), Mock(side_effect=own_rows)
    monkeypatch.setattr(sql, "_log_row", read)
    monkeypatch.setattr(name_index, "own_rows", own)
    monkeypatch.setattr(name_index, "STORED_SECONDS", 60)
    index_all(session)
    assert read.call_count <= 2 * 90
    assert own.call_count == 1


def test_the_names_of_the_newest_instruction_are_joined_once(project: Project, session: Session) -> None:
    """Each action asks for them."""
    append(project, session.pk, [draft(MemoryNotebook(content="Keep src/a.py in mind.")), act(), ok()])
    seen = SeenEntries(Session.objects.get(pk=session.pk), 3, 1_000)
    assert len(seen.standing_names()) >= 1
    assert seen.standing_names() is seen.standing_names()


def record_at_random(project: Project, session: Session, random: Random) -> None:
    """Actions on a few files, compactions, notebooks, rewinds and restored takes."""
    for _ in range(80):
        file = f"src/file_{random.randrange(4)}.py"
        choice = random.randrange(10)
        head = Session.objects.get(pk=session.pk).head
        if choice < 5 or head < 4:
            append(project, session.pk, [act(path=file), ok(outputs="fine")])
        elif choice == 5:
            append(project, session.pk, [draft(ModelInput(channel="compaction", content="so far"))])
        elif choice == 6:
            append(project, session.pk, [draft(MemoryNotebook(content=f"Keep {file} in mind."))])
        else:
            rewind(project, session.pk, Target(to_position=random.randrange(head // 2, head)))


@pytest.mark.parametrize("seed", [1, 2, thorough(3), thorough(4)])
def test_the_index_is_as_if_the_entries_before_each_rewind_were_read_again(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    record_at_random(project, session, random)
    session = fork(project, session.pk)
    record_at_random(project, session, random)
    assert Entry.objects.filter(kind="rewind").count() > 10
    monkeypatch.setattr(name_index, "STORED_SECONDS", 60)
    together = index_all(session)
    monkeypatch.setattr(name_index, "STORED_PLACES", 0)
    assert together == index_all(session)
    assert any(gone for _, _, gone in together)
    assert any(unseen for _, unseen, _ in together)


def test_the_origins_of_a_step_among_many_rewinds_take_few_queries(
    project: Project, session: Session
) -> None:
    """The recorded request has a span for each step, and 20 spans were read at once. The indexes were read
    once for the entries before the step and once for those after it."""
    for number in range(60):
        append(project, session.pk, [act(path=f"src/a_{number}.py"), ok(), act(path="src/b.py"), ok()])
        rewind(project, session.pk, Target(episodes=1))
    index_all(session)
    history = History(Session.objects.get(pk=session.pk))
    with CaptureQueriesContext(connection) as queries:
        assert origins_of(history, 55).names
    statements = [query["sql"] for query in queries]
    assert sum("CASE WHEN kind IN" in each for each in statements) == 1
    assert sum("JOIN historyapp_nameindex" in each for each in statements) == 1

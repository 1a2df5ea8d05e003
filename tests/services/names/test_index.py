"""The index of names follows the log in pieces and gives the first place of each name of an action."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import DatabaseError
from django.utils import timezone

from historyapp.core.entries import EntryDraft, ModelInput, SystemInstruction
from historyapp.core.origins import VERSION
from historyapp.enqueue import ensure_name_index
from historyapp.models import NameIndex, NamePage, NameRun, Project, Session, StepNames
from historyapp.models.history import History
from historyapp.models.origins import flagged_steps, indexed_spans
from historyapp.services.append import append
from historyapp.services.names import index as name_index
from historyapp.services.names import merges as name_index_merges
from historyapp.services.names.index import add_chunk, catch_up
from historyapp.services.names.merges import merge_runs, places_of_run
from historyapp.services.names.origins import NameOrigin, StepOrigins, origins_of, places_of
from historyapp.services.projections import rebuild
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.transactions import writing
from tests.services.drafts import act, ask, draft, ok


def read(path: str) -> EntryDraft:
    return act("read_file", path=path)


def origins(session: Session, number: int) -> StepOrigins:
    history = History(Session.objects.get(pk=session.pk))
    assert catch_up(history.lineage)
    return origins_of(history, number)


def flagged(session: Session, column: str) -> list[StepNames]:
    lineage = Session.objects.get(pk=session.pk).lineage()
    rows = flagged_steps(indexed_spans(lineage, 1, lineage.last)[0], 10)
    return [row for row in rows if getattr(row, column)]


def origin(session: Session, number: int) -> NameOrigin:
    (name,) = origins(session, number).names
    return name


def test_the_origin_of_a_name_is_the_line_that_first_had_it(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act(), ok(outputs="a.txt\nsrc/app.py"), read("src/app.py")])
    name_origin = origin(session, 2)
    assert (name_origin.origin, name_origin.match, name_origin.in_view) == ("given", "whole", True)
    assert name_origin.first is not None
    assert (name_origin.first.position, name_origin.first.line, name_origin.first.text) == (
        3,
        2,
        "src/app.py",
    )
    assert (name_origin.first.step, name_origin.first.role) == (1, "result")


def test_a_name_without_an_earlier_place_is_from_nowhere_only_at_first(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [ask("go"), read("src/guess.py"), ok(), read("src/guess.py")])
    assert origin(session, 1).origin == "nowhere"
    again = origin(session, 2)
    assert (again.origin, again.first and again.first.role) == ("own", "action")
    (step,) = flagged(session, "unseen")
    assert (step.number, step.unseen) == (1, 1)


def test_a_thought_of_the_same_step_is_not_an_origin(project: Project, session: Session) -> None:
    append(project, session.pk, [act("read_file", path="let_me.py")])
    assert origin(session, 1).origin == "nowhere"


def test_a_name_of_the_agent_that_a_result_repeats_has_both_places(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [read("a/b.py"), ok(outputs="a/b.py has 3 lines"), read("a/b.py")])
    name_origin = origin(session, 2)
    assert name_origin.first is not None
    assert name_origin.first_given is not None
    assert (name_origin.origin, name_origin.first.position, name_origin.first_given.position) == (
        "given",
        1,
        2,
    )


def test_a_name_that_a_compaction_removed_is_not_in_view(project: Project, session: Session) -> None:
    summary = draft(ModelInput(channel="compaction", content="Working on b/kept.py."))
    before = [act(), ok(outputs="a/lost.py\nb/kept.py")]
    append(project, session.pk, [*before, summary, read("a/lost.py"), ok(), read("b/kept.py")])
    lost, kept = origin(session, 2), origin(session, 3)
    assert (lost.origin, lost.in_view, lost.last_position) == ("given", False, 2)
    assert (kept.in_view, kept.last_position) == (True, 3)
    assert origins(session, 2).compacted_at == 3
    (step,) = flagged(session, "gone")
    assert (step.number, step.gone) == (2, 1)


def test_a_rewound_take_is_not_an_origin(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act(), ok(outputs="fine"), act(), ok(outputs="only/here.py")])
    rewind(project, session.pk, Target(to_step=1))
    append(project, session.pk, [read("only/here.py")])
    assert origin(session, 2).origin == "nowhere"
    assert [step.number for step in StepNames.objects.all()] == [2]


def test_a_fork_finds_the_names_of_its_parent(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act(), ok(outputs="src/app.py"), act(), ok()])
    forked = fork(project, session.pk, at_step=1)
    append(project, forked.pk, [read("src/app.py"), ok(), read("src/none.py")])
    assert origin(forked, 2).first is not None
    assert origin(forked, 3).origin == "nowhere"


def test_results_show_which_later_actions_used_them(project: Project, session: Session) -> None:
    listing = ok(outputs="src/a.py\nsrc/b.py")
    append(project, session.pk, [act(), listing, read("other_1"), ok(), read("src/b.py"), ok(outputs="x_1")])
    first = origins(session, 1)
    assert [(line.line, line.names) for line in first.used] == [(2, [("src/b.py", 3)])]
    assert first.is_used is True
    unused = origins(session, 3)
    assert (unused.used, unused.is_used) == ([], False)
    assert origins(session, 2).is_used is None


def test_all_places_of_a_name_are_listed(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("see src/a.py"), read("src/a.py"), ok(outputs="1 src/a.py"), act()])
    origins(session, 1)
    places = places_of(History(Session.objects.get()), 2, "src/a.py")
    assert [(one.role, one.step, one.text) for one in places] == [
        ("input", 0, "see src/a.py"),
        ("action", 1, "src/a.py"),
        ("result", 1, "1 src/a.py"),
    ]


def test_without_the_whole_log_nothing_is_from_nowhere(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_index, "READ_ENTRIES", 1)
    monkeypatch.setattr(name_index, "STORED_SECONDS", 0)
    append(project, session.pk, [ask("see src/a.py"), act(), ok(), read("src/a.py")])
    history = History(Session.objects.get())
    assert not catch_up(history.lineage, seconds=0)
    assert NameIndex.objects.get().position == 1
    assert origins_of(history, 2).is_complete is False
    NameRun.objects.all().delete()
    assert origins_of(history, 2).names[0].origin == "unknown"


def test_a_request_reads_few_bytes_at_once(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_index, "STORED_SECONDS", 0)
    append(project, session.pk, [ask("_" * 600_000) for _ in range(4)])
    assert add_chunk(Session.objects.get(), is_interactive=True)
    assert NameIndex.objects.get().position == 2
    assert not add_chunk(Session.objects.get())
    assert NameIndex.objects.get().position == 4


def test_pieces_of_any_size_give_equal_rows_and_rebuilding_finds_no_difference(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [ask("go"), act(), ok(outputs="src/a.py"), read("src/a.py"), ok()])
    rewind(project, session.pk, Target(to_step=1))
    append(project, session.pk, [read("src/a.py"), ok(), read("src/none.py"), ok(), read("src/none.py")])
    again = Session.objects.get()
    while add_chunk(again):
        pass
    monkeypatch.setattr(name_index, "CHUNK_ENTRIES", 1)
    assert rebuild(again).differences == []
    NamePage.objects.filter(first=NamePage.objects.order_by("first").values("first")[:1]).delete()
    assert rebuild(again).differences == ["the index of names differed"]
    assert rebuild(again).differences == []


def test_rebuilding_ends_at_the_position_of_the_index(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [ask("see src/a.py"), act(), ok(), read("src/a.py")])
    with monkeypatch.context() as short:
        short.setattr(name_index, "READ_ENTRIES", 2)
        short.setattr(name_index, "STORED_SECONDS", 0)
        assert not catch_up(Session.objects.get().lineage(), seconds=0)
    assert rebuild(Session.objects.get()).differences == []
    assert NameIndex.objects.get().position == 2


def test_a_purged_session_leaves_no_names(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("see src/a.py")])
    catch_up(History(Session.objects.get()).lineage)
    Session.objects.update(status="archived")
    purge(project, [session.pk], timezone.now())
    assert not NamePage.objects.exists()
    assert not NameIndex.objects.exists()


def test_a_file_that_an_instruction_names_never_counts_as_removed(project: Project, session: Session) -> None:
    rule = draft(SystemInstruction(text="Keep to a/rules.py."))
    summary = draft(ModelInput(channel="compaction", content="Working."))
    append(project, session.pk, [rule, act(), ok(outputs="a/rules.py"), summary, read("a/rules.py")])
    assert origin(session, 2).in_view is True
    assert flagged(session, "gone") == []


def in_runs(project: Project, session: Session, monkeypatch: pytest.MonkeyPatch, count: int) -> NameIndex:
    """The index of a session of ``count`` entries, each in a run of its own."""
    monkeypatch.setattr(name_index, "CHUNK_ENTRIES", 1)
    monkeypatch.setattr(name_index, "STORED_SECONDS", 0)
    monkeypatch.setattr(name_index, "merge_runs", lambda index, is_interactive: None)
    append(project, session.pk, [ask(f"a/file_{n}.py b/other_{n}.py") for n in range(count)])
    while add_chunk(Session.objects.get()):
        pass
    return NameIndex.objects.get()


def test_runs_of_similar_size_are_merged_without_loss(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = in_runs(project, session, monkeypatch, 9)
    before = sorted(place for run in NameRun.objects.all() for place in places_of_run(run.pk))
    assert NameRun.objects.count() == 9
    merge_runs(index)
    sizes = [run.size for run in NameRun.objects.order_by("size")]
    assert all(large > 2 * small for small, large in pairwise(sizes))
    assert sorted(place for run in NameRun.objects.all() for place in places_of_run(run.pk)) == before


def test_a_merge_whose_pages_were_deleted_meanwhile_loses_nothing(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_index_merges, "MAX_SMALL_PLACES", 0)
    index = in_runs(project, session, monkeypatch, 2)
    before = [list(places_of_run(run.pk)) for run in NameRun.objects.order_by("pk")]
    write = NamePage.objects.bulk_create

    def write_and_lose(rows: list[NamePage]) -> None:
        write(rows)
        NamePage.objects.filter(run__is_live=False).delete()

    monkeypatch.setattr(NamePage.objects, "bulk_create", write_and_lose)
    merge_runs(index)
    assert [list(places_of_run(run.pk)) for run in NameRun.objects.order_by("pk")] == before


def test_a_small_merge_does_nothing_if_another_process_was_quicker(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = in_runs(project, session, monkeypatch, 3)
    old = list(NameRun.objects.order_by("pk"))
    assert name_index_merges._merge_small(index, old)
    (run,) = NameRun.objects.all()
    before = list(places_of_run(run.pk))
    assert not name_index_merges._merge_small(index, old)
    assert [list(places_of_run(run.pk)) for run in NameRun.objects.all()] == [before]


@contextmanager
def counted_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float | None]]:
    waits: list[float | None] = []

    @contextmanager
    def counted(patience: float | None = None) -> Iterator[None]:
        waits.append(patience)
        with writing(patience):
            yield

    with monkeypatch.context() as patched:
        for module in (name_index, name_index_merges):
            patched.setattr(module, "writing", counted)
        yield waits


def test_many_rewinds_are_stored_in_few_transactions(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project, session.pk, [act(), ok(outputs="src/a_0.py")])
    for number in range(12):
        append(project, session.pk, [read(f"src/a_{number}.py"), ok(outputs=f"src/a_{number + 1}.py")])
        append(project, session.pk, [read("src/none.py"), ok()])
        rewind(project, session.pk, Target(to_step=number + 2))
    monkeypatch.setattr(name_index, "STORED_SECONDS", 60)
    with counted_writes(monkeypatch) as writes:
        assert catch_up(Session.objects.get().lineage(), 60, limit=None)
    assert len(writes) == 2, "one for the empty index, one for all pieces"
    taken = [step.number for step in StepNames.objects.order_by("position")]
    assert taken == list(range(3, 15)), "each take named what no live step had, and nothing else did"
    assert rebuild(Session.objects.get()).differences == []


def test_rows_left_by_a_stopped_merge_are_deleted_after_an_hour(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("see src/a.py")])
    catch_up(History(Session.objects.get()).lineage)
    index = NameIndex.objects.get()
    left = NameRun.objects.create(index=index, size=1, is_live=False)
    NamePage.objects.create(run=left, first=1, places=b"")
    merge_runs(index)
    assert NameRun.objects.filter(pk=left.pk).exists()
    NameRun.objects.filter(pk=left.pk).update(created_at=timezone.now() - timedelta(hours=2))
    merge_runs(index)
    assert not NameRun.objects.filter(pk=left.pk).exists()


def test_a_read_succeeds_if_the_index_cannot_be_stored(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError("disk full")

    append(project, session.pk, [ask("read a.py"), read("a.py"), ok()])
    monkeypatch.setattr(NameRun.objects, "bulk_create", refuse)
    history = History(Session.objects.get(pk=session.pk))
    assert not ensure_name_index(history)
    assert [name.origin for name in origins_of(history, 1).names] == ["unknown"]


def test_an_index_of_other_rules_is_not_read_and_is_rebuilt(project: Project, session: Session) -> None:
    append(
        project, session.pk, [act(), ok(outputs="src/app.py"), read("src/app.py"), ok(), read("src/no.py")]
    )
    assert origin(session, 2).origin == "given"
    NameIndex.objects.update(version=0)
    history = History(Session.objects.get(pk=session.pk))
    assert origins_of(history, 2).names[0].origin == "unknown"
    assert rebuild(session).differences == []
    assert origin(session, 2).origin == "given"
    assert len(flagged(session, "unseen")) == 1
    assert (NameIndex.objects.get().version, NameRun.objects.filter(is_live=True).count()) == (VERSION, 1)

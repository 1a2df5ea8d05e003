"""Importing a file again adds nothing, a grown file adds its new entries, and nothing is lost."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from historyapp.core.errors import Invalid
from historyapp.core.importers.base import (
    Append,
    Operation,
    RewindTo,
    SessionStart,
    Skipped,
)
from historyapp.models import AuditRecord, Entry, Project, Session, relatives
from historyapp.models.history import History
from historyapp.services.imports import files, sessions, tails, writer
from historyapp.services.imports.files import import_file
from historyapp.services.imports.parser import open_parser
from historyapp.services.projections import parents_first, rebuild
from tests.services.drafts import act, answer, ask, ok, tool_calls
from tests.services.scripts import SOURCE, Script, live_texts, read, texts


def test_importing_twice_adds_nothing(project: Project, script: Script) -> None:
    file: list[Operation] = [*texts("a", "b"), Append("s", act()), Append("s", ok())]
    assert read(project, script, *file).total("added") == 4
    assert read(project, script, *file).total("added") == 0
    assert Entry.objects.count() == 4
    assert AuditRecord.objects.filter(action="import").count() == 1


def test_a_grown_file_adds_only_what_is_new(project: Project, script: Script) -> None:
    read(project, script, *texts("a", "b"))
    assert read(project, script, *texts("a", "b", "c", "d")).total("added") == 2
    assert live_texts() == ["a", "b", "c", "d"]


def test_a_shorter_copy_of_the_file_adds_nothing(project: Project, script: Script) -> None:
    read(project, script, *texts("a", "b", "c"))
    assert read(project, script, *texts("a", "b")).total("added") == 0
    assert live_texts() == ["a", "b", "c"]


def test_a_shorter_copy_that_ends_in_the_middle_of_a_message_adds_nothing(
    project: Project, script: Script
) -> None:
    read(project, script, *texts("a", "b", "c"))
    assert read(project, script, *texts("a"), *texts("half of b", provisional=True)).total("added") == 0
    assert live_texts() == ["a", "b", "c"]


def test_a_provisional_end_is_read_again(project: Project, script: Script) -> None:
    read(project, script, *texts("a"), *texts("half a sen", provisional=True))
    grown = read(project, script, *texts("a", "half a sentence", "c"))
    assert grown.total("added") == 3
    assert live_texts() == ["a", "half a sentence", "c"]
    assert Entry.objects.filter(kind="rewind").count() == 1


def test_a_provisional_end_that_is_confirmed_stays(project: Project, script: Script) -> None:
    read(project, script, *texts("a"), *texts("b", "c", provisional=True))
    assert read(project, script, *texts("a"), *texts("b", "c", provisional=True)).total("added") == 0
    assert read(project, script, *texts("a", "b", "c", "d")).total("added") == 1
    assert read(project, script, *texts("a", "b", "c", "d")).total("added") == 0
    assert live_texts() == ["a", "b", "c", "d"]


def test_a_provisional_end_that_was_final_after_all_is_not_cut_off_later(
    project: Project, script: Script
) -> None:
    read(project, script, *texts("a"), *texts("b", "c", provisional=True))
    assert read(project, script, *texts("a", "b", "c")).total("added") == 0
    assert read(project, script, *texts("a", "b", "c", "d")).total("added") == 1
    assert Entry.objects.filter(kind="rewind").count() == 0


def test_a_provisional_end_can_be_longer_than_a_batch(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_ENTRIES", 2)
    file = [*texts("a"), *texts("b", "c", "d", "e", "f", provisional=True)]
    read(project, script, *file)
    assert read(project, script, *file).total("added") == 0
    differs = read(project, script, *texts("a"), *texts("b", "c", "d", "x", provisional=True))
    assert differs.total("added") == 2  # a rewind and the last text
    assert live_texts() == ["a", "b", "c", "d", "x"]
    assert read(project, script, *texts("a", "b", "c", "d", "x", "y")).total("added") == 1
    assert live_texts() == ["a", "b", "c", "d", "x", "y"]


def test_one_of_two_concurrent_imports_is_refused(project: Project, script: Script) -> None:
    file = [SessionStart("s"), *texts("a", provisional=True)]

    def overtaken() -> Iterator[Operation]:
        yield from file
        script.operations = file
        assert import_file(project, SOURCE, format="script").error == ""

    script.operations = overtaken()
    assert "under way" in import_file(project, SOURCE, format="script").error
    assert live_texts() == ["a"]


@pytest.mark.parametrize("other", [("x", "b", "c"), ("x", "b", "c", "d"), ("x",)])
def test_a_file_with_the_same_id_and_another_beginning_is_a_session_of_its_own(
    project: Project, script: Script, other: tuple[str, ...]
) -> None:
    read(project, script, *texts("a", "b", "c"))
    assert read(project, script, *texts(*other)).total("added") == len(other)
    for again in (("a", "b", "c"), other):
        assert read(project, script, *texts(*again)).total("added") == 0
    assert Session.objects.count() == 2


def test_rewinds_in_the_file_become_takes(project: Project, script: Script) -> None:
    file = [*texts("a", "b", "c"), RewindTo("s", 1, reason="a branch"), *texts("d")]
    read(project, script, *file)
    assert read(project, script, *file).total("added") == 0
    assert live_texts() == ["a", "d"]
    read(project, script, *file, RewindTo("s", 3), *texts("e"))
    assert live_texts() == ["a", "b", "c", "e"]


def test_rewinds_find_their_place_after_people_have_rewound_too(project: Project, script: Script) -> None:
    from historyapp.services.rewinds import Target, rewind

    read(project, script, *texts("a", "b"))
    rewind(project, Session.objects.get().pk, Target(to_position=1))
    read(project, script, *texts("a", "b", "c"), RewindTo("s", 3), *texts("d"))
    assert live_texts() == ["a", "c", "d"]


def test_a_sub_agent_is_linked_whichever_is_imported_first(project: Project, script: Script) -> None:
    for first, second in (("p1", "c1"), ("c2", "p2")):
        for id in (first, second):
            parent = f"p{id[1]}" if id.startswith("c") else None
            script.operations = [SessionStart(id, title=id, spawned_by=parent), *texts("x", session=id)]
            import_file(project, SOURCE, format="script")
    for number in "12":
        child = Session.objects.get(title=f"c{number}")
        assert child.spawned_by == Session.objects.get(title=f"p{number}")


@pytest.mark.parametrize("spawned_by", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "c", "b": "a", "c": "b"}])
def test_no_session_becomes_its_own_ancestor(
    project: Project, script: Script, spawned_by: dict[str, str]
) -> None:
    ids = {name: str(uuid4()) for name in spawned_by}
    for name, parent in spawned_by.items():
        start = SessionStart(ids[name], title=name, spawned_by=ids[parent])
        script.operations = [start, *texts("x", session=ids[name])]
        assert import_file(project, SOURCE, format="script").error == ""
    linked = Session.objects.filter(spawned_by__isnull=False)
    assert linked.count() == len(ids) - 1


def test_no_session_starts_the_one_that_it_is_a_fork_of(project: Project, script: Script) -> None:
    """Otherwise each would have a parent, and the list of sessions would show neither."""
    first, second = SessionStart("1", spawned_by="2"), SessionStart("2", forked_from=("1", 1))
    script.operations = [first, *texts("x", session="1"), second, *texts("x", session="2")]
    for _ in range(2):
        assert import_file(project, SOURCE, format="script").error == ""
        assert Session.objects.filter(spawned_by=None).count() == 2
        assert Session.objects.filter(forked_from=None).count() == 1


@pytest.mark.parametrize("leaf_first", [False, True])
def test_a_chain_of_sub_agents_is_linked_up_to_a_limit(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch, leaf_first: bool
) -> None:
    """Each session of a chain might be its own ancestor, so the sessions before it would be read for each."""
    monkeypatch.setattr(relatives, "MAX_ANCESTORS", 3)
    monkeypatch.setattr(sessions, "MAX_ANCESTORS", 3)
    script.operations = list[Operation]()
    for number in range(7):
        leaf = SessionStart(f"leaf{number}", spawned_by=str(number))
        member = SessionStart(str(number), title=str(number), spawned_by=str(number - 1))
        for start in (leaf, member) if leaf_first else (member, leaf):
            script.operations += [start, *texts("x", session=start.session)]
    assert import_file(project, SOURCE, format="script").error == ""
    chain = Session.objects.filter(spawned_by__isnull=False).exclude(title="")
    assert chain.count() == (5 if leaf_first else 6), "a second chain begins at the fifth"
    assert len(relatives.ancestors(Session.objects.get(title="3").pk)) == 4


@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_new_relative_changes_the_revision_of_a_session(
    project: Project, script: Script, first: str
) -> None:
    def imported(id: str) -> None:
        spawned_by = "parent" if id == "child" else None
        script.operations = [SessionStart(id, title=id, spawned_by=spawned_by), *texts("x", session=id)]
        import_file(project, SOURCE, format="script")

    imported(first)
    known = Session.objects.get().revision
    imported("child" if first == "parent" else "parent")
    assert Session.objects.get(title=first).revision > known


def test_a_fork_in_the_file_shares_its_parent_s_entries(project: Project, script: Script) -> None:
    fork = SessionStart("f", title="fork", forked_from=("s", 2))
    read(project, script, *texts("a", "b", "c"), fork, *texts("d", session="f"))
    child = Session.objects.get(title="fork")
    assert [entry.body["content"] for entry in History(child).entries()] == ["a", "b", "d"]
    assert child.forked_from == Session.objects.get(title="a run")


@pytest.mark.parametrize("number", [3, 4])
def test_forks_and_rewinds_of_a_file_store_a_limited_part_of_steps_again(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(tails, "MAX_COPIED", 300)
    calls = tool_calls(*(f"call-{n:05}" for n in range(10)))
    changes: list[Operation] = [
        RewindTo("s", 1),
        *(SessionStart(f"f{n}", forked_from=("s", 1)) for n in range(1, number)),
    ]
    report = read(project, script, Append("s", calls), *changes)
    assert ("tool calls again" in report.error) == (number > 3)
    assert Session.objects.count() == 3


def test_a_fork_in_the_file_can_end_before_the_file_does(project: Project, script: Script) -> None:
    file = [*texts("a", "b"), SessionStart("f", title="fork", forked_from=("s", 2))]
    read(project, script, *file, *texts("half", session="f", provisional=True))
    read(project, script, *file, *texts("whole", session="f"))
    entries = History(Session.objects.get(title="fork")).entries()
    assert [entry.body["content"] for entry in entries] == ["a", "b", "whole"]


def test_an_entry_without_a_time_gets_that_of_the_one_before_it(project: Project, script: Script) -> None:
    times = [None, datetime(2026, 1, 2, tzinfo=UTC), None, None, datetime(2026, 1, 3, tzinfo=UTC), None]
    read(project, script, *(Append("s", ask("x")._replace(created_at=time)) for time in times))
    entry_times = Entry.objects.order_by("position").values_list("created_at", flat=True)
    assert [moment.day for moment in entry_times] == [2, 2, 2, 2, 3, 3]


def test_an_archived_session_is_archived_also_when_its_import_was_broken_off(
    project: Project, script: Script
) -> None:
    archived = SessionStart("s", status="archived")
    for count in (2, 4):
        script.operations = [archived, *texts("a", "b", "c", "d")[:count]]
        import_file(project, SOURCE, format="script")
        if count == 2:
            Session.objects.update(status="finished")  # as if it had been killed
    assert Session.objects.get().status == "archived"
    assert live_texts() == ["a", "b", "c", "d"]


def test_a_rewind_without_a_time_gets_that_of_the_entry_before_it(project: Project, script: Script) -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    operation = Append("s", ask("x")._replace(created_at=moment))
    read(project, script, operation, operation, RewindTo("s", 1, "went back", actor="user"))
    rewind = Entry.objects.get(kind="rewind")
    assert (rewind.created_at, rewind.body["reason"], rewind.body["actor"]) == (moment, "went back", "user")


def test_entries_before_unreadable_bytes_are_kept(project: Project, script: Script) -> None:
    script.breaks_off = True
    report = read(project, script, *texts("a"), Skipped(2, "torn"), *texts("b"))
    assert report.error == "the rest is noise"
    assert [skipped.line for skipped in report.skipped] == [2]
    assert live_texts() == ["a", "b"]


def test_a_file_with_another_beginning_can_break_off_too(project: Project, script: Script) -> None:
    read(project, script, *texts("a", "b", "c"))
    script.breaks_off = True
    assert read(project, script, *texts("x")).error == "the rest is noise"
    assert Session.objects.count() == 2


def test_a_file_is_not_read_again_for_each_session_and_variant_that_begins_differently(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = [SessionStart(f"s{number}") for number in range(6)]
    opened = list[int]()

    def counted(*given: Any, **more: Any) -> Any:
        opened.append(1)
        return open_parser(*given, **more)

    monkeypatch.setattr(files, "open_parser", counted)
    for text in "abcd":
        opened.clear()
        script.operations = [*starts, *(Append(start.session, ask(text)) for start in starts)]
        report = import_file(project, SOURCE, format="script")
        assert (report.error, report.total("added")) == ("", 6)
    assert len(opened) == 3  # as it is, to compare, and to store
    assert Session.objects.count() == 24


def test_the_number_of_beginnings_of_a_session_is_limited(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_VARIANTS", 2)
    for text in ("a", "b", "c"):
        assert read(project, script, *texts(text)).error == ""
    assert "begin differently" in read(project, script, *texts("d")).error
    assert read(project, script, *texts("c")).error == ""
    assert Session.objects.count() == 3


def test_a_file_that_has_grown_continues_the_variant_with_its_beginning(
    project: Project, script: Script
) -> None:
    for text in ("a", "b", "c"):
        assert read(project, script, *texts(text, text)).error == ""
    for text in ("c", "b", "a"):
        assert read(project, script, *texts(text, text, "more")).total("added") == 1
    assert Session.objects.count() == 3


def test_few_rewinds_are_written_in_one_transaction(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, sizes = writer.SessionWriter.flush, list[int]()

    def counted(self: writer.SessionWriter) -> None:
        sizes.append(len(self._waiting))
        flush(self)

    monkeypatch.setattr(writer.SessionWriter, "flush", counted)
    file = [one for number in range(60) for one in (*texts(f"w{number}"), RewindTo("s", 0))]
    assert read(project, script, *file).error == ""
    assert max(sizes) <= 52
    assert Entry.objects.count() == 120


def test_the_report_counts_calls_results_and_unpaired_ones(project: Project, script: Script) -> None:
    file = [Append("s", d) for d in (tool_calls("a", "b"), ok("a"), ok("zzz"), act(), ok(), answer())]
    report = read(project, script, *file)
    figures = ("entries", "steps", "calls", "results", "unpaired_calls", "unpaired_results")
    assert [report.total(name) for name in figures] == [6, 3, 3, 3, 1, 1]
    assert Session.objects.get().status == "finished"


def test_a_kill_between_two_batches_loses_nothing(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_ENTRIES", 3)
    words = [f"w{n}" for n in range(10)]
    flush, calls = writer.SessionWriter.flush, []

    def dies(self: writer.SessionWriter) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        flush(self)

    monkeypatch.setattr(writer.SessionWriter, "flush", dies)
    with pytest.raises(KeyboardInterrupt):
        read(project, script, *texts(*words))
    assert live_texts() == words[:6]
    monkeypatch.setattr(writer.SessionWriter, "flush", flush)
    assert read(project, script, *texts(*words)).total("added") == 4
    assert live_texts() == words


def test_batches_are_smaller_after_slow_transactions(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_ENTRIES", 8)
    monkeypatch.setattr(writer, "MIN_ENTRIES", 2)
    ends = iter([1.0, 1.0, 1.0, 0.1, 0.1])  # seconds of each transaction
    clock = (moment for end in ends for moment in (0.0, end))
    monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    flush, sizes = writer.SessionWriter.flush, []

    def counted(self: writer.SessionWriter) -> None:
        sizes.append(len(self._waiting))
        flush(self)

    monkeypatch.setattr(writer.SessionWriter, "flush", counted)
    words = [f"w{n}" for n in range(20)]
    read(project, script, *texts(*words))
    assert sizes == [8, 4, 2, 2, 4]
    assert live_texts() == words


def test_the_error_of_an_unknown_format_lists_the_known_ones(project: Project) -> None:
    with pytest.raises(Invalid, match="claude_code"):
        import_file(project, SOURCE, format="wordperfect")


def test_imported_sessions_can_be_rebuilt_from_the_log(project: Project, script: Script) -> None:
    read(project, script, *[Append("s", d) for d in (act(), ok())], RewindTo("s", 1), Append("s", answer()))
    for session in parents_first():
        assert rebuild(session, check_only=True).differences == []

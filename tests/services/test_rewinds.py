"""Rewind, undo and fork, rule by rule. ``test_time_travel`` tests random sequences of them."""

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from historyapp.core.entries import Review, SystemInstruction
from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.lineage import Lineage
from historyapp.core.projection import Tail
from historyapp.models import AuditRecord, Entry, Episode, Project, Session, tails
from historyapp.models.history import History
from historyapp.services import rewinds
from historyapp.services.append import append
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, preview_rewind, rewind, undo_rewind
from historyapp.services.sessions import change_session
from historyapp.services.transactions import writing_together
from tests.services.drafts import act, answer, ask, draft, failed, ok, tool_calls


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rewinds then fill several blocks of spans."""
    monkeypatch.setattr("historyapp.core.lineage.BLOCK", 4)


@pytest.fixture
def recorded(project: Project, session: Session) -> Session:
    """Three finished steps and one in flight: positions 1 to 9."""
    steps = [
        ask("go"),
        act("one"),
        ok(),
        act("two"),
        failed(),
        ask("again"),
        act("three"),
        ok(),
        act("four"),
    ]
    append(project, session.pk, steps)
    return Session.objects.get(pk=session.pk)


def calls(session: Session) -> list[str]:
    history = History(Session.objects.get(pk=session.pk))
    return [row.call_preview for row in history.rows(1, history.steps)]


@pytest.mark.parametrize(
    ("target", "left"),
    [
        (Target(), ["one()", "two()", "three()"]),
        (Target(episodes=0), ["one()", "two()", "three()"]),
        (Target(episodes=-3), ["one()", "two()", "three()"]),
        (Target(episodes=1), ["one()", "two()"]),
        (Target(episodes=99), []),
        (Target(to_step=2), ["one()", "two()"]),
        (Target(to_step=-2), ["one()", "two()", "three()"]),
        (Target(to_step=0), []),
        (Target(to_position=3), ["one()"]),
        (Target(to_position=0), []),
    ],
)
def test_a_rewind_keeps_the_entries_of_its_target(
    project: Project, recorded: Session, target: Target, left: list[str]
) -> None:
    rewind(project, recorded.pk, target)
    assert calls(recorded) == left


def test_dropping_episodes_keeps_the_inputs_before_them(project: Project, recorded: Session) -> None:
    rewind(project, recorded.pk, Target(episodes=1))
    live = [
        entry.body.get("content") for entry in History(Session.objects.get()).entries(kinds=["model_input"])
    ]
    assert live == ["go", "again"]


def test_a_preview_shows_what_would_be_cut_off_and_changes_nothing(recorded: Session) -> None:
    to_position, cut_off, steps = preview_rewind(History(recorded), Target(to_step=1))
    assert (to_position, cut_off.rows(), steps) == (3, [(str(recorded.pk), 4, 9)], 3)
    assert Session.objects.get().head == 9


@pytest.mark.parametrize("target", [Target(to_step=5), Target(to_position=10), Target(to_step=-9)])
def test_a_target_that_does_not_exist_is_named(project: Project, recorded: Session, target: Target) -> None:
    with pytest.raises(Invalid, match=r"1 to 4|head, 9"):
        rewind(project, recorded.pk, target)
    assert Session.objects.get().head == 9


def test_two_targets_are_refused(project: Project, recorded: Session) -> None:
    with pytest.raises(Invalid, match="episodes and to_step"):
        rewind(project, recorded.pk, Target(episodes=1, to_step=1))


def test_undo_restores_the_cut_entries(project: Project, recorded: Session) -> None:
    cut = rewind(project, recorded.pk, Target(to_step=1), reason="wrong way", actor="user:alice")
    append(project, recorded.pk, [act("other")])
    undo_rewind(project, recorded.pk, cut.position, actor="user:alice")
    assert calls(recorded) == ["one()", "two()", "three()", "four()"]
    append(project, recorded.pk, [ok()])
    assert History(Session.objects.get()).row(4).status == "success"
    assert [one.reason for one in append(project, recorded.pk, [ok()]).unpaired] == ["no_open_call"]


def test_an_undone_rewind_cannot_be_undone_again(project: Project, recorded: Session) -> None:
    cut = rewind(project, recorded.pk, Target(to_step=1))
    undo_rewind(project, recorded.pk, cut.position)
    with pytest.raises(Conflict, match="already undone"):
        undo_rewind(project, recorded.pk, cut.position)
    with pytest.raises(NotFound, match="no rewind at position 4"):
        undo_rewind(project, recorded.pk, 4)


def test_going_back_to_a_take_makes_it_live(project: Project, recorded: Session) -> None:
    rewind(project, recorded.pk, Target(to_step=1))
    append(project, recorded.pk, [act("other"), ok()])
    rewind(project, recorded.pk, Target(to_position=8))
    assert calls(recorded) == ["one()", "two()", "three()"]


def test_a_rewind_into_a_step_reopens_it_and_the_take_keeps_its_outcome(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [tool_calls("a", "b"), ok("a"), failed("b")])
    rewind(project, session.pk, Target(to_position=2))
    again = Session.objects.get()
    assert History(again).row(1).status == "in_flight"
    assert History(again, as_of=3).row(1).status == "error"
    append(project, session.pk, [ok("b")])
    assert History(Session.objects.get()).row(1).status == "success"
    assert History(Session.objects.get(), as_of=3).row(1).status == "error"


def test_counters_follow_a_rewind_and_its_undo(project: Project, recorded: Session) -> None:
    before = (recorded.steps, recorded.errors, recorded.tokens)
    cut = rewind(project, recorded.pk, Target(to_step=1))
    again = Session.objects.get()
    assert (again.steps, again.errors) == (1, 0)
    assert again.tokens < recorded.tokens
    undo_rewind(project, recorded.pk, cut.position)
    again = Session.objects.get()
    assert (again.steps, again.errors, again.tokens) == before


def test_the_instruction_comes_from_the_live_history(project: Project, session: Session) -> None:
    append(project, session.pk, [draft(SystemInstruction(text="old")), act(), ok()])
    append(project, session.pk, [draft(SystemInstruction(text="new")), act(), ok()])
    assert History(Session.objects.get()).instruction == "new"
    rewind(project, session.pk, Target(to_step=1))
    assert History(Session.objects.get()).instruction == "old"
    assert History(Session.objects.get(), as_of=6).instruction == "new"


def test_a_fork_shares_entries_without_copying_and_is_independent(
    project: Project, recorded: Session
) -> None:
    child = fork(project, recorded.pk, at_step=2, actor="user:alice")
    assert Entry.objects.filter(session=child).count() == 0
    append(project, child.pk, [act("elsewhere"), ok()])
    append(project, recorded.pk, [ok()])
    assert calls(child) == ["one()", "two()", "elsewhere()"]
    assert calls(recorded) == ["one()", "two()", "three()", "four()"]
    assert Entry.objects.filter(session=child).order_by("position").first().position == 6  # type: ignore[union-attr]


def test_a_fork_of_a_step_in_flight_continues_the_step(project: Project, recorded: Session) -> None:
    child = fork(project, recorded.pk)
    append(project, child.pk, [failed()])
    append(project, recorded.pk, [ok()])
    assert History(Session.objects.get(pk=child.pk)).row(4).status == "error"
    assert History(Session.objects.get(pk=recorded.pk)).row(4).status == "success"


def test_a_review_in_a_fork_does_not_reach_the_parent(project: Project, recorded: Session) -> None:
    child = fork(project, recorded.pk, at_step=3)
    append(project, child.pk, [draft(Review(score=0.5)), answer()])
    assert History(Session.objects.get(pk=child.pk)).row(3).last_position == 9
    assert History(Session.objects.get(pk=recorded.pk)).row(3).last_position == 8


def test_a_fork_can_rewind_into_what_it_shares(project: Project, recorded: Session) -> None:
    child = fork(project, recorded.pk, at_step=3)
    rewind(project, child.pk, Target(to_step=1))
    append(project, child.pk, [act("anew")])
    assert calls(child) == ["one()", "anew()"]
    assert calls(recorded) == ["one()", "two()", "three()", "four()"]


def test_a_fork_is_named_after_its_parent_and_recorded(project: Project, recorded: Session) -> None:
    assert fork(project, recorded.pk, at_step=1, actor="key:ph_1").title == "a run (fork)"
    Session.objects.filter(pk=recorded.pk).update(title="a" * 300)
    assert fork(project, recorded.pk, at_step=1).title == "a" * 293 + " (fork)"
    assert fork(project, recorded.pk, at_position=4, title="another try").title == "another try"
    with pytest.raises(Invalid, match="at_step or at_position"):
        fork(project, recorded.pk, at_step=1, at_position=2)
    assert set(AuditRecord.objects.values_list("action", "actor")) == {("fork", "key:ph_1"), ("fork", "")}


def test_sessions_of_strangers_and_archived_sessions_are_not_changed(
    project: Project, recorded: Session
) -> None:
    stranger = Project.objects.create(name="Charlie's")
    for attempt in (rewind, undo_rewind):
        with pytest.raises(NotFound, match="no session"):
            attempt(stranger, recorded.pk, Target() if attempt is rewind else 1)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no session"):
        fork(stranger, recorded.pk)
    change_session(project, recorded.pk, {"status": "archived"})
    with pytest.raises(Conflict, match="archived"):
        rewind(project, recorded.pk, Target(to_step=1))


def test_a_moved_head_stops_a_rewind(project: Project, recorded: Session) -> None:
    with pytest.raises(Conflict, match="head is 9"):
        rewind(project, recorded.pk, Target(to_step=1), expected_position=8)


def test_nothing_is_ever_deleted(project: Project, recorded: Session) -> None:
    before = set(Entry.objects.values_list("position", flat=True))
    rewind(project, recorded.pk, Target(episodes=99))
    assert before < set(Entry.objects.values_list("position", flat=True))
    assert Episode.objects.filter(session=recorded, number=4).exists()


@pytest.mark.usefixtures("small_blocks")
def test_many_rewinds_store_few_spans_each_and_read_as_a_list_of_all(
    project: Project, session: Session
) -> None:
    for number in range(12):
        append(project, session.pk, [act(f"kept{number}"), ok(), act("dropped"), ok()])
        rewind(project, session.pk, Target(episodes=1))
    stored = Entry.objects.filter(kind="rewind").order_by("position").values_list("body", flat=True)
    assert max(len(body["spans"]) for body in stored) == 4
    assert calls(session) == [f"kept{number}()" for number in range(12)]
    assert calls(fork(project, session.pk, at_step=6)) == [f"kept{number}()" for number in range(6)]
    undo_rewind(project, session.pk, 5)
    assert calls(session) == ["kept0()", "dropped()"]


@pytest.mark.usefixtures("small_blocks")
def test_rewinds_of_earlier_versions_stay_readable(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("historyapp.core.lineage.BLOCK", 1000)  # earlier versions stored all spans
        for number in range(6):
            append(project, session.pk, [act(f"old{number}"), ok(), act("dropped"), ok()])
            rewind(project, session.pk, Target(episodes=1))
    for number in range(6):
        append(project, session.pk, [act(f"new{number}"), ok(), act("dropped"), ok()])
        rewind(project, session.pk, Target(episodes=1))
    bodies = Entry.objects.filter(kind="rewind").order_by("position").values_list("body", flat=True)
    assert [len(body["spans"]) for body in bodies][4:8] == [5, 6, 1, 2]
    expected = [f"old{number}()" for number in range(6)] + [f"new{number}()" for number in range(6)]
    assert calls(session) == expected
    assert rebuild(Session.objects.get(pk=session.pk), check_only=True).differences == []
    rewind(project, session.pk, Target(to_step=4))
    assert calls(session) == expected[:4]


@pytest.mark.usefixtures("small_blocks")
def test_a_fork_of_forks_stores_few_spans(project: Project, session: Session) -> None:
    append(project, session.pk, [act("step0"), ok()])
    for number in range(1, 12):
        session = fork(project, session.pk)
        append(project, session.pk, [act(f"step{number}"), ok()])
    child = Session.objects.get(pk=session.pk)
    assert len(child.fork_spans["spans"]) <= 4
    assert len(child.lineage().sessions) == 12
    assert calls(child) == [f"step{number}()" for number in range(12)]
    assert rebuild(child, check_only=True).differences == []


def test_at_most_a_thousand_forks_are_forks_of_each_other(project: Project, recorded: Session) -> None:
    chain = [recorded, *(Session(project=project, title=f"fork {number}") for number in range(1_000))]
    for parent, child in pairwise(chain):
        child.forked_from = parent
    Session.objects.bulk_create(chain[1:])
    assert fork(project, chain[-2].pk).forked_from_id == chain[-2].pk
    with pytest.raises(Conflict, match="the last of 1,000 forks, each of the one before"):
        fork(project, chain[-1].pk)


def test_a_rewind_of_an_empty_session_is_rebuilt_alike(project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_position=0))
    assert rebuild(Session.objects.get(pk=session.pk), check_only=True).differences == []


@pytest.mark.usefixtures("small_blocks")
def test_reads_of_rare_kinds_take_as_many_queries_after_many_rewinds(
    project: Project, session: Session, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    append(project, session.pk, [draft(SystemInstruction(text="be brief")), ask("go")])
    for number in range(12):
        append(project, session.pk, [act(f"kept{number}"), ok(), ask("dropped"), act("dropped"), ok()])
        rewind(project, session.pk, Target(episodes=1))
        rewind(project, session.pk, Target(to_position=Session.objects.get(pk=session.pk).lineage().last - 1))
    history = History(Session.objects.get(pk=session.pk))
    assert len(history.lineage.older[0]) >= 2
    with django_assert_max_num_queries(12):
        assert history.instruction == "be brief"
        assert history.notebook is None
        assert history.first_input is not None
        assert list(history.summaries_newest_first(10_000)) == []
    assert history.first_input.content == "go"
    assert [message.content for message in history.inputs_newest_first()] == ["go"]


@pytest.mark.parametrize("operation", ["rewind", "undo", "fork"])
def test_long_entries_are_read_before_the_session_is_locked(
    project: Project, recorded: Session, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite the lock delays all other writers."""
    undone = rewind(project, recorded.pk, Target(to_position=2)).position if operation == "undo" else 0
    order: list[str] = []
    for name in ("tail_of", "lock_session"):
        original = getattr(rewinds, name)

        def note(*arguments: Any, name: str = name, original: Any = original) -> Any:
            order.append(name)
            return original(*arguments)

        monkeypatch.setattr(rewinds, name, note)
    match operation:
        case "rewind":
            rewind(project, recorded.pk, Target(to_position=2))
        case "undo":
            undo_rewind(project, recorded.pk, undone)
        case _:
            fork(project, recorded.pk, at_position=2)
    assert order == ["tail_of", "lock_session"]


@pytest.fixture
def busy(project: Project, recorded: Session, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An agent appends an input after each read of the end of the history, as often as the number says."""
    appends = [0]

    def tail_of(lineage: Lineage) -> Tail:
        tail = tails.tail_of(lineage)
        if appends[0]:
            appends[0] -= 1
            append(project, recorded.pk, [ask("more")])
        return tail

    monkeypatch.setattr(rewinds, "tail_of", tail_of)
    append(project, recorded.pk, [ok()])
    return appends


@pytest.mark.django_db(transaction=True)
def test_a_rewind_whose_target_has_moved_is_tried_again(
    project: Project, recorded: Session, busy: list[int]
) -> None:
    busy[0] = 2
    assert rewind(project, recorded.pk, Target()).to_position == 12
    assert calls(recorded) == ["one()", "two()", "three()", "four()"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_key", [True, False])
def test_a_rewind_whose_target_always_moves_is_a_conflict(
    project: Project, recorded: Session, busy: list[int], has_key: bool
) -> None:
    """A request with a key holds its lock until it ends, so it does not try again."""
    busy[0] = 100
    together = writing_together(lambda: None) if has_key else nullcontext()
    with together, pytest.raises(Conflict, match="Retry, or rewind to a position"):
        rewind(project, recorded.pk, Target())
    assert busy[0] == (99 if has_key else 95)
    assert not Entry.objects.filter(kind="rewind").exists()


@pytest.mark.django_db(transaction=True)
def test_a_rewind_to_a_position_needs_no_second_attempt(
    project: Project, recorded: Session, busy: list[int]
) -> None:
    busy[0] = 100
    assert rewind(project, recorded.pk, Target(to_position=3)).to_position == 3
    assert busy[0] == 99
    assert calls(recorded) == ["one()"]

"""The step list is grouped by turns, each with figures that a sum over its steps would give."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from dashboard.step_list.turns import turn_around, turns_in
from historyapp.core.entries import EntryDraft, ModelInput
from historyapp.models import Episode, Project, Session, StaleOutcomes
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, failed, ok

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(project: Project) -> Session:
    """Turns of 2, 3 and 1 steps, a step each minute; an error and a likely failure in the second."""
    session = create_session(project)
    make = act("bash", command="make | tail")
    drafts = [ask("One, <b>please</b>"), act(), ok(), act(), ok(), ask("Two"), act(), failed(), make]
    drafts += [ok(outputs="error: no rule"), act(), ok(), ask("Three"), act(), ok()]
    timed = [draft._replace(created_at=START + timedelta(seconds=30 * n)) for n, draft in enumerate(drafts)]
    append(project, session.pk, timed)
    session.refresh_from_db()
    return session


@pytest.mark.parametrize("window", [(1, 6), (1, 2), (3, 4), (5, 6), (2, 3)])
def test_figures_of_a_turn_include_all_its_steps(run: Session, window: tuple[int, int]) -> None:
    history = History(run)
    rows = history.rows(window[0] - 1, window[1])
    before = rows.pop(0) if rows[0].number < window[0] else None
    turns = turns_in(history, before, rows)
    expected = {1: (1, 1, 2, 0, 0, 90), 3: (2, 3, 5, 1, 1, 150), 6: (3, 6, 6, 0, 0, 30)}
    shown = {
        step: (turn.number, turn.first, turn.last, turn.errors, turn.likely_failures, turn.took)
        for step, turn in turns.items()
    }
    assert shown == {
        step: (*values[:5], timedelta(seconds=values[5]))
        for step, values in expected.items()
        if window[0] <= step <= window[1]
    }
    for turn in turns.values():
        entries = history.entries(after=0)
        first, last = history.row(turn.first).first_position, history.row(turn.last).last_position
        assert turn.tokens == sum(entry.tokens for entry in entries if first <= entry.position <= last)
        if turn.steps == 1:
            assert turn.tokens == history.row(turn.first).tokens, "the input before it does not count"


def test_the_turn_of_a_step_is_the_one_in_the_list(run: Session) -> None:
    history = History(run)
    around = turn_around(history, 4)
    assert around is not None
    row, turn = around
    assert row.number == 3
    assert turn == turns_in(history, history.row(2), [row])[3]


def test_the_pause_before_a_fork_is_no_part_of_a_turn(project: Project, run: Session) -> None:
    """A fork that continued a recorded turn months later showed a turn of 290 days."""
    other = fork(project, run.pk, at_step=4)
    later = START + timedelta(days=290)
    drafts = [act()._replace(created_at=later), ok()._replace(created_at=later + timedelta(seconds=1))]
    append(project, other.pk, drafts)
    other.refresh_from_db()
    around = turn_around(History(other), 5)
    assert around is not None
    assert around[1].took == timedelta(seconds=91), "90 s of the shared steps, 1 s of the fork's own"


def test_the_list_has_a_header_for_each_turn(alice: Client, run: Session) -> None:
    page = alice.get(f"/sessions/{run.pk}?step=2")
    assert "Turn 2 Two 3 steps · 2 min 30 s" in text(page)
    assert "1 failed · 1 likely failed" in text(page)
    assert "One, &lt;b&gt;please" in html(page)
    assert f'href="/sessions/{run.pk}?step=2&amp;turn=2"' in html(page)


def test_messages_of_programs_have_no_number(alice: Client, project: Project, run: Session) -> None:
    reminder = EntryDraft(ModelInput(channel="reminder", content="Stay on task"))
    append(project, run.pk, [reminder, act(), ok()])
    rows = html(alice.get(f"/sessions/{run.pk}?step=7")).partition('id="rows"')[2]
    assert rows.count('class="input-row turn"') == 3
    assert '<li class="input-row" data-turn="3">' in rows
    assert rows.count("Input that begins no turn") == 1, "no person's icon"
    append(project, run.pk, [reminder])
    rows = html(alice.get(f"/sessions/{run.pk}?step=7")).partition('id="rows"')[2]
    assert rows.count("Input that begins no turn") == 2


def test_whether_an_input_begins_a_turn_is_unknown_until_turns_are_computed(
    alice: Client, run: Session
) -> None:
    Episode.objects.update(turn=0, turn_first=0)
    StaleOutcomes.objects.create(session=run)
    rows = html(alice.get(f"/sessions/{run.pk}?step=2")).partition('id="rows"')[2]
    assert "Input that begins no turn" not in rows


def test_rows_of_a_folded_turn_are_skipped(alice: Client, project: Project) -> None:
    session = create_session(project)
    steps = [one for _ in range(60) for one in (act(), ok())]
    append(project, session.pk, [ask("a"), act(), ok(), ask("b"), *steps, ask("c"), act(), ok()])

    def numbers(query: str) -> list[int]:
        page = html(fragment(alice, f"/sessions/{session.pk}/steps?{query}"))
        return [int(part.partition('"')[0]) for part in page.split('data-step="')[1:]]

    assert numbers("after=10&folded=2") == [62]
    assert numbers("before=50&folded=2") == [1, 2]
    assert numbers("after=10&folded=1") == list(range(11, 36)), "step 10 is in another turn"
    assert numbers("before=2&folded=2") == [1], "the head of the turn is there"
    assert numbers("after=62&folded=3") == []

"""The tab Cost: where the tokens of a run went, by model and turn, and where the cache was lost."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.location import Location
from dashboard.rendering.ledger import draw_chart
from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput
from historyapp.core.overview.cache_misses import CacheLoss
from historyapp.core.prices import load_prices
from historyapp.core.usage import Usage
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.figures.run_figures import count_run
from historyapp.services.ledger import ledger_of, step_accounts
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from historyapp.services.take_costs import take_costs
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import ask, draft

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)


def billed(minute: int, sent: int, read: int, *, written: int = 0, model: str = "gpt-5") -> EntryDraft:
    usage: dict[str, Any] = {"input_tokens": sent - read - written, "output_tokens": 100}
    usage |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    metadata = {"model": model, "usage": usage, "usage_convention": "anthropic"}
    return EntryDraft(ModelOutput(text="ok"), AT + timedelta(minutes=minute), metadata)


@pytest.fixture
def session(project: Project) -> Session:
    """Three turns: the cache is lost after a pause, and one model call has no usage."""
    session = create_session(project)
    first = [ask("go"), billed(0, 20_000, 0), billed(1, 21_000, 20_000), ask("go on")]
    second = [billed(60, 22_000, 1_000, written=500), billed(61, 23_000, 21_900), ask("stop")]
    append(project, session.pk, [*first, *second, draft(ModelOutput(text="cut off"))])
    session.refresh_from_db()
    return session


def tab(client: Client, session: Session) -> str:
    return text(fragment(client, reverse("ledger", args=[session.pk]) + "?step=1"))


def test_tokens_are_added_up_by_turn(alice: Client, session: Session) -> None:
    shown = tab(alice, session)
    sums = "1 go 1 –2 21,000 20,000 200 $0.03 2 go on 3 –4 22,100 22,900 200"
    assert f"Not from cache From cache Output Cost {sums}" in shown


def test_the_cost_of_takes_is_shown_beside_that_of_the_run(
    alice: Client, project: Project, session: Session
) -> None:
    overview = reverse("overview", args=[session.pk])
    assert "not included" not in tab(alice, session) + text(alice.get(overview))
    rewind(project, session.pk, Target(to_step=2))
    session.refresh_from_db()
    costs = take_costs(History(session))
    assert costs is not None
    calls = load_prices().of("gpt-5")
    assert calls is not None
    third, fourth = Usage(22_000, 100, 1_000, 500), Usage(23_000, 100, 21_900)
    assert abs(costs.micros - calls.cost(third) - calls.cost(fourth)) <= 1
    assert "3 steps in takes, not included, cut off after step 2 $0.03" in tab(alice, session)
    assert "3 steps in takes, not included, cut off after step 2 $0.03" in text(alice.get(overview))


def test_a_take_at_the_beginning_has_its_whole_cost(project: Project, session: Session) -> None:
    whole = ledger_of(History(session)).money.micros
    rewind(project, session.pk, Target(to_position=0))
    session.refresh_from_db()
    costs = take_costs(History(session))
    assert costs is not None
    assert (costs.micros, costs.after_steps, costs.is_partial) == (whole, [], False)


def costs_of_takes(session: Session, as_of: int | None = None) -> tuple[int, int, bool] | None:
    """Steps, cost in dollars, and whether that is only a part."""
    costs = take_costs(History(Session.objects.get(pk=session.pk), as_of))
    return (costs.steps, costs.micros // 1_000_000, costs.is_partial) if costs else None


def test_the_cost_of_takes_includes_takes_of_takes_and_each_entry_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)

    def call(model: str, number: int) -> None:
        metadata = {**billed(0, 1, 0, model=model).metadata, "cost": 1}
        append(project, session.pk, [EntryDraft(ModelOutput(text="ok"), AT, metadata)] * number)

    call("gpt-5", 10)
    for target in (5, 5, 2):
        rewind(project, session.pk, Target(to_position=target))
        call("my-own", 5)
    assert costs_of_takes(session) == (18, 18, False), "5, then 5, and 3 + 5 that the last rewind cut off"
    head = Session.objects.get(pk=session.pk).head
    assert costs_of_takes(session, as_of=16) == (5, 5, False), "as of a position"
    rewind(project, session.pk, Target(to_position=10))
    assert costs_of_takes(session) == (15, 15, False), "the first take is live again"
    other = fork(project, session.pk, at_position=5)
    call("gpt-5", 1)
    rewind(project, other.pk, Target(to_position=3))
    assert costs_of_takes(other) == (2, 2, False), "shared entries"
    assert costs_of_takes(session, as_of=head) == (18, 18, False)
    monkeypatch.setattr("historyapp.models.takes.MAX_CUTS", 2)
    assert costs_of_takes(session, as_of=head) == (13, 13, True), "without the oldest rewind"


def test_a_step_that_lost_the_cache_is_listed_with_its_pause(alice: Client, session: Session) -> None:
    losses = count_run(History(session)).figures.cache_misses.losses
    assert losses == [CacheLoss(3, 1_000, 21_000, 59 * 60 * 1_000)]
    assert "step 3 1,000 21,000 59 min" in tab(alice, session)


def test_losses_are_listed_beside_a_chart_of_steps_without_usage(
    alice: Client, project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.rendering.ledger.STEPS", 5)
    append(project, session.pk, [draft(ModelOutput(text="no usage"))])
    shown = text(fragment(alice, reverse("ledger", args=[session.pk]) + "?step=6"))
    assert "Tokens of steps 6–6" in shown
    assert "step 3 1,000 21,000 59 min" in shown


def test_without_a_cache_none_is_lost(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("go"), billed(0, 20_000, 0), billed(1, 21_000, 0)])
    session.refresh_from_db()
    assert "Cache not read" not in tab(alice, session)


def test_the_model_without_a_price_is_named(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [billed(0, 20_000, 0, model="my-own")])
    shown = tab(alice, session)
    assert "my-own 1 20k 0 100 unknown" in shown
    assert f"The price list of {load_prices().as_of} does not have my-own ." in shown


def test_reported_costs_are_added_up_by_model_and_need_no_price(alice: Client, project: Project) -> None:
    session = create_session(project)
    call = billed(0, 20_000, 0, model="my-own")
    append(project, session.pk, [call._replace(metadata={**call.metadata, "cost": 0.5})])
    shown = tab(alice, session)
    assert "my-own 1 20k 0 100 $0.50" in shown
    assert "The reported cost is not split by kind of token." in shown
    assert "unknown" not in shown
    assert "price list" not in shown


def test_tokens_of_model_calls_without_usage_are_not_zero(alice: Client, session: Session) -> None:
    shown = tab(alice, session)
    assert "Model calls 4 and without usage 1" in shown
    assert "step 5 · no usage is recorded" in shown
    assert "3 stop 5 no usage – " in shown
    append(session.project, session.pk, [billed(62, 23_500, 23_000)])
    assert "3 stop 5 –6, 1 without usage 500 23,000 100" in tab(alice, session)


def test_the_tab_loads_again_until_the_run_is_counted(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.tabs.ledger.SECONDS", 0.0)
    address = reverse("ledger", args=[session.pk]) + "?step=2&status=error&find=ok"
    first = html(alice.get(address))
    kept = address.replace("&", "&amp;")
    assert f'hx-get="{kept}" hx-trigger="load' in first
    assert f'href="{kept}">Continue counting' in first
    assert "cover 1 of 5 steps so far." in " ".join(first.split())
    for _ in range(4):
        part = text(fragment(alice, address))
    assert "so far" not in part


def test_rows_of_turns_have_the_cells_that_narrow_screens_hide(alice: Client, session: Session) -> None:
    table = (
        html(alice.get(reverse("ledger", args=[session.pk])))
        .partition("turn-sums")[2]
        .partition("</table>")[0]
    )
    rows = table.split("<tr>")[1:]
    assert len(rows) == 4
    assert {(len(re.findall("<t[dh] ", row)), row.count("turn-detail")) for row in rows} == {(6, 2)}


def test_the_chart_has_the_colours_of_the_overview(session: Session) -> None:
    chart = draw_chart(step_accounts(History(session), 1, 5), Location(History(session), 2))
    kinds = {kind for bar in chart.bars for kind, _, _ in bar.parts}
    assert kinds == {"share-cached", "share-written", "share-uncached", "share-output"}


def test_names_of_models_are_escaped_once(alice: Client, project: Project) -> None:
    session = create_session(project)
    unpriced = [billed(0, 20_000, 0, model="a&b<c>'d"), billed(1, 20_000, 0, model="")]
    append(project, session.pk, [ask("go"), *unpriced])
    overview = alice.get(reverse("overview", args=[session.pk]))
    for page in (tab(alice, session), text(overview)):
        assert "does not have a&b<c>'d, the unnamed model ." in page


def test_a_turn_whose_calls_report_only_their_cost_has_it(alice: Client, project: Project) -> None:
    session = create_session(project)
    priced = draft(ModelOutput(text="ok"), cost=0.5)
    append(project, session.pk, [ask("go"), billed(0, 20_000, 0), priced, ask("go on"), priced])
    shown = tab(alice, session)
    assert "1 go 1 –2, 1 without usage 20,000 0 100 $0.53" in shown
    assert "2 go on 3 no usage $0.50" in shown


def test_the_largest_losses_of_the_whole_run_are_listed_below_each_chart(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    lost = {30 + 2 * number: 12_000 - 1_000 * number for number in range(8)} | {101: 0}
    drafts = [billed(number, 20_000, lost.get(number, 19_000)) for number in range(1, 104)]
    reminder = draft(ModelInput(content="a reminder of a program", channel="meta"))
    append(
        project,
        session.pk,
        [ask("the task"), *drafts[:100], reminder, *drafts[100:102], ask("more"), drafts[102]],
    )
    first = text(fragment(alice, reverse("ledger", args=[session.pk]) + "?step=1"))
    later = fragment(alice, reverse("ledger", args=[session.pk]) + "?step=102&find=ok")
    shown, earlier = text(later), re.search(r'href="([^"]*)"[^>]*>Earlier steps', html(later))
    assert earlier is not None
    assert earlier[1].endswith("&amp;find=ok"), "the search is kept"
    for page in (first, shown):
        assert [f"step {step} {lost[step]:,} 20,000 1 min" in page for step in lost] == [False] + 8 * [True]
        assert "1 the task 1 –102" in page
        assert "2 more 103" in page


def test_the_costs_of_models_add_up_to_the_cost_of_the_run(alice: Client, project: Project) -> None:
    """One call names the model and is priced, the other does not and reports its cost."""
    session = create_session(project, names={"model": "claude-opus-4-5"})
    named = billed(0, 20_000, 0, model="claude-opus-4-5")
    append(project, session.pk, [ask("go"), named, draft(ModelOutput(text="ok"), cost=0.5)])
    session.refresh_from_db()
    ledger = ledger_of(History(session))
    assert [account.money for account in ledger.models] == [ledger.money.micros]
    assert ledger.money.micros > 500_000
    assert "no usage is recorded · $0.50" in tab(alice, session)

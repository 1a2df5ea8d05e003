"""The context panel: what the model is sent after a step, with any options; the session's ledger."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.location import Location
from dashboard.rendering.context import composition, list_contents
from dashboard.rendering.ledger import draw_chart, shown_steps
from historyapp.core.entries import EntryDraft, MemoryNotebook, ModelOutput, SystemInstruction
from historyapp.core.formats import FORMATS
from historyapp.core.manifest import Manifest, Segment
from historyapp.core.policies import POLICIES
from historyapp.core.prices import load_prices
from historyapp.core.settings import SessionSettings
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.caps import set_caps
from historyapp.services.contexts import RequestedContext
from historyapp.services.ledger import step_accounts
from historyapp.services.reservations import reserve
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.snapshots import serve_context
from historyapp.services.spending import Payer
from historyapp.services.summaries import SummaryText, add_summary
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, ok

VIEWS = ("contents", "diff", "messages", "json")
ATTACK = "</pre><script>alert(1)</script>\x00\ud800<img src=x onerror=alert(1)>"


def address(session: Session, query: str = "", name: str = "context") -> str:
    return reverse(name, args=[session.pk]) + query


def panel(client: Client, session: Session, query: str = "") -> str:
    response = fragment(client, address(session, query))
    assert response.status_code == 200
    return text(response)


def label_of(step: int) -> str:
    return f"step {step} full"


def test_the_panel_shows_what_the_service_serves_as_of_the_step(alice: Client, session: Session) -> None:
    built = serve_context(session, RequestedContext(as_of=7)).built
    shown = panel(alice, session, "?step=3&mode=what_if")
    assert f"{built.tokens:,} / 272,000 tokens" in shown
    assert built.tokens == built.manifest.tokens
    assert label_of(3) in shown
    assert label_of(4) not in shown


def test_the_panel_says_when_the_full_history_costs_less(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "gpt-5-mini"})
    for number in range(1, 31):
        outputs = " ".join(f"word{number}-{place}" for place in range(60))
        append(project, session.pk, [act(str(number)), ok(outputs=outputs)])
    session.refresh_from_db()
    tokens = session.live_tail.totals.tokens

    def shown(budget: int, policy: str = "live", model: str = "gpt-5-mini") -> str:
        query = f"?step=30&mode=what_if&policy={policy}&max_tokens={budget}&model={model}"
        return panel(alice, session, query)

    assert f"It needs a budget of more than {tokens:,} tokens." in shown(3_000)
    assert "full history" not in shown(3_000, policy="budgeted")  # most of it is cached, too
    assert "full history" not in shown(tokens + 1_000)
    assert "full history" not in shown(3_000, model="no-such")
    window = {"source": {"window": tokens - 1}}
    append(project, session.pk, [EntryDraft(act("31").body, metadata=window), ok(outputs="x")])
    assert "full history" not in panel(alice, session, "?step=31&mode=what_if&policy=live&max_tokens=3000"), (
        "a recorded window is smaller"
    )


def test_the_newest_step_shows_later_inputs(alice: Client, session: Session) -> None:
    append(session.project, session.pk, [ask("and now the discount")])
    assert "and now the discount" in panel(alice, session, "?step=-1&view=messages")
    assert "and now the discount" not in panel(alice, session, "?step=4&view=messages")


def test_the_panel_after_a_step_has_the_next_input(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [ask("and now the discount"), act("ls"), ok()])
    assert "and now the discount" in panel(alice, session, "?step=5&view=messages")


def test_the_newest_messages_of_a_request_are_listed(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context of 6,000 steps took 19 s and 10 MB of HTML."""
    append(session.project, session.pk, [ask("and now the discount")])
    query = "?step=-1&view=messages&mode=what_if&policy=live"
    assert "earlier parts are not listed" not in panel(alice, session, query)
    monkeypatch.setattr("dashboard.rendering.context.LISTED", 2)
    shown = html(fragment(alice, address(session, query)))
    assert "earlier parts are not listed. The view JSON has all of them." in shown
    assert "and now the discount" in shown
    assert shown.count('<details class="message">') < 6


def test_a_rewound_take_is_shown_as_of_its_position(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("another_way"), ok()])
    assert "another_way" in panel(alice, session, "?step=3&view=messages")
    assert "file-3.txt" in panel(alice, session, "?step=3&as_of=11&view=messages")


def test_every_policy_and_format_can_be_tried(alice: Client, session: Session) -> None:
    """Each pair of them once, and each of them in every view."""
    for row, policy in enumerate(POLICIES):
        for column, format in enumerate(FORMATS):
            view = VIEWS[(row + column) % len(VIEWS)]
            query = f"?step=4&policy={policy}&format={format}&view={view}&max_tokens=900"
            shown = panel(alice, session, query)
            assert f"{policy} {format} gpt-5" in shown
            assert "/ 900 tokens" in shown


def test_a_what_if_records_nothing(alice: Client, session: Session) -> None:
    panel(alice, session, "?step=3&policy=masked")
    assert not session.snapshots.exists()


def test_a_budget_that_is_too_small_offers_the_smallest_that_works(alice: Client, session: Session) -> None:
    response = fragment(alice, address(session, "?step=5&policy=masked&max_tokens=3"))
    offered = re.search(r'name="max_tokens" value="(\d+)"', html(response))
    assert offered
    assert f"take {offered[1]}" in text(response)
    works = panel(alice, session, f"?step=5&policy=masked&max_tokens={offered[1]}")
    assert f"/ {offered[1]} tokens" in works


def test_the_page_of_a_refused_budget_is_a_422(alice: Client, session: Session) -> None:
    assert alice.get(address(session, "?policy=masked&max_tokens=3")).status_code == 422


@pytest.mark.parametrize(
    ("query", "words"),
    [("?policy=x", "Use one of "), ("?format=x", "Use one of openai_chat")],
)
def test_unknown_options_are_explained(alice: Client, session: Session, query: str, words: str) -> None:
    assert words in panel(alice, session, query)


@pytest.mark.parametrize(
    "query", ["?max_tokens=abc", "?max_tokens=-1", "?max_tokens=2000001", "?view=x", "?step=x", "?as_of=99"]
)
def test_invalid_options_are_a_422(alice: Client, session: Session, query: str) -> None:
    assert fragment(alice, address(session, query)).status_code == 422


@pytest.mark.parametrize("query", ["?model=%00", "?model=%ED%A0%80", "?policy=%00", "?format=" + "x" * 900])
def test_unusual_text_in_an_address_breaks_no_page(alice: Client, session: Session, query: str) -> None:
    assert alice.get(address(session, query)).status_code in (200, 422)


@pytest.mark.parametrize("name", ["context", "ledger"])
def test_a_stranger_gets_404(charlie: Client, session: Session, name: str) -> None:
    assert charlie.get(address(session, name=name)).status_code == 404


def test_without_scripts_the_panel_is_a_page_with_a_form(alice: Client, session: Session) -> None:
    page = html(alice.get(address(session, "?step=3&policy=masked&max_tokens=777&view=json")))
    assert "<h1>" in page
    assert "<option selected>masked</option>" in page
    assert 'value="777"' in page
    assert re.search(r'value="json" checked', page)
    assert "read_file" in page.partition("<pre")[2]


def test_a_session_without_steps_has_a_context(alice: Client, project: Project) -> None:
    session = create_session(project)
    assert "The request is empty" not in panel(alice, session)
    append(project, session.pk, [ask("hello there")])
    assert "hello there" in panel(alice, session, "?view=messages")
    assert alice.get(address(session, name="ledger")).status_code == 200


@pytest.mark.parametrize("view", VIEWS)
def test_text_of_agents_is_escaped(alice: Client, project: Project, view: str) -> None:
    session = create_session(project, names={"model": "gpt-5<b>", "title": "t"})
    drafts = [draft(SystemInstruction(text=ATTACK)), draft(MemoryNotebook(content=ATTACK)), ask(ATTACK)]
    for _ in range(2):
        drafts += [act(ATTACK, path=ATTACK), ok(outputs=ATTACK)]
    drafts.append(draft(ModelOutput(text=ATTACK), model=ATTACK))
    append(project, session.pk, drafts)
    block = reverse("context-block", args=[session.pk, "json"])
    for odd in (f"{block}?step=3", address(session, f"?step=3&mode=what_if&view={view}")):
        assert fragment(alice, odd).status_code == 200
    for format in FORMATS:
        page = html(alice.get(address(session, f"?step=2&view={view}&format={format}&model=<script>")))
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "\x00" not in page


def test_long_requests_are_folded_and_paginated(alice: Client, project: Project) -> None:
    session = create_session(project, settings=SessionSettings(max_tokens=100_000))
    append(project, session.pk, [ask("a line of text\n" * 3_000), act("ls"), ok()])
    for view in ("messages", "json"):
        page = html(fragment(alice, address(session, f"?policy=live&view={view}")))
        link = re.search(r'href="([^"]*/context/blocks/[^"]*)"', page)
        assert link
        assert len(page) < 20_000
        more = fragment(alice, link[1].replace("&amp;", "&"))
        assert more.status_code == 200
        assert len(more.content) > 30_000
    assert alice.get(address(session) + "/blocks/nothing").status_code == 404


def test_the_composition_adds_up_to_the_budget() -> None:
    segments = [
        Segment(source="system", tokens=10),
        Segment(source="input", form="clipped", tokens=5),
        Segment(source="step", step=1, last_step=4, form="summarised", tokens=20),
        Segment(source="step", step=5, tokens=40),
    ]
    bar = composition(Manifest(policy="x", max_tokens=100, tokens=75, segments=segments), 100)
    assert {part.kind: part.tokens for part in bar.parts} == {
        "system": 10,
        "summarised": 20,
        "full": 40,
        "clipped": 5,
        "free": 25,
    }
    assert sum(float(part.width[:-1]) for part in bar.parts) == pytest.approx(100)
    assert bar.over == 0


def test_a_context_over_its_budget_shows_the_excess() -> None:
    segments = [Segment(source="step", step=1, tokens=150)]
    bar = composition(Manifest(policy="episodic", max_tokens=100, tokens=150, segments=segments), 100)
    assert bar.over == 50
    assert [part.width for part in bar.parts] == ["100.00%"]


def test_steps_are_counted_by_their_form(alice: Client, project: Project, session: Session) -> None:
    add_summary(project, session.pk, (1, 1), SummaryText("looked at the first file"))
    shown = panel(alice, session, "?step=5&policy=episodic&max_tokens=2000")
    counted = dict(
        re.findall(r"(in full|clipped|masked|summarised|left out) (\d+)", shown.split("Part Form")[0])
    )
    assert sum(map(int, counted.values())) == 5
    assert counted["summarised"] == "1"


def test_a_step_in_several_parts_is_counted_once() -> None:
    segments = [
        Segment(source="step", step=first, last_step=last, form="clipped", tokens=5)
        for first, last in ((1, 8), (9, 9), (1, 9), (3, 4), (12, 13))
    ]
    manifest = Manifest(policy="budgeted", max_tokens=100, tokens=25, segments=segments)
    assert list_contents(manifest).counts == [("clipped", 11)]


def test_left_out_steps_are_named_with_the_reason(alice: Client, project: Project) -> None:
    session = create_session(project)
    for number in range(30):
        append(project, session.pk, [act("read", path=f"{number}"), ok(outputs="words " * 60)])
    shown = panel(alice, session, "?step=30&policy=masked&max_tokens=600")
    assert re.search(r"left out \d+", shown)
    assert re.search(r"Left out steps 1–\d+ \w+", shown)


def test_reasoning_that_is_not_sent_is_counted_with_the_reason(alice: Client, project: Project) -> None:
    session = create_session(project)
    block = {"type": "thinking", "thinking": "hm", "signature": "S"}
    for _ in range(2):
        append(project, session.pk, [ask("go"), draft(ModelOutput(text="done", reasoning=[block, block]))])
    query = "?step=2&mode=what_if&policy=live&format="
    assert "Reasoning left out" not in panel(alice, session, f"{query}anthropic_messages")
    shown = panel(alice, session, f"{query}openai_chat")
    assert "Reasoning left out steps 1–2 4 blocks: this format has no place for it" in shown


def test_a_long_session_issues_the_queries_of_a_short_one(alice: Client, project: Project) -> None:
    fragments = [("ledger", "?step=60"), ("ledger", "?step=-1")]
    shown = [("contents", policy) for policy in POLICIES] + [(view, "budgeted") for view in VIEWS[1:]]
    fragments += [
        ("context", f"?step=60&view={view}&policy={policy}&max_tokens=2048") for view, policy in shown
    ]
    short, long = (
        {(name, query): _queries(alice, address(session, query, name)) for name, query in fragments}
        for session in (long_session(project, 100), long_session(project, 1_000))
    )
    assert short == long
    assert max(short.values()) < 120


def _queries(client: Client, path: str) -> int:
    """The number of queries that a fragment issues."""
    with CaptureQueriesContext(connection) as captured:
        assert fragment(client, path).status_code == 200
    return len(captured)


def test_without_a_budget_the_panel_has_its_own_limit(alice: Client, session: Session) -> None:
    change_session(session.project, session.pk, {"settings": {"max_tokens": None}})
    assert "/ 200,000 tokens" in panel(alice, session, "?mode=what_if")
    assert "/ 2,000,000 tokens" in panel(alice, session, "?max_tokens=2000000")


def test_the_ledger_adds_up_tokens_and_money(alice: Client, project: Project) -> None:
    session = create_session(project)
    usage = {
        "input_tokens": 1_000_000,
        "output_tokens": 1_000,
        "input_tokens_details": {"cached_tokens": 400_000},
    }
    append(project, session.pk, [draft(ModelOutput(text="a"), model="gpt-5-mini", usage=usage)])
    append(project, session.pk, [draft(ModelOutput(text="b"), model="my-own", usage=usage)])
    shown = text(fragment(alice, address(session, name="ledger")))
    assert "Cost ≥ $0.16" in shown
    assert f"Prices as of {load_prices().as_of}." in shown
    assert "my-own 1 1.0M 400k 1.0k unknown" in shown
    assert "uncached input 1,200,000 $0.15 written to cache 0 $0.00 read from cache 800,000 $0.01" in shown
    assert "step 2 · 1,000,000 in (400,000 from cache) · 1,000 out · price unknown" in shown


def test_a_sum_of_only_unknown_prices_is_unknown(alice: Client, project: Project) -> None:
    session = create_session(project)
    usage = {"input_tokens": 10, "output_tokens": 1}
    append(project, session.pk, [draft(ModelOutput(text="a"), model="my-own", usage=usage)])
    assert "Cost unknown" in text(fragment(alice, address(session, name="ledger")))


def test_without_usage_the_chart_says_what_its_bars_are(alice: Client, session: Session) -> None:
    shown = text(fragment(alice, address(session, name="ledger")))
    assert "No model call has reported its usage." in shown
    assert "Model calls – " in shown
    assert "Input tokens – Output tokens – " in shown
    assert "Tokens of steps 1–5 · estimated, because no usage was reported" in shown


@pytest.mark.parametrize(
    ("step", "steps", "first", "last"),
    [(1, 5, 1, 5), (100, 250, 1, 100), (101, 250, 101, 200), (250, 250, 201, 250)],
)
def test_a_chart_shows_the_group_of_a_hundred_steps_that_has_the_step(
    step: int, steps: int, first: int, last: int
) -> None:
    shown = shown_steps(step, steps)
    assert (shown.start, shown.stop - 1) == (first, last)


def test_charts_of_a_long_session_link_to_each_other(alice: Client, project: Project) -> None:
    session = long_session(project, 250)
    page = html(fragment(alice, address(session, "?step=120", "ledger")))
    assert re.findall(r'hx-get="[^"]*step=(\d+)"', page) == ["100", "201"]
    assert page.count('<rect class="chart-estimated"') == 100


def test_the_tallest_bar_has_the_charts_height(session: Session) -> None:
    chart = draw_chart(step_accounts(History(session), 1, 5), Location(History(session), 2))
    assert max(bar.height for bar in chart.bars) == chart.height
    assert all(sum(height for _, _, height in bar.parts) == bar.height for bar in chart.bars)
    assert chart.playhead == "30.00%"


def test_the_chart_marks_the_step_under_the_playhead(alice: Client, session: Session) -> None:
    page = html(fragment(alice, address(session, "?step=3", "ledger")))
    assert re.findall(r'data-step="(\d+)" tabindex="-1"\s+aria-current="step"', page) == ["3"]


def test_the_session_page_has_the_panel_beside_the_step(alice: Client, session: Session) -> None:
    page = html(alice.get(reverse("session", args=[session.pk]) + "?step=3"))
    form = page[page.index('id="context-form"') : page.index('id="context"')]
    assert 'hx-trigger="load, ' in form
    assert 'name="step" value="3" data-step-field' in form


def test_the_ledger_shows_each_cap_with_what_is_spent_reserved_and_left(
    alice: Client, session: Session, project: Project
) -> None:
    page = address(session, name="ledger")
    assert "Reserved" not in text(fragment(alice, page))
    forked = fork(project, session.pk)
    set_caps(project, {"month": 5_000_000})
    set_caps(project, {"day": 1_000_000}, session=session)
    reserved = reserve(Payer(project.pk, forked.pk), "gpt-5", 1000, 500).attempt_cost
    spent = reserve(Payer(project.pk, session.pk), "gpt-5", 1000, 500)
    spent.settle(250_000)
    shown = text(fragment(alice, page))
    held = f"${reserved / 1_000_000:.4f}"
    assert f"$5.00 a month for the project $0.25 {held} $4.74" in shown
    assert f"$1.00 a day for this session $0.25 {held} $0.74" in shown
    assert re.search(r"\$0.74 20\d\d-\d\d-\d\d 00:00", shown)
    assert "for a parent session" in text(fragment(alice, address(forked, name="ledger")))

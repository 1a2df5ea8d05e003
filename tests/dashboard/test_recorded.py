"""Recorded: the panel shows what the model saw before a step, and says what is unknown."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.rendering.recorded import draw_recorded, message_text
from dashboard.templatetags.playhead import short_figure
from historyapp.core.entries import DebugLog, EntryDraft, ModelInput, ModelOutput, SystemInstruction
from historyapp.core.text import clean
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.recorded.changes import request_changes
from historyapp.services.recorded.requests import messages, recorded_request
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, ok

ATTACK = "</pre><script>alert(1)</script>\x00\ud800<img src=x onerror=alert(1)>"
MODEL = "gpt-5"


def address(session: Session, query: str = "", name: str = "context") -> str:
    return reverse(name, args=[session.pk]) + query


def panel(client: Client, session: Session, query: str = "") -> str:
    response = fragment(client, address(session, query))
    assert response.status_code == 200
    return text(response)


def billed(sent: int, read: int = 0, **metadata: Any) -> Any:
    usage = {"input_tokens": sent, "output_tokens": 9, "input_tokens_details": {"cached_tokens": read}}
    return draft(ModelOutput(text="done"), model=MODEL, usage=usage, source={"line": 1}, **metadata)


@pytest.fixture
def imported(project: Project) -> Session:
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [ask("Repair the totals."), billed(87_000), billed(87_605, 86_000)])
    return session


def test_a_bill_below_our_count_leaves_nothing_unseen(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [ask("Repair the totals of all the invoices."), billed(2)])
    shown = panel(alice, session, "?step=1")
    assert "system, tools (unseen)" not in shown
    assert re.search(r"difference from the bill −\d", shown)


def test_a_panel_shows_recorded_by_default(alice: Client, imported: Session) -> None:
    shown = panel(alice, imported, "?step=2")
    assert "Before step 2" in shown
    assert "87,605 tokens, as billed · context window 272,000" in shown
    assert "Cache 98 % read 86,000 read · 0 written · 1,605 new · $" in shown
    assert "About 87,000 tokens of the request are not recorded: tools and system prompt" in shown


@pytest.mark.parametrize(("model", "billed_input"), [("my-own", 240_000), ("gpt-4", 9_500)])
def test_an_unknown_window_is_never_smaller_than_the_bill(
    alice: Client, project: Project, model: str, billed_input: int
) -> None:
    session = create_session(project, names={"model": model})
    usage = {"input_tokens": billed_input, "output_tokens": 9}
    output = draft(ModelOutput(text="done"), model=model, usage=usage, source={"line": 1})
    append(project, session.pk, [ask("go"), output])
    lower = f"unknown (at least {billed_input:,})"
    assert f"{billed_input:,} tokens, as billed · context window {lower}" in panel(alice, session)
    assert f"context window unknown (at least {short_figure(billed_input)})" in text(
        alice.get(address(session, "", "overview"))
    )
    assert f"/ {max(billed_input, 8_000):,} tokens" in panel(alice, session, "?step=1&mode=what_if")


def test_every_step_and_the_overview_agree_on_the_window(alice: Client, project: Project) -> None:
    """A later request of 240,000 tokens shows that the window was larger than 200,000 all the time."""
    session = create_session(project, names={"model": "claude-opus-4-5"})

    def answer(size: int) -> EntryDraft:
        usage = {"input_tokens": size, "output_tokens": 9}
        return draft(ModelOutput(text="done"), model="claude-opus-4-5", usage=usage)

    append(project, session.pk, [ask("go"), answer(90_000)])
    assert "90,000 tokens, as billed · context window 200,000 (usual for this model)" in panel(alice, session)
    whole = text(alice.get(address(session, "", "overview")))
    assert "context window 200k (usual for this model)" in whole
    append(project, session.pk, [ask("more"), answer(240_000), ask("more"), answer(20_000)])
    for step in (1, 2, 3):
        assert "context window unknown (at least 240,000)" in panel(alice, session, f"?step={step}")
    assert "context window unknown (at least 240k)" in text(alice.get(address(session, "", "overview")))
    # As of the first step nobody knew, but the window was as large.
    assert "context window unknown (at least 240,000)" in panel(alice, session, "?step=1&as_of=2")
    as_of = text(alice.get(address(session, "?as_of=2", "overview")))
    assert "context window unknown (at least 240k)" in as_of


@pytest.mark.parametrize(("billed", "origin"), [(9, "258,400 (recorded)"), (260_000, "922,000 (usual for")])
def test_a_recorded_window_comes_before_the_usual_one(
    alice: Client, project: Project, billed: int, origin: str
) -> None:
    session = create_session(project)
    usage = {"input_tokens": billed, "output_tokens": 9}
    output = draft(ModelOutput(text="done"), model="gpt-5.4", usage=usage, source={"window": 258_400})
    append(project, session.pk, [ask("go"), output])
    assert f"context window {origin}" in panel(alice, session)
    short = origin.replace("922,000", "922k")
    assert f"context window {short}" in text(alice.get(address(session, "", "overview")))


def test_a_request_of_which_nothing_is_recorded_has_an_unknown_size(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [act()])
    assert "unknown size · context window unknown" in panel(alice, session)


def test_an_unknown_window_has_no_size_without_usage(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "my-own"})
    append(project, session.pk, [ask("go"), act()])
    size = "recorded tokens, by Playhead's count; the whole request is unknown · context window unknown"
    assert size in panel(alice, session)
    assert "/ 200,000 tokens" in panel(alice, session, "?step=1&mode=what_if")


@pytest.mark.parametrize(
    ("read", "marked"),
    [(0, "0 %"), (20_000, "22 %"), (60_000, '<span class="saw-read is-good">68 %')],
)
def test_a_cache_is_green_only_if_most_of_the_input_was_read_from_it(
    alice: Client, project: Project, read: int, marked: str
) -> None:
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [ask("Repair the totals."), billed(87_605, read)])
    shown = html(fragment(alice, address(session, "?step=1")))
    assert marked in shown
    assert ("is-good" in shown) == ("is-good" in marked)


def test_an_estimate_is_rounded_and_names_the_bill_that_it_builds_on(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": MODEL})
    unbilled = draft(ModelOutput(text="done"), model=MODEL, source={"line": 1})
    append(project, session.pk, [ask("Repair. " * 9_000), billed(12_345), ask("go on"), unbilled])
    shown = panel(alice, session, "?step=2")
    assert re.search(r"about 12,[34]00 ", shown)
    assert re.search(r"difference from the last bill −\d", shown)
    assert "difference from the last bill" not in panel(alice, session, "?step=1")


def test_parts_are_rows_of_a_table(alice: Client, imported: Session) -> None:
    shown = panel(alice, imported, "?step=2")
    assert re.search(r"system, tools \(unseen\) 86,99\d 99 % user input \d <1 % assistant 9 <1 %", shown)


@pytest.mark.parametrize("second", [9_100, 8_600])
def test_all_rows_add_up_to_the_bill(project: Project, second: int) -> None:
    """The difference from the bill is a row, too: a part of the bar, or below zero without a share."""
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [ask("Repair. " * 2_000), billed(8_700), ask("more " * 90), billed(second)])
    session.refresh_from_db()
    parts = draw_recorded(recorded_request(History(session), 2), None).parts
    assert sum(part.tokens for part in parts) == second
    difference = parts[-1]
    assert all(part.share for part in parts[:-1])
    assert bool(difference.share) == (difference.tokens > 0)
    assert difference.kind == "difference"
    assert (difference.tokens > 0) == (second > 8_790) == (difference.width != "0.00%")


def test_a_recorded_instruction_is_not_called_unseen(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [draft(SystemInstruction(text="Be brief.")), ask("go"), billed(900)])
    shown = panel(alice, session, "?step=1")
    assert re.search(r" tools \(unseen\) \d+", shown)
    assert "system, tools" not in shown
    assert re.search(r"About \d+ tokens of the request are not recorded: tools\.", shown)


def test_an_unseen_part_that_grew_is_not_called_tools(alice: Client, project: Project) -> None:
    """Whatever the agent added without a record counts as unseen. Readers took 18,000 tokens for tools."""
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [draft(SystemInstruction(text="Be brief.")), ask("go")])
    append(project, session.pk, [billed(9_000), ask("more"), billed(19_000), ask("on"), billed(19_010)])
    assert re.search(r" tools \(unseen\) 8,\d+", panel(alice, session, "?step=1"))
    assert re.search(r" tools, other text \(unseen\) 18,\d+", panel(alice, session, "?step=3"))


def test_what_if_names_what_the_agent_adds(alice: Client, project: Project) -> None:
    """A budget that was chosen by the context alone was 20,000 tokens too small."""
    session = create_session(project, names={"model": MODEL})
    append(project, session.pk, [ask("go"), billed(19_600)])
    shown = panel(alice, session, "?step=1&mode=what_if")
    added = "The agent adds its system prompt and tools: about 19,600 tokens, by the request of step 1."
    assert f"Not included: {added}" in shown


def test_a_request_after_a_summary_is_not_the_first_one(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": MODEL})
    compacted = draft(DebugLog(category="compaction", message="Conversation compacted"))
    summary = draft(ModelInput(channel="compaction", content="It went well."))
    append(project, session.pk, [compacted, summary, ask("go"), billed(900)])
    shown = panel(alice, session)
    assert "The first recorded request This is the first recorded request." in shown


def test_what_is_new_is_counted_like_the_parts_of_the_request(project: Project) -> None:
    session = create_session(project, names={"model": "claude-opus-4-5"})
    usage = {"input_tokens": 900, "output_tokens": 75}
    call = draft(act("shell", command="ls").body, model="claude-opus-4-5", usage=usage)
    append(project, session.pk, [ask("go"), call, ok("a.py b.py " * 50), call, ok("c.py")])
    session.refresh_from_db()
    request = recorded_request(History(session), 2)
    panel = draw_recorded(request, request_changes(request))
    parts = {part.kind: part.tokens for part in panel.parts}
    assert f"output of step 1 (+{parts['assistant']}), its results (+{parts['results']})" in panel.change_note
    newest = messages(request, 0, 9)[-2:]
    assert [message.tokens for message in newest] == [parts["assistant"], parts["results"]]


def test_without_usage_the_number_is_playheads_count(alice: Client, session: Session) -> None:
    shown = panel(alice, session, "?step=3")
    assert "tokens, by Playhead's count" in shown
    assert "Cache Unknown: the usage of this model call is not recorded." in shown


def test_options_in_an_address_select_what_if(alice: Client, session: Session) -> None:
    assert "After step 3 : the next request" in panel(alice, session, "?step=3&policy=masked")
    assert "After step 3 : the next request" in panel(alice, session, "?step=3&mode=what_if")
    assert "Before step 3" in panel(alice, session, "?step=3&mode=recorded&policy=masked")


def test_an_unknown_mode_is_a_422(alice: Client, session: Session) -> None:
    assert fragment(alice, address(session, "?mode=guessed")).status_code == 422


def test_the_page_of_a_session_keeps_mode_and_options(alice: Client, session: Session) -> None:
    query = "?step=3&mode=what_if&policy=masked&max_tokens=777&format=plain&model=my-own&view=json"
    page = html(alice.get(address(session, query, "session")))
    form = page[page.index('id="context-form"') : page.index('id="context"')]
    assert re.search(r'value="what_if" checked', form)
    assert "<option selected>masked</option>" in form
    assert "<option selected>plain</option>" in form
    assert re.search(r'value="json" checked', form)
    assert 'value="777"' in form
    assert 'value="my-own"' in form


def test_what_if_takes_the_window_of_the_model_of_the_step(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "gpt-5"})
    output = draft(ModelOutput(text="done"), model="claude-opus-4-5")
    append(project, session.pk, [ask("go"), output])
    assert "/ 200,000 tokens" in panel(alice, session, "?step=1&mode=what_if")
    assert "/ 272,000 tokens" in panel(alice, session, "?step=1&mode=what_if&model=gpt-5")
    change_session(project, session.pk, {"settings": {"max_tokens": 900}})
    assert "/ 900 tokens" in panel(alice, session, "?step=1&mode=what_if")


def test_a_default_budget_is_not_refused_as_an_error(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "gpt-4"})
    append(project, session.pk, [ask("go"), act("ls"), ok(outputs="many words " * 20_000)])
    query = "?step=1&mode=what_if&policy=masked"
    refused = html(fragment(alice, address(session, f"{query}&max_tokens=10")))
    assert 'class="refusal"' in refused
    calm = html(fragment(alice, address(session, query.replace("masked", "live"))))
    assert 'class="refusal"' not in calm


def test_the_panel_names_a_compaction_and_a_take_that_it_leaves_out(alice: Client, project: Project) -> None:
    session = create_session(project)
    compacted = [
        draft(DebugLog(category="compaction", message="c")),
        draft(ModelInput(channel="compaction", content="s")),
    ]
    append(project, session.pk, [ask("go"), act("a"), ok(), *compacted, act("b"), ok(), act("c"), ok()])
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("d"), ok()])
    shown = panel(alice, session, "?step=3")
    assert "The agent had compacted step 1 into a summary." in shown
    assert "step 3 , rewound (take)." in shown


def test_a_session_without_steps_says_so(alice: Client, project: Project) -> None:
    session = create_session(project)
    assert "There is no step yet" in panel(alice, session)
    assert fragment(alice, address(session, name="recorded-messages")).status_code == 200


def test_messages_are_paginated_with_their_steps(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("go"), *[each for n in range(40) for each in (act("read", n=n), ok())]])
    page, counts = address(session, "?step=40", "recorded-messages"), []
    newest = text(fragment(alice, page))
    assert "step 39" in newest
    assert "step 40" not in newest
    while page:
        shown = html(fragment(alice, page))
        counts.append(shown.count('<details class="message">'))
        link = re.search(r'href="([^"]*before=[^"]*)"', shown)
        page = link[1].replace("&amp;", "&") if link else ""
    assert counts == [20, 50, 9]


def test_a_cache_that_held_everything_is_not_compared_with_one_that_costs_more(
    alice: Client, imported: Session
) -> None:
    compared = "If the whole shared part were read from a cache, the model call would cost"
    assert compared in panel(alice, imported, "?step=2")
    append(imported.project, imported.pk, [billed(88_000, 87_990)])
    whole = panel(alice, imported, "?step=3")
    assert (
        "The provider read the shared part of both requests from its cache. At the list prices of " in whole
    )
    assert compared not in whole


def test_text_of_agents_is_escaped(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": clean(ATTACK)})
    drafts = [draft(SystemInstruction(text=ATTACK)), ask(ATTACK)]
    for _ in range(2):
        drafts += [act(ATTACK, path=ATTACK), ok(outputs=ATTACK)]
    append(project, session.pk, drafts)
    for name in ("context", "recorded-messages"):
        for page in (
            alice.get(address(session, "?step=2", name)),
            fragment(alice, address(session, "?step=2", name)),
        ):
            assert page.status_code == 200
            assert "<script>alert" not in html(page)
            assert "<img" not in html(page)
            assert "\x00" not in html(page)


@pytest.mark.parametrize("name", ["context", "recorded-messages"])
def test_a_stranger_gets_404(charlie: Client, session: Session, name: str) -> None:
    assert charlie.get(address(session, "?step=1", name)).status_code == 404


@pytest.mark.parametrize("name", ["context", "recorded-messages"])
def test_a_long_session_issues_the_queries_of_a_short_one(alice: Client, project: Project, name: str) -> None:
    counts = []
    for steps in (100, 1_500):
        session = long_session(project, steps)
        with CaptureQueriesContext(connection) as captured:
            assert fragment(alice, address(session, "?step=60", name)).status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 15


def test_the_bar_never_exceeds_the_bill(imported: Session) -> None:
    append(imported.project, imported.pk, [ask("word " * 50_000), billed(87_700)])
    history = History(Session.objects.get(pk=imported.pk))
    request = recorded_request(history, 3)
    drawn = draw_recorded(request, request_changes(request))
    assert sum(float(part.width.rstrip("%")) for part in drawn.parts) <= 100 * 87_700 / 272_000 + 0.05


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"kind": "model_input", "content": "hello"}, "hello"),
        ({"kind": "system_instruction", "text": "Be kind."}, "Be kind."),
        ({"kind": "model_output", "text": "so", "tool_calls": [{"name": "ls", "arguments": {"a": 1}}]},
         'so\n\nls {"a":1}'),
        ({"kind": "model_output", "use_tool": {"name": "ls"}}, "ls {}"),
        ({"kind": "tool_results", "results": [{"outputs": "a"}, {"reason": "b"}, {}]}, "a\n\nb\n\n"),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, "hi"),
        ({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "Eo"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "1", "name": "ls", "input": {"a": 1}},
         ]}, 'so\nls {"a":1}'),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a"}]}, "a"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function",
          "function": {"name": "ls", "arguments": "{}"}}]}, "ls {}"),
        ({"role": "tool", "tool_call_id": "1", "content": "a.py"}, "a.py"),
        ({"system": [{"type": "text", "text": "Be kind."}]}, "Be kind."),
        ({"type": "compaction"}, '{"type":"compaction"}'),
    ],
)  # fmt: skip
def test_every_kind_of_message_has_a_text(content: dict[str, Any], expected: str) -> None:
    assert message_text(content) == expected

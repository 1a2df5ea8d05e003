"""Rules of every page: no other hosts, no console errors, no sideways scrolling, no findings of axe."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from itertools import cycle, islice
from typing import Literal
from uuid import UUID, uuid4

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.utils import timezone
from playwright.sync_api import ConsoleMessage, Page, Request

from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.models import CompressionItem, CompressionRun, Project, Session, Webhook, WebhookDelivery
from historyapp.services.append import append
from historyapp.services.bulk.start import BulkRequest, start_bulk_action
from historyapp.services.bulk.work import process_bulk_action
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation
from historyapp.services.evaluations.work import process_evaluation
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.strategy_comparisons import start_comparison
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.services.webhooks.endpoints import create_webhook, send_test
from tests.api.compressing import carry_out
from tests.browser.visits import page_of, record_session
from tests.services.evaluations.lookups import record_lookups

REPEATED = """[...document.querySelectorAll("[id]")].map((element) => element.id)
    .filter((id, index, ids) => ids.indexOf(id) !== index)"""
SMALL = """[...document.querySelectorAll("body *")]
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((element) => element.checkVisibility() && !element.closest("svg"))
    .filter((element) => parseFloat(getComputedStyle(element).fontSize) < 12)
    .map((element) => element.outerHTML.slice(0, 100))"""
NARROW = 360
Look = tuple[int, Literal["light", "dark"]]
"""Width and scheme. Contrast depends on the scheme, some other rules of axe-core on the width."""
LOOKS: tuple[Look, ...] = ((1440, "light"), (NARROW, "dark"))
OPTIONS = {
    "rules": {"target-size": {"enabled": True}},  # off by default: controls are 24 px wide and high, or apart
    "resultTypes": ["violations"],
    "selectors": False,
    "preload": False,  # no rule that is on by default reads style sheets of other hosts
}
NOWHERE = "/nothing"
LONG = "An unbroken name of 300 characters: " + "x" * 264


def _bulk_action(project: Project, *sessions: Session) -> UUID:
    """An action with a session that it changed, one that has a tag already, and one that is not there."""
    change_session(project, sessions[0].pk, {"tags": ["x"]})
    wanted = BulkRequest("add_tag", [*(session.pk for session in sessions), uuid4()], tag="x")
    action = start_bulk_action(project, wanted)
    process_bulk_action(action.pk, lambda: False, lambda _: None)
    return action.pk


def _evaluation(project: Project, odd: Session) -> UUID:
    """One of a session that is measured and one in which there is nothing to measure."""
    sessions = [record_lookups(project, 8).pk, odd.pk]
    evaluation = start_evaluation(project, EvaluationRequest(sessions, (300, 2000), ("budgeted", "live")))
    process_evaluation(evaluation.pk, lambda: False)
    return evaluation.pk


@pytest.fixture
def addresses(project: Project) -> list[str]:
    """One address of every kind of page, with much and with odd things to show."""
    session = record_session(project, 12)
    rewound = rewind(project, session.pk, Target(to_step=10), reason="the wrong way")
    add_summary(project, session.pk, (1, 3), SummaryText("looked around"))
    fork(project, session.pk, at_step=3)
    run, first, *_ = _compressions(project, session)
    odd = _odd_session(project)
    empty = create_session(project, names={"title": LONG, "agent": "a" * 200, "model": "m" * 200})
    change_session(project, empty.pk, {"tags": ["t" * 100], "note": "n" * 500, "score": 1.25})
    hook, sent = _failing_webhook(project)
    return [
        "/",
        "/?q=nothing-like-this",
        "/imports",
        "/palette?q=e",
        "/compare",
        f"/compare?a={session.pk}",
        f"/compare?a={session.pk}/takes/{rewound.position}&b={odd.pk}",
        NOWHERE,
        "/docs/errors",
        page_of(session),
        page_of(session, "?step=9"),
        page_of(session, "?step=11&as_of=" + str(session.head)),
        page_of(session, "/rewinds?step=2"),
        page_of(session, f"/rewinds/{rewound.position}/undo"),
        page_of(session, "/continue?step=9"),
        page_of(session, "/connect"),
        page_of(session, "/steps/5/raw"),
        page_of(session, "/context?step=9&view=diff"),
        page_of(odd, "/context?view=messages"),
        page_of(session, "/ledger?step=9"),
        page_of(session, "/overview"),
        page_of(session, "?step=2&shown=summary"),
        page_of(session, "/settings"),
        page_of(session, "/annotation"),
        page_of(session, "/shares?step=9"),
        f"/bulk/{_bulk_action(project, session, odd)}",
        "/evaluations",
        f"/evaluations/{_evaluation(project, odd)}",
        page_of(session, "/summaries/new?first=1&last=3"),
        page_of(session, "/compressions/new"),
        page_of(session, "/compressions/new?to_step=999"),
        page_of(session, f"/compressions/{run.pk}"),
        page_of(session, "/comparisons/new"),
        page_of(session, f"/comparisons/{first.comparison}"),
        page_of(empty, "/compressions/new"),
        "/project",
        "/webhooks",
        f"/webhooks/{hook.pk}",
        f"/webhooks/{hook.pk}/deliveries/{sent.message}",
        "/figures",
        "/search?q=tool:look",
        "/searches",
        "/compressions",
        f"/compressions?session={empty.pk}",
        page_of(odd),
        page_of(odd, "?step=2"),
        page_of(empty),
    ]


def _compressions(project: Project, session: Session) -> list[CompressionRun]:
    """A run of which something failed with a long word, the sides of a comparison, and one under way."""
    wish = RunRequest("simple_extract", 1, 9)
    run = start_run(project, session.pk, wish).run
    carry_out(run.pk, failing=(2, 3))
    CompressionItem.objects.filter(run=run, number=2).update(error="e" * 300)
    CompressionRun.objects.filter(pk=run.pk).update(note="n" * 300, model="m" * 100, actor="a" * 200)
    sides = start_comparison(project, session.pk, [wish, RunRequest("structured", 1, 9)])
    carry_out(sides[0].pk)
    CompressionItem.objects.filter(run=sides[0], number=1).update(text="t" * 10_000)
    return [run, *sides, start_run(project, session.pk, RunRequest("structured")).run]


def _failing_webhook(project: Project) -> tuple[Webhook, WebhookDelivery]:
    """One that was switched off after an answer without end, and its delivery."""
    hook = create_webhook(project, "https://hooks.example.com/" + "u" * 300, description="d" * 200)
    sent = send_test(project, hook.pk)
    attempt = {"at": "2026-11-25T10:00:00.000Z", "status": 500, "milliseconds": 31}
    sent.log, sent.attempts = [{**attempt, "error": "e" * 300, "answer": "a" * 1024}], 1
    sent.save()
    hook.state, hook.note, hook.failures, hook.failing_since = "off", "n" * 500, 1, timezone.now()
    hook.save()
    return hook, sent


def _odd_session(project: Project) -> Session:
    """A diff, a command, a failure in colour, an answer in Markdown, and lines without end."""
    session = create_session(project, names={"title": "\u202eodd <b>"})
    calls = (
        ToolCall(
            id="a", name="edit", arguments={"path": "a.py", "old_string": "x = 1", "new_string": "x = '2'"}
        ),
        ToolCall(id="b", name="bash", arguments={"command": "for x in $(ls); do echo 'a'; done # all"}),
    )
    colours = "".join(f"\x1b[{code}mcolour {code}\x1b[0m\n" for code in (*range(30, 38), *range(90, 98), 2))
    results = (
        ToolResult(tool_call_id="a", status="error", reason=colours),
        ToolResult(tool_call_id="b", status="success", outputs="A" * 50_000),
    )
    answer = (
        "# Done\n\n"
        + "word" * 200
        + "\n\n| a | b |\n|---|---|\n| "
        + "c" * 300
        + " | d |\n\n```\n"
        + "e" * 500
    )
    bodies = (
        ModelInput(content="u" * 500),
        ModelOutput(thoughts="t" * 500, text="s" * 500, tool_calls=calls),
        ToolResults(results=results),
        ModelOutput(text=answer),
    )
    append(project, session.pk, [EntryDraft(body) for body in bodies])
    return session


Faults = dict[str, set[str]]
"""What broke each rule."""


@pytest.mark.parametrize(
    "looks_at_each", [1, pytest.param(2, marks=pytest.mark.thorough)], ids=["one look", "all looks"]
)
def test_every_page_keeps_every_rule(
    page: Page, server: str, addresses: list[str], looks_at_each: int
) -> None:
    """One walk for all the rules: loading the pages takes longer than looking at them."""
    faults: Faults = defaultdict(set)
    page.on("request", partial(_note_request, faults, server))
    page.on("console", partial(_note_console, faults))
    looks = cycle(LOOKS)
    for address in addresses:
        page.set_viewport_size({"width": NARROW, "height": 800})
        page.goto(address, wait_until="networkidle")
        _look_at_widths(page, faults)
        _look_for_barriers(page, faults, islice(looks, looks_at_each))
        _look_at_names(page, faults)
        _look_at_sizes(page, faults)
    assert faults == {}


def _note_request(faults: Faults, server: str, request: Request) -> None:
    if not request.url.startswith(server):
        faults["nothing comes from elsewhere"].add(request.url)


def _note_console(faults: Faults, message: ConsoleMessage) -> None:
    complaint = f"{message.location['url']}: {message.text}"
    leads_nowhere = message.location["url"].endswith(NOWHERE) and "404" in message.text
    if message.type in ("error", "warning") and not leads_nowhere:
        faults["nothing is complained of"].add(complaint)


def _look_at_widths(page: Page, faults: Faults) -> None:
    for width in (NARROW, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
            faults["no page scrolls sideways"].add(f"{page.url}: {found} of {width}")


def _look_for_barriers(page: Page, faults: Faults, looks: Iterable[Look]) -> None:
    page.evaluate(AXE_SCRIPT)
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("options => axe.run(options)", OPTIONS)
        for barrier in found["violations"]:
            places = [node["html"][:100] for node in barrier["nodes"]]
            faults[barrier["id"]].add(f"{page.url}: {scheme}, {width} px: {places}")


def _look_at_names(page: Page, faults: Faults) -> None:
    if repeated := page.evaluate(REPEATED):
        faults["every id is its own"] |= {f"{page.url}: {id}" for id in repeated}
    if page.locator("h1").count() != 1:
        faults["every page has one heading"].add(page.url)


def _look_at_sizes(page: Page, faults: Faults) -> None:
    if small := page.evaluate(SMALL):
        faults["no text outside of charts is smaller than 12 px"] |= {f"{page.url}: {text}" for text in small}


def test_menus_open_inside_a_phones_screen(page: Page, project: Project) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(page_of(record_session(project, 3)))
    for menu in page.locator("[data-menu]").filter(visible=True).all():
        menu.locator("summary").click()
        box = menu.locator(".menu-items").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        page.keyboard.press("Escape")


def test_the_controls_stay_in_sight_on_a_phone(page: Page, project: Project) -> None:
    session = record_session(project, 30)
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(page_of(session, "?step=5"))
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.get_by_role("link", name="Next step").click()
    page.locator("[data-at='6']").wait_for()
    box = page.get_by_role("button", name="Play").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 640

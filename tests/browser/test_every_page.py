"""Rules of every page: no other hosts, no console errors, no sideways scrolling, no findings of axe."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Literal, NamedTuple
from uuid import UUID, uuid4

import pytest
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
from tests.browser.visits import AXE, page_of, record_session, run_in_each_page
from tests.examples import thorough
from tests.services.evaluations.lookups import record_lookups

LOOK = """async ([parts, options]) => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const ids = all("[id]").map((element) => element.id);
    const isText = (node) => node.nodeType === 3 && node.data.trim();
    return {
        violations: (await axe.run(parts ?? document, options)).violations
            .map(({ id, nodes }) => [id, nodes.map((node) => node.html.slice(0, 100))]),
        headings: all("h1").length,
        repeated: ids.filter((id, index) => ids.indexOf(id) !== index),
        small: all("body *")
            .filter((element) => [...element.childNodes].some(isText))
            .filter((element) => element.checkVisibility() && !element.closest("svg"))
            .filter((element) => parseFloat(getComputedStyle(element).fontSize) < 12)
            .map((element) => element.outerHTML.slice(0, 100)),
    };
}"""
"""What breaks a rule. One question for all rules: each costs more than most answers."""
START = (
    AXE
    + """
Object.defineProperty(document, "hidden", { value: true });
for (const name of ["htmx:beforeRequest", "htmx:beforeSwap"])
    document.addEventListener(name, (event) => event.preventDefault());
"""
)
"""Runs in each page before its own scripts. A page that no longer changes has no faults of a moment."""


class Look(NamedTuple):
    """Contrast depends on the scheme, some other rules of axe-core on the width."""

    width: int
    other_width: int
    """Here it is only checked that the page does not scroll sideways."""
    scheme: Literal["light", "dark"]


LOOKS = (Look(1440, 360, "light"), Look(360, 768, "dark"))
OPTIONS = {
    "rules": {"target-size": {"enabled": True}},  # off by default: controls are 24 px wide and high, or apart
    "resultTypes": ["violations"],
    "selectors": False,
    "preload": False,  # no rule that is on by default reads style sheets of other hosts
}
ALL_BUT_THE_SAME = {"exclude": [".brand", "nav[aria-label=Main]", "[data-palette]", ".masthead-end"]}
"""The parts of a page that are not the same on all pages."""
NOWHERE = "/nothing"
LONG = "An unbroken name of 300 characters: " + "x" * 264


def _bulk_action(project: Project, *sessions: Session) -> UUID:
    """An action with a session that it changed, one that has a tag already, and one that is not there."""
    change_session(project, sessions[0].pk, {"tags": ["x"]})
    bulk_request = BulkRequest("add_tag", [*(session.pk for session in sessions), uuid4()], tag="x")
    action = start_bulk_action(project, bulk_request)
    process_bulk_action(action.pk, lambda: False, lambda _: None)
    return action.pk


def _evaluation(project: Project, odd: Session) -> UUID:
    """An evaluation of a session that is measured and of one with nothing to measure."""
    sessions = [record_lookups(project, 8).pk, odd.pk]
    evaluation = start_evaluation(project, EvaluationRequest(sessions, (300, 2000), ("budgeted", "live")))
    process_evaluation(evaluation.pk, lambda: False)
    return evaluation.pk


@pytest.fixture
def addresses(project: Project, every_state: bool) -> list[str]:
    """An address of every kind of page, with long and unusual content, or of its other states too."""
    session = record_session(project, 12)
    rewound = rewind(project, session.pk, Target(to_step=10), reason="the wrong way")
    add_summary(project, session.pk, (1, 3), SummaryText("looked around"))
    fork(project, session.pk, at_step=3)
    run, first, *_ = _compressions(project, session)
    odd = _odd_session(project)
    empty = create_session(project, names={"title": LONG, "agent": "a" * 200, "model": "m" * 200})
    change_session(project, empty.pk, {"tags": ["t" * 100], "note": "n" * 500, "score": 1.25})
    hook, sent = _failing_webhook(project)
    kinds = [
        "/",
        "/imports",
        "/palette?q=e",
        f"/compare?a={session.pk}",
        f"/compare?a={session.pk}/takes/{rewound.position}&b={odd.pk}",
        NOWHERE,
        "/docs/errors",
        page_of(session, "?step=9"),
        page_of(odd, f"?as_of={odd.head}"),
        page_of(empty),
        page_of(session, "/rewinds?step=2"),
        page_of(session, f"/rewinds/{rewound.position}/undo"),
        page_of(session, "/continue?step=9"),
        page_of(session, "/connect"),
        page_of(session, "/steps/5/raw"),
        page_of(odd, "/context?view=messages"),
        page_of(session, "/ledger?step=9"),
        page_of(session, "/overview"),
        page_of(session, "/settings"),
        page_of(session, "/annotation"),
        page_of(session, "/shares?step=9"),
        f"/bulk/{_bulk_action(project, session, odd)}",
        "/evaluations",
        f"/evaluations/{_evaluation(project, odd)}",
        page_of(session, "/summaries/new?first=1&last=3"),
        page_of(session, "/compressions/new"),
        page_of(session, f"/compressions/{run.pk}"),
        page_of(session, "/comparisons/new"),
        page_of(session, f"/comparisons/{first.comparison}"),
        "/project",
        "/webhooks",
        f"/webhooks/{hook.pk}",
        f"/webhooks/{hook.pk}/deliveries/{sent.message}",
        "/figures",
        "/search?q=tool:look",
        "/searches",
        f"/compressions?session={session.pk}",
    ]
    return kinds + _other_states(session, odd, empty) if every_state else kinds


def _other_states(session: Session, odd: Session, empty: Session) -> list[str]:
    """More addresses of pages that consist of templates which other addresses show."""
    return [
        "/?q=nothing-like-this",
        "/compare",
        page_of(session),
        page_of(session, f"?step=11&as_of={session.head}"),
        page_of(session, "?step=2&shown=summary"),
        page_of(odd),
        page_of(odd, "?step=2"),
        page_of(session, "/context?step=9&view=diff"),
        page_of(session, "/compressions/new?to_step=999"),
        page_of(empty, "/compressions/new"),
        "/compressions",
        f"/compressions?session={empty.pk}",
    ]


def _compressions(project: Project, session: Session) -> list[CompressionRun]:
    """A run with a failure that has a long word, the two runs of a comparison, and a run in progress."""
    run_request = RunRequest("simple_extract", 1, 9)
    run = start_run(project, session.pk, run_request).run
    carry_out(run.pk, failing=(2, 3))
    CompressionItem.objects.filter(run=run, number=2).update(error="e" * 300)
    CompressionRun.objects.filter(pk=run.pk).update(note="n" * 300, model="m" * 100, actor="a" * 200)
    sides = start_comparison(project, session.pk, [run_request, RunRequest("structured", 1, 9)])
    carry_out(sides[0].pk)
    CompressionItem.objects.filter(run=sides[0], number=1).update(text="t" * 10_000)
    return [run, *sides, start_run(project, session.pk, RunRequest("structured")).run]


def _failing_webhook(project: Project) -> tuple[Webhook, WebhookDelivery]:
    """A webhook that was disabled after an endless response, and its delivery."""
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


Parts = dict[str, list[str]] | None
"""What axe-core looks at, or None for the whole page."""
Faults = dict[str, set[str]]
"""What broke each rule."""


@pytest.fixture
def faults(page: Page, server: str) -> Iterator[Faults]:
    """The faults of all loaded pages."""
    faults: Faults = defaultdict(set)
    note_request, note_console = partial(_note_request, faults, server), partial(_note_console, faults)
    page.on("request", note_request)
    page.on("console", note_console)
    with run_in_each_page(page, START):
        yield faults
    page.remove_listener("request", note_request)
    page.remove_listener("console", note_console)


@pytest.mark.parametrize(
    ("every_state", "looks_at_each"),
    [(False, 1), thorough(True, len(LOOKS))],
    ids=["one look", "every state and look"],
)
def test_every_page_keeps_every_rule(
    page: Page, addresses: list[str], faults: Faults, looks_at_each: int
) -> None:
    """One test for all rules: loading the pages takes longer than checking them.

    Pages of one look follow each other, so no page is drawn again in another look before it is left.
    """
    for start, look in enumerate(LOOKS):
        more = LOOKS[start + 1 :] + LOOKS[:start] if looks_at_each > 1 else ()
        _set_look(page, look)
        for number, address in enumerate(addresses[start :: len(LOOKS)]):
            parts = ALL_BUT_THE_SAME if number and not more else None
            page.goto(address)
            _note_what_is_seen(page, faults, look, parts)
            for other in more:
                _set_look(page, other)
                _note_what_is_seen(page, faults, other, parts)
                _set_look(page, look)
    assert faults == {}


def _set_look(page: Page, look: Look) -> None:
    page.emulate_media(color_scheme=look.scheme)
    page.set_viewport_size({"width": look.width, "height": 800})


def _note_request(faults: Faults, server: str, request: Request) -> None:
    if not request.url.startswith(server):
        faults["nothing comes from elsewhere"].add(request.url)


def _note_console(faults: Faults, message: ConsoleMessage) -> None:
    complaint = f"{message.location['url']}: {message.text}"
    leads_nowhere = message.location["url"].endswith(NOWHERE) and "404" in message.text
    if message.type in ("error", "warning") and not leads_nowhere:
        faults["nothing is complained of"].add(complaint)


def _note_what_is_seen(page: Page, faults: Faults, look: Look, parts: Parts) -> None:
    seen_on_page = page.evaluate(LOOK, [parts, OPTIONS])
    for rule, places in seen_on_page["violations"]:
        faults[rule].add(f"{page.url}: {look}: {places}")
    if seen_on_page["headings"] != 1:
        faults["every page has one heading"].add(page.url)
    faults_of_elements = {
        "every id is its own": seen_on_page["repeated"],
        "no text outside of charts is smaller than 12 px": seen_on_page["small"],
    }
    for rule, places in faults_of_elements.items():
        if places:
            faults[rule].add(f"{page.url}: {places}")
    for width in (look.other_width, look.width):
        page.set_viewport_size({"width": width, "height": 800})
        if (scrolled := page.evaluate("document.documentElement.scrollWidth")) > width:
            faults["no page scrolls sideways"].add(f"{page.url}: {scrolled} of {width}")


def test_menus_open_inside_a_phones_screen_and_the_controls_stay_visible(
    page: Page, project: Project
) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(page_of(record_session(project, 12), "?step=5"))
    for menu in page.locator("[data-menu]").filter(visible=True).all():
        menu.locator("summary").click()
        box = menu.locator(".menu-items").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
        page.keyboard.press("Escape")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.get_by_role("link", name="Next step").click()
    page.locator("[data-at='6']").wait_for()
    box = page.get_by_role("button", name="Play").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 640

"""The diffs of a pair of steps, on the page that compares two runs."""

from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.rendering.blocks import HEAD_CHARACTERS
from dashboard.rendering.step import CALLS
from historyapp.core.entries import ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, draft, failed, ok


def run_of(project: Project, *drafts: Any) -> Session:
    session = create_session(project)
    append(project, session.pk, list(drafts))
    session.refresh_from_db()
    return session


def address_of(a: Session, b: Session, at: str = "1-1", more: str = "") -> str:
    return f"{reverse('compare-steps')}?a={a.pk}&b={b.pk}&at={at}{more}"


def two_outputs(project: Project, a: str, b: str) -> str:
    """The address of the diffs of two steps with these results."""
    one, other = (run_of(project, act("bash", command="go test"), ok(outputs=outputs)) for outputs in (a, b))
    return address_of(one, other)


LINES = [f"line {number}" for number in range(1, 101)]
CHANGED = "\n".join([*LINES[:59], "another line", *LINES[60:]])


def test_a_pair_with_another_result_shows_its_changed_lines(alice: Client, project: Project) -> None:
    shown = html(fragment(alice, two_outputs(project, "\n".join(LINES), CHANGED)))
    assert "<html" not in shown
    assert "@@ -57,7 +57,7 @@" in shown
    assert '<del data-n="60    -"><code>line 60\n' in shown
    assert '<ins data-n="   60 +"><code>another line\n' in shown
    assert "line 56" not in shown
    assert "line 64" not in shown
    assert "result +1 −1" in text(fragment(alice, two_outputs(project, "\n".join(LINES), CHANGED)))


def test_the_list_links_to_the_diffs_and_loads_none(alice: Client, project: Project) -> None:
    a, b = (run_of(project, act(), ok(outputs=out), act("end"), ok()) for out in ("one\nwords", "two\nwords"))
    page = html(alice.get(f"{reverse('compare-runs')}?a={a.pk}&b={b.pk}"))
    address = address_of(a, b).replace("&", "&amp;")
    assert page.count(f'hx-get="{address}"') == page.count(f'<a href="{address}">') == 1, (
        "for one of two pairs"
    )
    assert "<ins" not in page


def test_without_scripts_the_diffs_have_a_page_of_their_own(alice: Client, project: Project) -> None:
    a, b = (run_of(project, act(path=path), ok()) for path in ("a.txt", "b.txt"))
    with CaptureQueriesContext(connection) as issued:
        page = alice.get(address_of(a, b))
    assert len(issued) <= 15
    assert "Differences of two steps" in text(page)
    assert "path +1 −1 − in A, + in B a.txt b.txt" in text(page)
    assert "result" not in text(page).partition("path +1")[2]
    assert f"{reverse('compare-runs')}?a={a.pk}&amp;b={b.pk}&amp;at=1-1" in html(page)
    for session in (a, b):
        assert f'href="{reverse("session", args=[session.pk])}?step=1"' in html(page)


def test_inputs_tools_errors_and_answers_are_compared(alice: Client, project: Project) -> None:
    a = run_of(project, ask("Please\nmend it"), act("edit"), ok(outputs={"lines": 1}), answer("Done\nfine"))
    b = run_of(project, ask("Please\nleave it"), act("move"), failed(reason="no file"), answer("Done\nbad"))
    first = text(fragment(alice, address_of(a, b)))
    assert "input +1 −1" in first
    assert "tool +1 −1 − in A, + in B edit move" in first
    assert "no file" in first
    assert '"lines": 1' in first
    assert "answer +1 −1" in text(fragment(alice, address_of(a, b, "2-2")))


def test_parallel_calls_are_compared_one_by_one(alice: Client, project: Project) -> None:
    def step(*outputs: str) -> list[Any]:
        ids = [f"call_{number}" for number in range(len(outputs))]
        calls = tuple(ToolCall(id=id, name="read") for id in ids)
        results = tuple(
            ToolResult(tool_call_id=id, status="success", outputs=output)
            for id, output in zip(ids, outputs, strict=True)
        )
        return [draft(ModelOutput(tool_calls=calls)), draft(ToolResults(results=results))]

    same = ["same"] * CALLS
    a, b = run_of(project, *step("same", "one", *same)), run_of(project, *step("same", "two", *same))
    page = text(fragment(alice, address_of(a, b)))
    assert page.startswith("call 2: result +1 −1")
    assert "2 further tool calls are not compared." in page


def test_texts_that_are_equal_or_differ_at_their_end_are_named(alice: Client, project: Project) -> None:
    assert "The inputs, tool calls, results and answers of both steps have the same text." in text(
        fragment(alice, two_outputs(project, "a", "a"))
    )
    assert "Only a line break at the end differs: result." in text(
        fragment(alice, two_outputs(project, "a", "a\n"))
    )


def test_blanks_at_the_end_are_named_on_both_forms_of_the_page(alice: Client, project: Project) -> None:
    address = two_outputs(project, "head\nsame", "head\nsame ")
    shown = text(fragment(alice, address))
    assert "same \\ ends without blanks" in shown
    assert "\\ ends with 1 space" in shown
    alice.cookies["diff"] = "split"
    rows = html(fragment(alice, address)).split("<tr>")[1:]
    assert "ends without blanks" in rows[2]
    assert "ends with 1 space" in rows[2]


def test_the_rest_of_a_long_diff_is_loaded_on_request(alice: Client, project: Project) -> None:
    a, b = ("\n".join(f"{name} {number}" for number in range(500)) for name in ("old", "new"))
    address = two_outputs(project, a, b)
    start = html(fragment(alice, address))
    assert "old 20\n" in start
    assert "new 400" not in start
    end = start.partition("part=result-0&amp;start=")[2].partition('"')[0]
    assert 0 < int(end) <= HEAD_CHARACTERS
    rest = html(fragment(alice, f"{address}&part=result-0&start={end}"))
    assert ("later-part" in start, "later-part" in rest) == (False, True)
    assert "new 400\n" in rest
    assert "old 20\n" not in rest
    page = alice.get(f"{address}&part=result-0&start={end}")
    assert "All differences of these steps" in text(page)
    assert alice.get(f"{address}&part=x").status_code == 404


def test_of_long_texts_a_part_is_compared(alice: Client, project: Project) -> None:
    lines = "\n".join(map(str, range(200_000)))
    page = text(fragment(alice, two_outputs(project, f"{lines}\na", f"{lines}\nb")))
    assert "@@ -199998,4 +199998,4 @@" in page
    assert "150,000 characters are compared" in page
    word = 2_500_000 * "ab"
    line = html(fragment(alice, two_outputs(project, f"{word}1{word}", f"{word}2{word}")))
    assert len(line) < 20_000
    assert "…" in line


def test_the_texts_of_two_steps_are_compared_up_to_a_limit(alice: Client, project: Project) -> None:
    names = [f"text_{number}" for number in range(6)]
    a, b = (run_of(project, act("edit", **dict.fromkeys(names, mark + 200000 * "x")), ok()) for mark in "ab")
    with CaptureQueriesContext(connection) as issued:
        page = text(fragment(alice, address_of(a, b)))
    assert len(issued) <= 15
    assert page.count("− in A, + in B") == 4
    assert "too long: text_4, text_5." in page


def test_wrong_places_are_refused(alice: Client, project: Project) -> None:
    a, b = run_of(project, act(), ok()), run_of(project, act(), ok(outputs="x"))
    for at in ("1-2", "0-1", "x", ""):
        assert alice.get(address_of(a, b, at)).status_code == 422


def test_a_stranger_sees_no_diffs(charlie: Client, project: Project) -> None:
    assert fragment(charlie, two_outputs(project, "a", "b")).status_code == 404


def test_text_of_agents_is_inert_in_diffs(alice: Client, project: Project) -> None:
    a, b = (run_of(project, act(**{"<script>x": out}), ok(outputs=out)) for out in ("<script>1", "<script>2"))
    assert "<script>" not in html(fragment(alice, address_of(a, b)))
    one, other = (run_of(project, act(**{"<b>x": out}), ok()) for out in ("a", "a\n"))
    assert "at the end differs:\n  &lt;b&gt;x." in html(fragment(alice, address_of(one, other)))

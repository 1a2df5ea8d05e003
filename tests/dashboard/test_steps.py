"""The panel of a step: everything in it is plain text; long parts are folded and loaded on demand."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.conversation import NO_RESULT
from historyapp.core.dates import UNDATED
from historyapp.core.entries import (
    Body,
    DebugLog,
    EntryDraft,
    ErrorDetails,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    ToolCall,
    ToolResult,
    ToolResults,
    UseTool,
)
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from historyapp.services.summaries import SummaryText, add_summary
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, ok

ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></article><svg onload=alert(1)>",
    "{{ 7|add:7 }}{% debug %}",
]


@pytest.fixture
def empty(project: Project) -> Session:
    return create_session(project)


def record(session: Session, *bodies: Body) -> None:
    append(session.project, session.pk, [EntryDraft(body) for body in bodies])


def panel(client: Client, session: Session, number: int = 1) -> str:
    return html(fragment(client, reverse("step", args=[session.pk, number])))


def shown(client: Client, session: Session, number: int = 1) -> str:
    return text(fragment(client, reverse("step", args=[session.pk, number])))


def pace(client: Client, session: Session, number: int) -> dict[str, Any] | None:
    """The data for a replay in the panel of a step."""
    match = re.search(r'data-pace="([^"]*)"', panel(client, session, number))
    assert match is not None
    return json.loads(unescape(match[1])) if match[1] else None


def called(name: str, **arguments: object) -> ModelOutput:
    return ModelOutput(tool_calls=(ToolCall(id="c", name=name, arguments=arguments),))


def result(**fields: object) -> ToolResults:
    return ToolResults(
        results=(ToolResult.model_validate({"tool_call_id": "c", "status": "success", **fields}),)
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_of_agents_is_escaped(alice: Client, empty: Session, attack: str) -> None:
    call = ToolCall(id=attack, name=attack, arguments={attack: attack, "code": attack, "list": [attack] * 40})
    error = ErrorDetails(message=attack, exception_type=attack, repr=attack)
    answered = ToolResult(
        tool_call_id=attack, tool_name=attack, status="error", reason=attack + "!", error=error
    )
    record(
        empty,
        SystemInstruction(text=attack),
        MemoryNotebook(content=attack),
        ModelInput(channel=attack, content=[{"type": attack, "x": attack}, {"type": "text", "text": attack}]),
        DebugLog(category=attack, message=attack),
        ModelOutput(thoughts=attack, text=attack + "?", tool_calls=(call,)),
        ToolResults(results=(answered,)),
        Review(analysis=attack, supervision={attack: [attack]}),
        ModelOutput(text=attack),
    )
    add_summary(empty.project, empty.pk, (1, 1), SummaryText(attack, model=attack))
    for number in (1, 2):
        page = panel(alice, empty, number)
        assert "<script" not in page
        assert "<img" not in page
        assert "onload=alert" not in re.sub(r"&lt;.*?&gt;", "", page)
        assert attack in unescape(re.sub(r"<[^>]*>", "", page))
    raw = html(fragment(alice, reverse("raw", args=[empty.pk, 1])))
    assert "<script" not in raw
    assert "<img" not in raw


def test_only_web_links_of_final_answers_can_be_followed(alice: Client, empty: Session) -> None:
    links = "[a](https://ok.example) [b](javascript:alert(1)) [c](data:text/html,x) <https://auto.example>"
    record(
        empty,
        ModelOutput(text=links + " ![i](https://spy.example/i.png)"),
        called("x", url="https://no.example"),
    )
    page = panel(alice, empty)
    assert re.findall(r'<a href="(http[^"]*)" rel="([^"]*)"', page) == [
        ("https://ok.example", "noopener nofollow"),
        ("https://auto.example", "noopener nofollow"),
    ]
    assert "javascript:" not in "".join(re.findall(r'href="[^"]*"', page))
    assert "<img" not in page
    assert "no.example" not in "".join(re.findall(r'href="[^"]*"', panel(alice, empty, 2)))


def test_an_input_of_empty_marks_is_shown_as_it_is(alice: Client, empty: Session) -> None:
    marks = "<local-command-stdout></local-command-stdout>"
    append(empty.project, empty.pk, [draft(ModelInput(content=marks, channel="command")), act(), ok()])
    assert escape(marks) in html(fragment(alice, reverse("step", args=[empty.pk, 1])))


def test_terminal_colours_become_classes(alice: Client, empty: Session) -> None:
    record(
        empty,
        called("bash", command="pytest"),
        result(outputs="\x1b[1;31mFAILED\x1b[0m \x1b]0;title\x07x\x1b[2K"),
    )
    page = panel(alice, empty)
    assert '<span class="weight-1 ansi-31">FAILED</span> x</pre>' in page
    assert "title\ufffd" not in page
    assert "\x1b" not in page


def test_each_parallel_call_is_shown_with_its_own_result(alice: Client, empty: Session) -> None:
    calls = tuple(ToolCall(id=id, name=f"tool_{id}") for id in "abc")
    record(empty, ModelOutput(tool_calls=calls))
    record(empty, ToolResults(results=(ToolResult(tool_call_id="b", status="error", reason="of b"),)))
    record(empty, ToolResults(results=(ToolResult(tool_call_id="a", status="success", outputs="of a"),)))
    page = shown(alice, empty)
    order = [
        page.index(words)
        for words in ("tool_a", "of a", "tool_b", "of b", "tool_c", "Proposed; no result yet")
    ]
    assert order == sorted(order)


def test_a_comment_on_all_results_has_its_own_part(alice: Client, empty: Session) -> None:
    calls = tuple(ToolCall(id=id, name=f"tool_{id}") for id in "ab")
    whole = ToolResult(status="interrupted_by_human", feedback="stop it")
    record(empty, ModelOutput(tool_calls=calls), ToolResults(results=(whole,)))
    page = shown(alice, empty)
    assert "Result: interrupted stop it" in page
    assert "Answered together with the call a." in page
    assert "No result was recorded" not in page


def test_a_step_of_several_calls_links_to_failed_ones(alice: Client, empty: Session) -> None:
    calls = tuple(ToolCall(id=id, name=f"tool_{id}") for id in "abc")
    results = (
        ToolResult(status="success", tool_call_id="a", outputs="fine"),
        ToolResult(status="error", tool_call_id="b", reason="no"),
        ToolResult(status="error", tool_call_id="c", reason="no"),
    )
    record(empty, ModelOutput(tool_calls=calls), ToolResults(results=results))
    page = panel(alice, empty)
    assert re.findall(r'href="#(call-\d)"', page) == ["call-2", "call-3"]
    assert re.findall(r'id="(call-\d)"', page) == ["call-1", "call-2", "call-3"]


def test_further_calls_are_loaded_twenty_at_a_time(alice: Client, empty: Session) -> None:
    calls = tuple(
        ToolCall(id=str(n), name=f"tool_{n}", arguments={"code": "x = 1\n" * 2000}) for n in range(45)
    )
    record(empty, ModelOutput(tool_calls=calls))
    page = panel(alice, empty)
    names = re.findall(r"tool_(\d+)<", page)
    while more := re.search(r'hx-get="([^"]*calls\?from=\d+)"', page):
        page = html(fragment(alice, more[1]))
        names += re.findall(r"tool_(\d+)<", page)
    assert names == [str(n) for n in range(45)]
    code = reverse("block", args=[empty.pk, 1, "call-40-command"])
    assert "x" in text(fragment(alice, code))


def test_an_edit_is_a_diff(alice: Client, empty: Session) -> None:
    record(empty, called("Edit", file_path="a.py", old_string="x = 1\ny = 2\n", new_string="x = 1\ny = 3\n"))
    page = panel(alice, empty)
    shown = re.sub(r"</?span[^>]*>", "", page)
    assert '<del data-n="-"><code>y = 2\n</code></del>' in shown
    assert '<ins data-n="+"><code>y = 3\n</code></ins>' in shown
    assert "a.py" in page


def test_a_command_is_shell_and_a_file_is_code(alice: Client, empty: Session) -> None:
    record(empty, called("Bash", command="for x in 1; do echo $x; done"))
    record(empty, called("Write", file_path="a.py", content="import os\n"))
    assert '<span class="k">for</span>' in panel(alice, empty)
    assert '<span class="kn">import</span>' in panel(alice, empty, 2)


def test_a_step_shows_what_it_cost_and_which_model_answered(alice: Client, empty: Session) -> None:
    usage = {"model": "claude-sonnet-4", "usage": {"input_tokens": 1200, "output_tokens": 34}}
    append(empty.project, empty.pk, [EntryDraft(ModelOutput(text="x"), None, usage)])
    page = shown(alice, empty)
    assert "claude-sonnet-4" in page
    assert "1,200 in · 34 out" in page


def test_a_summary_shows_the_steps_that_it_covers(alice: Client, project: Project, session: Session) -> None:
    add_summary(project, session.pk, (2, 4), SummaryText("looked at three files"))
    for number, covered in ((1, False), (2, True), (4, True), (5, False)):
        page = shown(alice, session, number)
        assert ("Summary of steps 2–4" in page) is covered
        assert ("looked at three files" in page) is covered


def test_a_review_is_shown_with_its_verdict(alice: Client, empty: Session) -> None:
    record(empty, act().body, ok().body, Review(analysis="sloppy", score=0.25, passed=False))
    assert "Review not passed score 0.25 analysis sloppy" in shown(alice, empty)


def test_results_that_answer_no_call_are_counted(alice: Client, empty: Session) -> None:
    stray = ToolResults(results=(ToolResult(tool_call_id="nobody", status="success", outputs="stray"),))
    drafts = [EntryDraft(body) for body in (called("x"), result(), stray)]
    append(empty.project, empty.pk, drafts, lenient=True)
    assert "Its tool call ID is nobody. stray" in shown(alice, empty)


def test_long_output_is_folded_and_opens_to_its_last_character(alice: Client, empty: Session) -> None:
    output = "".join(f"line {number}\n" for number in range(30_000))
    record(empty, called("cat"), result(outputs=output))
    page = panel(alice, empty)
    assert "29,960 more lines" in page
    read = _texts(page)
    while more := re.search(r'class="unfold" href="[^"]*" hx-get="([^"]*)"', page):
        page = html(fragment(alice, unescape(more[1])))
        read += _texts(page)
    assert read == output


def _texts(page: str) -> str:
    return unescape("".join(re.findall(r'<pre class="text"[^>]*>\n(.*?)</pre>', page, re.DOTALL)))


def test_a_fold_is_a_page_of_its_own_without_scripts(alice: Client, empty: Session) -> None:
    record(empty, called("cat"), result(outputs="x\n" * 500))
    more = re.search(r'class="unfold" href="([^"]*)"', panel(alice, empty))
    assert more
    page = html(alice.get(unescape(more[1])))
    assert "<html" in page
    assert page.count("x\n") >= 400


@pytest.mark.parametrize(
    ("key", "start", "status"),
    [
        ("nothing", "0", 404),
        ("result-999999999", "0", 404),
        ("thought", "-5", 200),
        ("thought", "99999", 200),
    ],
)
def test_a_part_that_does_not_exist_is_a_404(
    alice: Client, session: Session, key: str, start: str, status: int
) -> None:
    address = reverse("block", args=[session.pk, 1, key]) + f"?start={start}"
    assert fragment(alice, address).status_code == status


def test_the_raw_entries_are_json(alice: Client, session: Session) -> None:
    raw = unescape(re.sub(r"<[^>]*>", "", html(fragment(alice, reverse("raw", args=[session.pk, 1])))))
    assert '"kind": "model_output"' in raw
    assert '"outputs": "text 1"' in raw


def test_raw_entries_show_every_odd_character_by_its_number(alice: Client, empty: Session) -> None:
    record(empty, ModelOutput(text="\x00 \ud800"))
    raw = text(fragment(alice, reverse("raw", args=[empty.pk, 1])))
    assert r"\u0000 \ud800" in raw


def test_a_step_without_htmx_redirects_to_the_page(alice: Client, session: Session) -> None:
    response = alice.get(reverse("step", args=[session.pk, 4]))
    assert response["Location"] == reverse("session", args=[session.pk]) + "?step=4"


def test_a_step_is_cached_only_for_its_revision(alice: Client, session: Session) -> None:
    address = reverse("step", args=[session.pk, 2])
    assert "max-age" in fragment(alice, f"{address}?revision={session.revision}")["Cache-Control"]
    assert "max-age" not in fragment(alice, f"{address}?revision={session.revision - 1}")["Cache-Control"]
    assert "max-age" not in fragment(alice, address)["Cache-Control"]


def test_an_error_in_a_fragment_is_one_sentence(alice: Client, session: Session) -> None:
    response = fragment(alice, reverse("step", args=[session.pk, 99]))
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/plain")
    assert html(response) == "There is no step 99. Use 1 to 5, or -1 to -5 from the end."


def test_an_agent_without_provider_calls_is_shown_the_same_way(alice: Client, empty: Session) -> None:
    record(empty, ModelOutput(use_tool=UseTool(name="look", arguments={"at": "x"})))
    record(empty, ToolResults(results=(ToolResult(status="success", outputs={"seen": [1, 2]}),)))
    page = shown(alice, empty)
    assert "look at x" in page.replace("Action: ", "")
    assert "seen [2] 0 1 1 2" in page


def test_late_results_after_the_first_are_counted(alice: Client, empty: Session) -> None:
    late = [result(tool_call_id=f"late {n}") for n in range(25)]
    record(empty, called("ls"), *late)
    page = shown(alice, empty)
    assert page.count("Late result") == 20
    assert "5 more late or repeated results" in page


def test_a_result_that_reads_like_a_missing_one_is_shown(alice: Client, empty: Session) -> None:
    record(empty, called("ls"), result(status="error", reason=NO_RESULT))
    assert NO_RESULT in shown(alice, empty)


def test_a_step_shows_the_duration_of_each_part(alice: Client, project: Project, empty: Session) -> None:
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    bodies = (act(), ok(), ask("And now?"), act(), ok())
    seconds = (0, 1, 61, 65, 65.5)
    drafts = [
        draft(each.body, start + timedelta(seconds=at)) for each, at in zip(bodies, seconds, strict=True)
    ]
    append(project, empty.pk, drafts)
    shown = pace(alice, empty, 2)
    assert shown is not None
    assert shown["begins"] == 1000 * (start.timestamp() + 1)
    assert shown["stretches"] == [["pause", 60_000, 2_000], ["model", 4_000, 4_000], ["tools", 500, 500]]
    assert shown["shown"] == 6_500


def test_a_step_without_a_time_has_no_pace(alice: Client, project: Project, empty: Session) -> None:
    append(project, empty.pk, [draft(each.body, UNDATED) for each in (act(), ok())])
    assert pace(alice, empty, 1) is None


def test_a_step_says_how_long_it_waited_for_approval(alice: Client, empty: Session) -> None:
    arguments = {"cmd": "git push", "sandbox_permissions": "require_escalated"}
    call = ModelOutput(tool_calls=(ToolCall(id="1", name="exec_command", arguments=arguments),))
    outputs = "Wall time: 2.0000 seconds\nProcess exited with code 0\nOutput:\n"
    result = ToolResults(results=(ToolResult(tool_call_id="1", status="success", outputs=outputs),))
    start = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    drafts = [EntryDraft(call, start), EntryDraft(result, start + timedelta(seconds=62))]
    append(empty.project, empty.pk, drafts)
    assert "1 min 2 s, including 1 min 0 s waiting for a person" in shown(alice, empty)


@pytest.mark.parametrize(
    ("outputs", "heading"), [("a.md", "ls"), ("cd: docs: No such file or directory", "cd docs && ls")]
)
def test_the_heading_of_a_failed_step_has_the_whole_command(
    alice: Client, empty: Session, outputs: str, heading: str
) -> None:
    record(empty, called("Bash", command="cd docs && ls"), result(outputs=outputs))
    assert f'dir="auto">{heading}</b>' in unescape(panel(alice, empty))

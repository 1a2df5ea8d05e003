"""The HTML replay contains the whole session, and text of an agent is never markup."""

import base64
import hashlib
import json
import re
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given

from historyapp.core.actions import from_exception
from historyapp.core.entries import (
    DebugLog,
    Entry,
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
from historyapp.core.exporters import html_replay
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.html_replay import HTML_REPLAY, MAX_HEAD, MAX_IMAGE, MAX_TAIL
from tests.core.entries import LIVE, START, TEXT, calls, entry, result, session

HOSTILE = "</script><script>alert(1)</script><!--<script><img src=x onerror=alert(1)>\"'&\u2028\ud800\0"
PNG = "iVBORw0KGgo="


class Page(HTMLParser):
    """The elements of a file and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:  # a script or a style
            at = len(self.elements) - 1
            self.texts[at] = self.texts.get(at, "") + data

    def blocks(self) -> list[tuple[list[Any], dict[str, Any]]]:
        """The row and the content of each step."""
        data_blocks = [(at, attrs) for at, (_, attrs) in enumerate(self.elements) if "data-row" in attrs]
        return [
            (json.loads(attrs["data-row"] or ""), json.loads(self.texts[at])) for at, attrs in data_blocks
        ]


def written(entries: list[Entry], **fields: Any) -> str:
    return "".join(HTML_REPLAY.write(ExportSession("0b1c", entries, **fields)))


def steps_of(*bodies: Any) -> list[tuple[list[Any], dict[str, Any]]]:
    return Page(written(session(*bodies))).blocks()


def shell(command: str, id: str = "a") -> ModelOutput:
    return ModelOutput(tool_calls=(ToolCall(id=id, name="bash", arguments={"command": command}),))


EMPTY = Page(written([]))
"""Texts that every file contains."""


def test_a_step_takes_until_its_last_result_and_is_shown_until_the_next_step() -> None:
    entries = session(shell("ls"), result("a", "here"), ModelOutput(text="Done."))
    timed = [
        each._replace(created_at=START + timedelta(seconds=at))
        for each, at in zip(entries, (0, 2, 9), strict=True)
    ]
    (first, _), (last, _) = Page(written(timed)).blocks()
    assert (first[6], first[4], last[6]) == (2_000, 9_000, None)


def test_the_time_of_a_step_is_not_rounded_twice() -> None:
    entries = session(shell("ls"), result("a", "here"))
    timed = [
        each._replace(created_at=START + timedelta(microseconds=at))
        for each, at in zip(entries, (400, 12_900), strict=True)
    ]
    ((row, _),) = Page(written(timed)).blocks()
    assert row[6] == 12  # the times of both entries, rounded: 13


def test_rows_are_titled_as_on_the_page_of_the_session() -> None:
    arguments = {"file_path": "/srv/source/shop/parser.py", "old_string": "a", "new_string": "b\nc"}
    blocks = steps_of(
        ModelOutput(tool_calls=(ToolCall(id="a", name="run_tests", arguments={}),)),
        result("a", "ok"),
        ModelOutput(tool_calls=(ToolCall(id="b", name="Edit", arguments=arguments),)),
        result("b", "The file /srv/source/shop/parser.py has been updated."),
        ModelOutput(text="Done."),
    )
    rows = [row[:3] for row, _ in blocks]
    assert rows == [
        ["other", "run_tests", "ok"],
        ["edit", "…/shop/parser.py", "+2 −1"],
        ["answer", "Done.", ""],
    ]


def test_a_step_has_its_calls_results_and_inputs() -> None:
    blocks = steps_of(
        SystemInstruction(text="Be brief."),
        MemoryNotebook(content="It is red."),
        ModelInput(content="hi"),
        shell("ls"),
        result("a", "here"),
        Review(analysis="good", score=0.5, passed=True),
        DebugLog(category="x", message="secret"),
        ModelInput(channel="cron", content="tick"),
        ModelOutput(thoughts="so", use_tool=UseTool(name="look", arguments={"at": 1})),
        result(None, None, status="interrupted_by_human", feedback="wait"),
        ModelOutput(text="Done."),
        ModelInput(content="thanks"),
    )
    (row, first), (_, second), (_, third) = blocks
    assert [element["heading"] for element in first["before"]] == ["instruction", "notebook", "user"]
    assert (row[:4], row[5]) == (["shell", "ls", "here", "success"], True)
    assert first["calls"][0]["command"] == "ls"
    assert first["calls"][0]["results"][0]["parts"] == ["here"]
    assert first["remarks"][0]["parts"] == ["passed · score 0.5\ngood"]
    assert second["before"][0] | {"time": 0} == {"heading": "cron", "time": 0, "parts": ["tick"]}
    assert second["calls"][0]["fields"] == [["at", "1"]]
    assert "wait" in second["calls"][0]["results"][0]["parts"][0]
    assert (third["answer"], third["after"][0]["parts"]) == (["Done."], ["thanks"])
    assert "secret" not in json.dumps(blocks)


def test_failures_are_marked_as_reported_or_likely() -> None:
    bad = ToolResults(results=(ToolResult(tool_call_id="a", status="error", reason="no such file"),))
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no'
    blocks = steps_of(
        shell("cat x"), bad, shell("python a.py"), result("a", traceback), shell("sleep 9"), shell("ls")
    )
    assert [row[3] for row, _ in blocks] == ["error", "likely", "abandoned", "in_flight"]
    assert "no such file" in blocks[0][0][2]
    assert "ValueError" in blocks[1][0][2]


def test_the_exception_of_a_failure_is_shown_below_its_reason() -> None:
    error = from_exception(OSError(2, "gone"))
    bad = ToolResult(tool_call_id="a", status="error", reason="no such file", error=error)
    ((_, step),) = steps_of(shell("cat x"), ToolResults(results=(bad,)))
    (shown,) = step["calls"][0]["results"]
    assert shown["parts"] == ["no such file"]
    assert shown["more"] == [{"heading": "FileNotFoundError", "parts": ["FileNotFoundError(2, 'gone')"]}]


def test_results_are_shown_with_their_calls() -> None:
    late = result("x", "too late")
    ((_, step),) = steps_of(calls("a", "b"), result("b", "second"), result("a", "first"), late)
    assert [call["results"][0]["parts"] for call in step["calls"]] == [["first"], ["second"]]
    assert step["late"][0]["parts"] == ["too late"]


def test_a_session_without_steps_shows_its_inputs() -> None:
    ((row, content),) = steps_of(ModelInput(content="hi"))
    assert (row[1], content["before"][0]["parts"]) == ("Before the first step", ["hi"])
    assert EMPTY.blocks() == []


def test_a_long_text_keeps_both_ends_and_says_how_much_is_missing() -> None:
    text = "a" * MAX_HEAD + "b" * 5_000_000 + "c" * MAX_TAIL
    ((_, step),) = steps_of(shell("x"), result("a", text))
    assert step["calls"][0]["results"][0]["parts"] == [
        {"head": "a" * MAX_HEAD, "cut": 5_000_000, "tail": "c" * MAX_TAIL}
    ]
    kept = "d" * (MAX_HEAD + MAX_TAIL)
    assert steps_of(ModelOutput(text=kept))[0][1]["answer"] == [kept]


def test_images_are_kept_unless_they_are_large_or_invalid() -> None:
    def image(data: str) -> dict[str, str]:
        return {"type": "image", "media_type": "image/png", "data": data}

    parts = [
        image(PNG), image("A" * (MAX_IMAGE + 4)), image('x" onerror="alert(1)'),
        {"type": "image", "media_type": "image/svg+xml", "data": PNG[:-1] + "A"},
        {"type": "image", "url": "https://example.com/a.png"},
    ]  # fmt: skip
    ((_, step),) = steps_of(shell("x"), result("a", parts))
    kept, large, *others = step["calls"][0]["results"][0]["parts"]
    assert kept == {"image": f"data:image/png;base64,{PNG}"}
    assert "which this file leaves out" in large
    assert all(isinstance(other, str) or "svg" not in json.dumps(other) for other in others)


def test_images_of_very_many_pixels_are_named_and_not_kept() -> None:
    part = {"type": "image", "media_type": "image/gif", "data": "R0lGODlh/////wAAACw="}
    ((_, step),) = steps_of(shell("x"), result("a", [part]))
    (text,) = step["calls"][0]["results"][0]["parts"]
    assert text.startswith("[This image has 65,535 × 65,535 pixels.")


def test_the_images_of_a_step_have_a_limit_together() -> None:
    """A browser decodes those in view at once: 60 images of 8,000 x 2,000 pixels stopped one for 5 s."""
    size = (4_000).to_bytes(4, "big") * 2
    data = b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size).decode()
    part = {"type": "image", "media_type": "image/png", "data": data}
    steps = steps_of(shell("x"), result("a", [part] * 3), shell("y"), result("a", [part] * 6))
    shown = [step["calls"][0]["results"][0]["parts"] for _, step in steps]
    assert [[isinstance(one, dict) for one in parts] for parts in shown] == [
        [True] * 3,
        [True] * 4 + [False] * 2,
    ]
    assert "with those before it" in shown[1][-1]


def test_the_policy_allows_the_scripts_and_styles_of_the_file_and_nothing_else() -> None:
    (policy,) = (attrs["content"] for tag, attrs in EMPTY.elements if attrs.get("http-equiv"))
    assert policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    inline = [EMPTY.texts[at] for at, (tag, _) in enumerate(EMPTY.elements) if tag in ("script", "style")]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline}
    assert set(re.findall("sha256-([^']+)'", policy)) == hashes
    assert len(hashes) == 2


def test_the_file_has_no_external_references() -> None:
    for tag, attrs in EMPTY.elements:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            assert (attrs.get(name) or "#").startswith("#"), (tag, attrs)
        assert not [name for name in attrs if name.startswith("on") or name == "style"]
    styles = "".join(EMPTY.texts[at] for at, (tag, _) in enumerate(EMPTY.elements) if tag == "style")
    assert not re.search(r"url\(|@import|@font-face", styles)


MARKUP = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch(")


def test_the_script_never_parses_texts_as_markup() -> None:
    (script,) = (EMPTY.texts[at] for at, (tag, _) in enumerate(EMPTY.elements) if tag == "script")
    assert [name for name in MARKUP if name in script] == []


@given(LIVE, TEXT)
def test_text_of_agents_is_never_markup(entries: list[Entry], title: str) -> None:
    text = written(entries, title=title + HOSTILE, agent=HOSTILE, model="<b>", tags=(HOSTILE,))
    text.encode()
    page = Page(text)
    shown = [element for element in page.elements if "data-row" not in element[1]]
    facts = [element for element in shown if element[0] not in ("span", "bdi", "meta")]
    assert facts == [element for element in EMPTY.elements if element[0] not in ("span", "bdi", "meta")]
    outputs = sum(isinstance(element.body, ModelOutput) for element in entries)
    assert [content["number"] for _, content in page.blocks() if content["number"]] == [
        *range(1, outputs + 1)
    ]


@pytest.mark.parametrize("place", ["input", "thought", "answer", "tool", "argument", "command", "result"])
def test_hostile_text_is_shown_as_text(place: str) -> None:
    at = dict.fromkeys(("input", "thought", "answer", "tool", "argument", "command", "result"), "x")
    at[place] = HOSTILE
    arguments = {"command": at["command"], at["argument"]: at["argument"]}
    call = ToolCall(id="a", name=at["tool"], arguments=arguments)
    text = written(session(
        ModelInput(content=at["input"]),
        ModelOutput(thoughts=at["thought"], text=at["answer"], tool_calls=(call,)),
        result("a", at["result"]),
    ))  # fmt: skip
    ((_, step),) = Page(text).blocks()
    assert "onerror" in json.dumps(step)
    assert text.count("<script") == written([]).count("<script") + 1
    assert "<img" not in text


def many(steps: int) -> Iterator[Entry]:
    for number in range(steps):
        yield entry(2 * number + 1, shell(f"cat {number}"))
        yield entry(2 * number + 2, result("a", "x" * 5000))


def test_memory_does_not_grow_with_the_session() -> None:
    def peak(steps: int) -> int:
        tracemalloc.start()
        size = sum(map(len, HTML_REPLAY.write(ExportSession("0b1c", many(steps)))))
        assert size > steps * 5000
        return tracemalloc.get_traced_memory()[1]

    peak(10)  # reads the static files
    tracemalloc.stop()
    few = peak(100)
    tracemalloc.stop()
    assert peak(400) < few + 60_000
    tracemalloc.stop()


def with_emoji() -> dict[str, str]:
    """A part that takes 40,000 bytes in memory."""
    return {"type": "text", "text": "\N{GRINNING FACE}" + "".join(["a"] * 9_999)}


@pytest.mark.parametrize("first", [[], [shell("x"), result("a", "y")]])
def test_inputs_between_steps_take_little_memory_and_the_file_says_how_many_are_left_out(
    monkeypatch: pytest.MonkeyPatch, first: list[Any]
) -> None:
    monkeypatch.setattr(html_replay, "MAX_INPUTS", 500_000)

    def entries() -> Iterator[Entry]:
        bodies = [*first, *[ModelInput(content=[]) for _ in range(40)]]
        for place, body in enumerate(bodies, start=1):
            is_input = isinstance(body, ModelInput)
            parts = [with_emoji() for _ in range(5)]
            yield entry(place, ModelInput(content=parts) if is_input else body)

    content = Page("".join(HTML_REPLAY.write(ExportSession("0b1c", entries())))).blocks()[-1][1]
    tracemalloc.start()
    longest = max(len(text) for text in HTML_REPLAY.write(ExportSession("0b1c", entries())))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if not first:  # a step is limited by long_steps
        assert peak < 3_000_000
    assert longest < 250_000, "JSON is written one text at a time"
    shown = content["after" if first else "before"]
    assert [len(item["parts"]) for item in shown] == [5, 5, 3, 1]
    assert shown[2]["parts"][-1] == "[3 more parts, which this file leaves out]"
    assert shown[-1]["parts"][0].startswith("[37 more inputs are left out here")


def test_a_blank_result_without_a_call_is_not_left_out() -> None:
    blank = ToolResults(results=(ToolResult(status="success", outputs=[{"type": "text", "text": " "}]),))
    ((_, step),) = steps_of(blank, shell("x"))
    assert step["before"] == [{"heading": "result without a call", "parts": []}]


def test_a_step_begins_a_turn_also_if_the_input_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_replay, "MAX_INPUTS", 5_000)
    ((row, _),) = steps_of(
        ModelInput(channel="cron", content="x" * 9_000), ModelInput(content="hi"), shell("x")
    )
    assert row[5] is True


def test_rows_have_no_colours_of_terminals() -> None:
    reason = "\x1b[31mfailed\x1b[39m: \x1b[1mno such file\x1b[22m"
    ((row, _),) = steps_of(shell("x"), result("a", None, status="error", reason=reason))
    assert row[2] == "failed: no such file"


def test_a_command_that_the_model_answers_begins_a_turn() -> None:
    command = ModelInput(channel="command", content="<command-message>review</command-message>")
    (_, (row, _)) = steps_of(ModelInput(content="hi"), shell("x"), command, shell("y"))
    assert row[5] is True


def test_unknown_times_are_left_out() -> None:
    assert "started 2026-01-01" in written([], created_at=START)
    ((row, step),) = steps_of(ModelOutput(text="x"))
    assert row[4] is None
    assert step["time"] == round(START.timestamp() * 1000)


def test_text_of_people_is_left_out_on_request() -> None:
    asked = ToolResult(tool_call_id="c1", status="success", outputs="my secret answer")
    stopped = ToolResult(tool_call_id="c2", status="interrupted_by_human", feedback="secret: stop")
    ls = ToolCall(id="c2", name="ls", arguments={"path": "shown"})
    entries = session(
        SystemInstruction(text="secret instruction"),
        ModelInput(content="secret input"),
        ModelOutput(tool_calls=(ToolCall(id="c1", name="ask_user", arguments={"question": "what?"}), ls)),
        ToolResults(results=(asked, stopped), overall="fine"),
        Review(analysis="secret review"),
        ModelInput(content="secret last input"),
    )
    fields: dict[str, Any] = {"title": "secret title", "tags": ("secret tag",)}
    assert written(entries, **fields).count("secret") > 7
    file = written(entries, **fields, hides_inputs=True)
    assert "secret" not in file
    assert "<h1><bdi>Session with a hidden title</bdi></h1>" in file
    assert "<span><bdi>Text that people wrote is hidden.</bdi></span>" in file
    [(_, step)] = Page(file).blocks()
    assert [tool_call["name"] for tool_call in step["calls"]] == ["ask_user", "ls"]
    assert step["calls"][0]["results"][0]["parts"] == ["Text that people wrote is hidden."]

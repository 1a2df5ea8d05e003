"""Every tool view shows the whole content of its calls."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.rendering.blocks import DIFF, MATCHES, Block, Folder
from dashboard.rendering.text import visible
from dashboard.tools import TOOL_VIEWS, draw_call, view_of
from dashboard.tools.base import CallBlocks, Card, RecordedCall, ToolView
from historyapp.core.entries import ToolResult
from tests.dashboard.tools.samples import SAMPLES

APPLIED = "*** Begin Patch\n*** Update File: a.py"
each = pytest.mark.parametrize("view", TOOL_VIEWS.values(), ids=TOOL_VIEWS)
HOSTILE = "</pre></table><script>alert(1)</script><img src=x onerror=alert(1)>\x1b]0;x\x07\u202e\ud800"
NAMES = "a|b|blockquote|br|code|del|details|div|em|h[456]|hr|i|ins|li|ol|p|pre|s|span|strong|summary"
ATTRIBUTES = '(?:class|data-n|dir|colspan|scope|rel|start)="[^"<>]*"|href="https?://[^"<>]*"|open'
TAGS = f"</?(?:{NAMES}|table|tbody|td|th|thead|tr|ul)(?: (?:{ATTRIBUTES}))*>"
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=8,
)
lines = st.sampled_from(
    ["@@ -1,2 +3 @@", "--- a/x", "+++ b/x", "+a", "-b", " c", "*** Begin Patch", "*** Add File: x", "\r", "",
     "*** End Patch", "  7→x", "8:y", "a.py:3:z", "a-4-z", "<returncode>1</returncode>", "Output:"]
)  # fmt: skip
texts = st.lists(lines | anything, max_size=12).map("\n".join)


def drawn(call: RecordedCall, view: ToolView | None = None) -> tuple[Card, dict[str, Block]]:
    folder = Folder()
    make = CallBlocks(folder, 3)
    return (view.draw(call, make) if view else draw_call(call, make)), folder.blocks


def everything(card: Card, blocks: dict[str, Block]) -> str:
    """All texts of a card, including those that are loaded on demand."""
    words = [card.title, card.badge, *card.facts]
    for value in card.values:
        words += [value.label, value.text]
    for block in blocks.values():
        words += [block.label, block.text, block.html]
    return "\n".join(words)


def replaced(value: Any, text: str) -> Any:
    """The value with this text at the end of every text in it."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, list):
        return [replaced(item, text) for item in value]
    return {key: replaced(item, text) for key, item in value.items()} if isinstance(value, dict) else value


def words_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from re.findall(r"[A-Za-z]{3,}", value)
    elif isinstance(value, dict):
        yield from (word for item in value.values() for word in words_in(item))
    elif isinstance(value, list):
        yield from (word for item in value for word in words_in(item))


@each
def test_the_file_of_a_view_has_its_name(view: ToolView) -> None:
    folder = Path(__file__).parents[3] / "dashboard" / "tools"
    assert (folder / f"{view.name}.py").is_file()


@each
def test_a_view_is_chosen_for_its_samples(view: ToolView) -> None:
    assert {view_of(call).name for call in SAMPLES[view.name]} == {view.name}


@each
def test_a_view_shows_every_argument_and_every_text_of_the_result(view: ToolView) -> None:
    marks = (
        "bash create insert view Exit code Output Wall time seconds output returncode Begin Patch End Update"
        " File Add system reminder apply patch index diff git completed pending progress type exit web"
        " search result text image add broken"
    )
    for call in SAMPLES[view.name]:
        card, blocks = drawn(call)
        shown = everything(card, blocks)
        returned = call.outputs
        expected = {*words_in(call.arguments), *words_in(returned)} - {*marks.split()}
        assert [word for word in expected if word not in shown] == [], call.name


@each
def test_hostile_text_is_escaped(view: ToolView) -> None:
    for call in SAMPLES[view.name]:
        result = call.result and call.result.model_copy(
            update={"outputs": replaced(call.outputs, HOSTILE), "reason": HOSTILE}
        )
        hostile = RecordedCall(call.name + HOSTILE, replaced(call.arguments, HOSTILE), result)
        for chosen in (view, view_of(hostile)):
            if chosen.fits(hostile):
                for html in pages(drawn(hostile, chosen)[1]):
                    assert "<" not in re.sub(TAGS, "", html), (call.name, html)


def pages(blocks: dict[str, Block]) -> Iterator[str]:
    """The HTML of each block, of diffs in both views. Checks that it can be encoded."""
    for block in blocks.values():
        for shown in (block, block.split) if block.is_diff else (block,):
            shown.html.encode()
            yield shown.html


@each
def test_keys_are_unique_and_lead_to_the_page_of_the_call(view: ToolView) -> None:
    for call in SAMPLES[view.name]:
        for key in drawn(call)[1]:
            assert re.fullmatch(r"(?:call|result)-3(?:-[-a-z0-9]+)?", key)


@each
@given(call=st.data())
def test_a_view_draws_its_samples_with_any_value_replaced(view: ToolView, call: st.DataObject) -> None:
    sample = call.draw(st.sampled_from(SAMPLES[view.name]))
    arguments, outputs = sample.arguments, sample.outputs
    if isinstance(arguments, dict) and arguments:
        arguments = arguments | {call.draw(st.sampled_from([*arguments])): call.draw(values | texts)}
    if sample.result:
        result = sample.result.model_copy(update={"outputs": call.draw(values | texts | st.just(outputs))})
        sample = RecordedCall(sample.name, arguments, result)
    _, blocks = drawn(sample)
    assert all("<script" not in html for html in pages(blocks))


PATCH = "*** Begin Patch"
"""A text that begins like this is shown as the changes of its files."""


@given(st.sampled_from(["bash", "Edit", "x", "mcp__a__b"]), values | texts, values | texts)
@example("bash", f"{PATCH}\n*** Add File: x", None)
def test_any_call_has_a_view(name: str, arguments: Any, outputs: Any) -> None:
    call = RecordedCall(name, arguments, SAMPLES["default"][0].result)
    card, blocks = drawn(call)
    assert len(blocks) == len(set(blocks))
    assert json.dumps(card.title)
    if isinstance(arguments, str) and arguments.strip() and not arguments.startswith(PATCH):
        assert visible(arguments.strip().split()[0])[:50] in visible(everything(card, blocks))


def test_a_recorded_diff_replaces_the_arguments_that_it_shows_and_gives_other_edits_their_lines() -> None:
    write, short, other = (sample for sample in SAMPLES["edit"] if sample.diff)
    assert [block.text for block in drawn(write)[0].request] == [write.diff, "y\nz"]
    assert [block.text for block in drawn(short)[0].request] == [write.diff]
    assert [block.text for block in drawn(other)[0].request] == ["-b\n+c"]
    edit = {"file_path": "a.py", "old_string": "far above\na\nx", "new_string": "far above\na\ny"}
    long = RecordedCall("Edit", edit, write.result, write.diff)
    assert drawn(long)[0].request[0].text == "@@ -2,3 +2,3 @@\n far above\n a\n-x\n+y"
    part = RecordedCall("Edit", {**edit, "old_string": "", "new_string": "y"}, write.result, "+many words")
    assert drawn(part)[0].request[0].text == "+y", "only a part of a line"
    texts = {name: edit[name] for name in ("old_string", "new_string")}
    twice = RecordedCall(
        "MultiEdit", {"file_path": "a.py", "edits": [texts, texts]}, write.result, write.diff
    )
    first, second = drawn(twice)[0].request
    assert first.text.startswith("@@ -2,3 +2,3 @@\n")
    assert second.text == " far above\n a\n-x\n+y", "only one edit is at the first place of the diff"
    above = {name: f"1\n2\n3\n4\n5\n{value}" for name, value in texts.items()}
    early = RecordedCall("Edit", {"file_path": "a.py", **above}, write.result, write.diff)
    assert drawn(early)[0].request[0].text.startswith(" 1\n"), "no lines before the first one"


def test_a_long_result_is_folded_unless_it_looks_like_a_failure() -> None:
    call = {"old_string": "a", "new_string": "b", "file_path": "a.py"}
    refusal = "Your proposed edit has introduced new syntax error(s).\n" + 500 * "x"
    for outputs, is_folded in ((500 * "x", True), (refusal, False)):
        result = ToolResult(tool_call_id="1", status="success", outputs=outputs)
        card = draw_call(RecordedCall("edit", call, result), CallBlocks(Folder(), 0))
        assert [block.label for block in card.response] == ["Tool result" if is_folded else ""]


def test_matches_that_look_like_a_failure_are_shown_as_any_others() -> None:
    """A search for errors finds lines that begin like one."""
    for outputs in ("Failed to open the file\n", "Error: no such file\nError: again\n", "a.py:3:x\n"):
        result = ToolResult(tool_call_id="1", status="success", outputs=outputs)
        card = draw_call(RecordedCall("Grep", {"pattern": "x"}, result), CallBlocks(Folder(), 0))
        assert [block.language for block in card.response] == [MATCHES]


@pytest.mark.parametrize("call", [("submit", {}), ("bash", {"command": "submit"})], ids=lambda call: call[0])
@pytest.mark.parametrize("head", ["diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py", APPLIED])
def test_a_diff_after_a_blank_line_is_shown_as_one(call: tuple[str, Any], head: str) -> None:
    diff = f"\n{head}\n@@ -1 +1 @@\n-a\n+b\n"
    result = ToolResult(tool_call_id="1", status="success", outputs=diff)
    card = draw_call(RecordedCall(*call, result), CallBlocks(Folder(), 0))
    assert [block.language for block in card.response] == [DIFF]


def test_an_edit_of_the_open_file_is_about_the_file_that_its_result_shows() -> None:
    shown = "File updated. Review it.\n[File: /testbed/src/a.py (9 lines total)]\n1:x"
    result = ToolResult(tool_call_id="1", status="success", outputs=shown)
    for call in ("edit", {"replacement_text": "x"}), ("shell", {"command": "edit 1:1\nx\nend_of_edit"}):
        assert RecordedCall(*call, result).subject.target == "/testbed/src/a.py"
    named = RecordedCall("Edit", {"file_path": "b.py", "old_string": "a", "new_string": "b"}, result)
    assert named.subject.files == ("b.py",)
    assert RecordedCall("edit", {"replacement_text": "x"}).subject.target == ""

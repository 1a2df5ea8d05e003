from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from historyapp.core.entries import (
    DebugLog,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    Thoughts,
    ToolCall,
    UseTool,
)
from historyapp.core.exporters.base import ExportSession, ExportSummary
from historyapp.core.exporters.markdown import MARKDOWN
from historyapp.core.text import clean
from tests.core.entries import LIVE, START, TEXT, calls, result, session


def written(entries: list[Entry], **fields: Any) -> str:
    return "".join(MARKDOWN.write(ExportSession("0b1c", entries, **fields)))


def blocks(text: str, kind: str) -> list[str]:
    """The visible text of each Markdown token of one kind."""
    return [token.content for token in MarkdownIt().parse(text) if token.type == kind]


def headings(text: str) -> list[str]:
    tokens = MarkdownIt().parse(text)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]


def test_an_instruction_that_only_adds_text_does_not_repeat_the_rest() -> None:
    texts = ("Be brief.", "Be brief.\n\nTest first.", "Be brief.\n\nTest first.", "Be long.", "Be lon")
    text = written(session(*(SystemInstruction(text=text) for text in texts)))
    assert headings(text) == [
        "Session", "Instruction", "Addition to the instruction", "Instruction", "Instruction",
    ]  # fmt: skip
    shown = [block.rstrip("\n") for block in blocks(text, "fence")]
    assert shown == ["Be brief.", "Test first.", "Be long.", "Be lon"]


def test_a_session_reads_from_top_to_bottom() -> None:
    entries = session(
        SystemInstruction(text="Be brief."),
        MemoryNotebook(content="It is red."),
        ModelInput(content="hi"),
        ModelOutput(
            thoughts=Thoughts(summary="hm"), tool_calls=(ToolCall(id="a", name="look", arguments={"at": 1}),)
        ),
        result("a", "here", tool_name="look"),
        ModelOutput(thoughts="so", use_tool=UseTool(name="ls")),
        result(None, None, status="interrupted_by_human", feedback="wait", tool_name="ls"),
        Review(analysis="good"),
        ModelOutput(text="Done."),
    )
    text = written(entries)
    assert headings(text) == [
        "Session", "Instruction", "Notebook", "Input from user", "Step 1", "Step 2", "Step 3",
    ]  # fmt: skip
    assert [block.rstrip("\n") for block in blocks(text, "fence")] == [
        "Be brief.", "It is red.", "hi", "hm", '{"at":1}', "here", "so", "{}",
        'The user interrupted the action with the following feedback: "wait"', "good", "Done.",
    ]  # fmt: skip
    assert "**Result** of `ls`: interrupted by a person" in text


def test_the_header_describes_the_session() -> None:
    text = written([], title="Fix it", agent="coder", model="gpt-4o", tags=("a", "b"), created_at=START)
    assert headings(text) == ["Fix it"]
    for fact in ("coder", "gpt-4o", "a, b", "2026-", "0b1c"):
        assert fact in text


def test_the_start_of_a_session_is_the_time_of_its_first_entry() -> None:
    entries = session(ModelInput(content="hi"))
    imported = entries[0].created_at + timedelta(days=99)
    assert f"Started: {entries[0].created_at.isoformat(' ', 'seconds')}" in written(
        entries, created_at=imported
    )


def test_summaries_follow_and_logs_are_counted() -> None:
    entries = session(DebugLog(category="x", message="secret"))
    text = written(entries, summaries=[ExportSummary(1, 4, "it went well")])
    assert headings(text) == ["Session", "Summaries"]
    assert "it went well" in text
    assert "secret" not in text
    assert "*1 log entry is not shown.*" in text


@given(LIVE, TEXT)
def test_text_of_agents_is_never_read_as_markdown(entries: list[Entry], title: str) -> None:
    text = written(entries, title=title, agent="# x <b>", model="`", tags=("[a](javascript:b)",))
    text.encode()
    steps = sum(isinstance(entry.body, ModelOutput) for entry in entries)
    assert [heading for heading in headings(text) if heading.startswith("Step")] == [
        f"Step {number}" for number in range(1, steps + 1)
    ]
    kinds = {token.type for token in MarkdownIt("commonmark").parse(text)}
    assert kinds <= {
        "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "fence",
        "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
    }  # fmt: skip
    inline = [child.type for token in MarkdownIt("commonmark").parse(text) for child in token.children or ()]
    assert set(inline) <= {
        "text",
        "text_special",
        "strong_open",
        "strong_close",
        "em_open",
        "em_close",
        "code_inline",
    }


MARKS = st.text("\\\\`*_{}[]()#+-.!<>&|~:/@$^=\"' \taé1w;", max_size=12)


@given(TEXT | MARKS, TEXT | MARKS, MARKS)
def test_names_read_as_they_are_written(title: str, agent: str, tag: str) -> None:
    for parser in (MarkdownIt("commonmark"), MarkdownIt("js-default")):
        tokens = parser.parse(written([], title=title, agent=agent, tags=(tag,)))
        inline = [token.children or [] for token in tokens if token.type == "inline"]
        assert {child.type for children in inline for child in children} <= {"text", "text_special"}
        shown = ["".join(child.content for child in children) for children in inline]
        facts = {"Agent": plain(agent), "Tags": plain(tag), "Session": "0b1c"}
        assert shown == [
            plain(title) or "Session",
            *(f"{name}: {value}" for name, value in facts.items() if value),
        ]


@pytest.mark.parametrize("text", ["*" * 100_000, "a " * 100_000])
def test_long_names_are_cut(text: str) -> None:
    """The marks of a name are escaped one by one, and its words are listed."""
    entries = [
        Entry(1, ModelInput(channel=text, content="x"), START, {}, 1),
        Entry(2, ModelOutput(tool_calls=(ToolCall(id="1", name=text, arguments={}),)), START, {}, 1),
    ]
    lines = written(entries, title=text, agent=text).splitlines()
    assert [len(line) for line in lines if len(line) > 2_100] == []
    assert sum(line.endswith(("…", "…`")) for line in lines) == 4


def plain(text: str) -> str:
    return " ".join(clean(text).split())


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21",
        "snake_case.py",
        "a < b && c > d",
        "C# (2)",
        "50% + 1!",
        "~no",
        "Fix the parser's [x]: `y`",
    ],
)
def test_only_marks_with_a_meaning_are_escaped(text: str) -> None:
    line = written([], title=text).splitlines()[0]
    assert line.count("\\") == sum(text.count(mark) for mark in "~[`")


@pytest.mark.parametrize("text", ["https://evil.test", "www.evil.test", "me@evil.test"])
def test_addresses_do_not_become_links(text: str) -> None:
    assert text not in written([], title=text)


@given(TEXT, TEXT)
def test_the_text_of_a_block_is_what_the_agent_wrote(content: str, name: str) -> None:
    hostile = f"{content}\n```\n# {content}\n<script>\n````"
    [shown] = blocks(written(session(ModelInput(content=hostile), calls(name=name))), "fence")
    assert "<script>\n````" in shown
    assert shown.count("\n") >= 5

"""A session as Markdown for people: steps with their numbers, and texts of agents in code blocks."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from historyapp.core.content import plain_text
from historyapp.core.dates import known_time
from historyapp.core.entries import (
    DebugLog,
    Entry,
    MemoryNotebook,
    ModelInput,
    ModelOutput,
    Review,
    SystemInstruction,
    ToolResults,
)
from historyapp.core.excerpts import one_line
from historyapp.core.exporters.base import ExportSession
from historyapp.core.json import dump_json
from historyapp.core.results import NO_OUTPUT, returned_text
from historyapp.core.text import clean, fenced, most_backticks

_MARKUP = re.compile(
    r"""[`*~\[]                                   # code, emphasis, strikethrough, links
    | \\(?=[!-/:-@\[-`{-~]|$)                   # a backslash that would escape
    | (?<![^\W_])_+ | _+(?![^\W_])              # emphasis, but within a word
    | <(?=[A-Za-z/!?]) | &(?=[#A-Za-z])         # HTML
    | :(?=//) | (?<=www)\. | (?<=\w)@           # addresses that some viewers turn into links
    | (?:(?<=\s)|^)\#(?=\#*$)                   # the closing marks of a heading
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAX_LINE = 1000
"""Characters of a name. Its marks are escaped one by one, and a name may have millions of them."""
_STATUS = {"interrupted_by_human": "interrupted by a person"}


class _Markdown:
    name = "markdown"
    title = "Markdown"
    media_type = "text/markdown"
    suffix = ".md"
    live_only = True
    can_hide_inputs = False
    whole_steps = False

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        entries = iter(session.entries)
        first = next(entries, None)
        yield _header(session, known_time(first.created_at if first else session.created_at))
        step = logs = 0
        instruction = ""
        for entry in chain(filter(None, [first]), entries):
            step += isinstance(entry.body, ModelOutput)
            logs += isinstance(entry.body, DebugLog)
            if isinstance(entry.body, SystemInstruction):
                yield clean(_instruction(entry.body.text, instruction))
                instruction = entry.body.text
            else:
                yield from map(clean, _entry(entry, step))
        for number, summary in enumerate(session.summaries):
            span = f"{summary.first_position} to {summary.last_position}"
            text = f"Entries {span} ({_line(summary.strategy)}):\n\n{_block(summary.text)}"
            yield ("## Summaries\n\n" if number == 0 else "") + clean(text)
        if logs:
            yield f"*{logs} log {'entry is' if logs == 1 else 'entries are'} not shown.*\n"


MARKDOWN = _Markdown()


def _header(session: ExportSession, started: datetime | None) -> str:
    facts = {
        "Agent": session.agent,
        "Model": session.model,
        "Tags": ", ".join(session.tags),
        "Started": started.isoformat(" ", "seconds") if started else "",
        "Session": session.id,
        "Sub-agent of": session.spawned_by or "",
    }
    lines = [f"- {name}: {line}" for name, value in facts.items() if (line := _line(value))]
    return f"# {_line(session.title) or 'Session'}\n\n" + "\n".join(lines) + "\n\n"


def _instruction(text: str, previous: str) -> str:
    """An instruction. If it only adds text to the previous one, as Codex does several times: what it adds."""
    if not previous or not text.startswith(previous):
        return f"## Instruction\n\n{_block(text)}"
    added = text[len(previous) :].strip("\n")
    return f"## Addition to the instruction\n\n{_block(added)}" if added else ""


def _entry(entry: Entry, step: int) -> Iterator[str]:
    match entry.body:
        case MemoryNotebook(content=text):
            yield f"## Notebook\n\n{_block(text)}"
        case ModelInput(channel=channel, content=content):
            yield f"## Input from {_line(channel)}\n\n{_block(plain_text(content))}"
        case ModelOutput() as output:
            yield f"## Step {step}\n\n"
            yield f"{time:%Y-%m-%d %H:%M:%S}\n\n" if (time := known_time(entry.created_at)) else ""
            yield from _output(output)
        case ToolResults(overall=overall, results=results):
            for result in results:
                status = _STATUS.get(result.status, result.status)
                name = f" of {_code(result.tool_name)}" if result.tool_name else ""
                yield f"**Result**{name}: {status}\n\n{_block(returned_text(result))}"
            yield _block(overall) if overall else ""
        case body if body.is_input:
            yield f"## {_line(body.heading).capitalize()}\n\n{_block(plain_text(body.message_content))}"
        case Review(analysis=analysis, supervision=supervision):
            texts = [plain_text(value) for value in (analysis, supervision) if value is not None]
            yield f"**Review**\n\n{_block(chr(10).join(texts))}"


def _output(output: ModelOutput) -> Iterator[str]:
    if output.thoughts_text.strip():
        yield f"**Thought**\n\n{_block(output.thoughts_text)}"
    if output.text.strip():
        yield f"**Answer**\n\n{_block(output.text)}"
    for tool_call in output.tool_calls or ([output.use_tool] if output.use_tool else []):
        arguments = (
            tool_call.arguments if isinstance(tool_call.arguments, str) else dump_json(tool_call.arguments)
        )
        yield f"**Call** {_code(tool_call.name)}\n\n{_block(arguments, 'json')}"


def _block(text: str, language: str = "") -> str:
    return fenced(text or NO_OUTPUT, language) + "\n\n"


def _line(text: str) -> str:
    """The beginning of the text on one line, with Markdown and HTML escaped. It must not be used at the
    beginning of a line, where other characters have a meaning."""
    return _MARKUP.sub(lambda match: "".join(f"\\{mark}" for mark in match[0]), one_line(text, _MAX_LINE))


def _code(text: str) -> str:
    """A name as inline code, with enough backticks that none in the name ends it."""
    name = one_line(text, _MAX_LINE)
    ticks = "`" * (most_backticks(name) + 1)
    return f"{ticks} {name} {ticks}" if "`" in name else f"`{name}`"

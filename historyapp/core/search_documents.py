"""Makes the documents of the search across sessions: one document of tokens for each step.

A document has the inputs before a step, the step's thought, answer, calls and results, and marked tokens for
its facets (tools, files, commands, status …). It is computed from the entries alone, so it can be rebuilt.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zlib import crc32

from historyapp.core.call_subjects import CallSubject, call_subject
from historyapp.core.dates import UNDATED
from historyapp.core.entries import Entry, ModelInput, ModelOutput, Review
from historyapp.core.projection import Step, Tail, advance
from historyapp.core.search_tokens import compound_names, tokens_of
from historyapp.core.searchable import Passage

GAP = "\ue000"
"""A separator between texts, so that no phrase spans two texts."""
MARKS: Mapping[str, str] = {
    "tool": "\ue001", "file": "\ue002", "command": "\ue003", "status": "\ue004", "has": "\ue005",
    "kind": "\ue006", "day": "\ue007", "month": "\ue008", "session": "\ue009", "project": "\ue00a",
}  # fmt: skip
"""The first character of each facet's tokens. No token of a text contains one of these characters."""
HEAD_CHARACTERS, TAIL_CHARACTERS = 24_000, 8_000
"""If a text is longer than both together, only its beginning and its end are searched."""
MAX_TOKENS = 15_000
"""The maximum number of tokens of a step. PostgreSQL stores positions of tokens up to 16,383."""
MAX_NAMES = 400
"""The maximum number of names of a step that can be found as a whole."""
LIKELY_FAILED = "likely_failed"
_MAX_CALLS = 20
_BEFORE = {"system_instruction", "memory_notebook", "model_input", "debug_log"}
"""Entries that belong to the step after them."""


@dataclass(slots=True)
class IndexedEntry:
    """An entry with its searched texts."""

    entry: Entry
    kind: str
    step: int
    """The number of the newest step up to this entry."""
    passages: list[Passage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A step, and the entries from ``first`` to ``last``."""

    first: int
    last: int
    anchor: int
    """The position of the output; without an output, that of the last input.

    It decides whether the step is live.
    """
    step: int
    at: datetime
    tokens: str
    """Separated by spaces, in the order of the texts."""
    tools: tuple[str, ...]
    status: str
    is_capped: bool

    @property
    def checksum(self) -> int:
        return crc32(self.tokens.encode()) & 0x7FFFFFFF


def split_steps(entries: Iterable[IndexedEntry]) -> Iterator[list[IndexedEntry]]:
    """The entries of a session by the step that they belong to, in order. Rewinds belong to none."""
    step_entries: list[IndexedEntry] = []
    has_output = False
    for indexed in entries:
        kind = indexed.kind
        begins = kind == "rewind" or (has_output and (kind == "model_output" or kind in _BEFORE))
        if begins and step_entries:
            yield step_entries
            step_entries, has_output = [], False
        if kind == "rewind":
            continue
        has_output = has_output or kind == "model_output"
        step_entries.append(indexed)
    if step_entries:
        yield step_entries


def document_of(project: UUID, session: UUID, step_entries: Sequence[IndexedEntry]) -> SearchDocument:
    """The document of one step's entries."""
    tail = Tail()
    for indexed in step_entries:
        tail = advance(tail, indexed.entry, excerpts=False).tail
    output = next((indexed for indexed in step_entries if indexed.kind == "model_output"), None)
    anchor = output or step_entries[-1]
    step = anchor.step if output else anchor.step + 1
    at = anchor.entry.created_at
    texts, is_capped = _texts(step_entries)
    facets = [project_token(project), session_token(session), *(day_tokens(at) if at != UNDATED else ())]
    facets += _step_facets(step_entries, tail.step, output)
    tokens = [*facets, *texts]
    tools: tuple[str, ...] = ()
    status = ""
    if tail.step:
        tools = tuple(dict.fromkeys(tail.step.tool_names))[:_MAX_CALLS]
        status = LIKELY_FAILED if tail.step.likely_failure else tail.step.status
    return SearchDocument(
        first=step_entries[0].entry.position,
        last=step_entries[-1].entry.position,
        anchor=anchor.entry.position,
        step=step,
        at=at,
        tokens=" ".join(tokens[:MAX_TOKENS]),
        tools=tools,
        status=status,
        is_capped=is_capped or len(tokens) > MAX_TOKENS,
    )


def facet_tokens(facet: str, text: str) -> list[str]:
    """The tokens of a facet's value."""
    return [MARKS[facet] + token for token in tokens_of(text)]


def project_token(project: UUID) -> str:
    return MARKS["project"] + project.hex


def session_token(session: UUID) -> str:
    return MARKS["session"] + session.hex


def day_tokens(at: datetime) -> tuple[str, str]:
    """The tokens of a day and of its month; in UTC."""
    return f"{MARKS['day']}{at:%Y%m%d}", f"{MARKS['month']}{at:%Y%m}"


def _step_facets(
    step_entries: Sequence[IndexedEntry], step: Step | None, output: IndexedEntry | None
) -> Iterator[str]:
    names = {"input" for indexed in step_entries if isinstance(indexed.entry.body, ModelInput)}
    names |= {"review" for indexed in step_entries if isinstance(indexed.entry.body, Review)}
    if step is not None and output is not None and isinstance(output.entry.body, ModelOutput):
        body = output.entry.body
        if body.thoughts_text:
            names.add("thought")
        subjects = [
            (tool_call.name, call_subject(tool_call.name, tool_call.arguments))
            for tool_call in calls_of(body)
        ]
        for name, subject in subjects:
            yield from _call_facets(name, subject)
            names.add(subject.kind)
        if not subjects:
            names.add("answer")
        yield MARKS["status"] + step.status
        if step.likely_failure:
            yield MARKS["status"] + LIKELY_FAILED
            names.add("failure")
        if step.status == "error":
            names |= {"error", "failure"}
    for name in sorted(names):
        yield MARKS["has"] + name


def calls_of(body: ModelOutput) -> Sequence[Any]:
    """The calls of an output whose facets are searched."""
    return (body.use_tool,) if body.use_tool else body.tool_calls[:_MAX_CALLS]


def _call_facets(name: str, subject: CallSubject) -> Iterator[str]:
    yield from facet_tokens("tool", name)
    yield GAP
    for file in subject.files:
        yield from facet_tokens("file", file)
        yield GAP
    if subject.kind == "shell":
        yield from facet_tokens("command", subject.target)
        yield GAP


def _texts(step_entries: Sequence[IndexedEntry]) -> tuple[list[str], bool]:
    """The tokens of the texts, and whether a part of a text was left out."""
    tokens: list[str] = []
    names: dict[str, None] = {}
    is_capped = False
    for passage in (passage for indexed in step_entries for passage in indexed.passages):
        tokens.append(GAP)
        for part in searched_parts(passage.text):
            tokens += tokens_of(part)
            names.update(dict.fromkeys(sorted(compound_names(part))))
        is_capped = is_capped or len(passage.text) > HEAD_CHARACTERS + TAIL_CHARACTERS
    whole_names = list(names)[:MAX_NAMES]
    return [*tokens[: MAX_TOKENS - 2 * MAX_NAMES], GAP, *whole_names], is_capped


def searched_parts(text: str) -> tuple[str, ...]:
    """The beginning and the end of a long text."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return (text,)
    return text[:HEAD_CHARACTERS], text[-TAIL_CHARACTERS:]

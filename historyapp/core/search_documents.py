"""Makes the documents of the search across sessions: one document of tokens for each step.

A document has the inputs before a step, the step's thought, answer, calls and results, and marked tokens for
its facets (tools, files, commands, status …). It is computed from the entries alone, so it can be rebuilt.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from historyapp.core.call_subjects import CallSubject, call_subject, command_line
from historyapp.core.command_files import MAX_COMMAND, FileUse, files_used, may_use_files
from historyapp.core.dates import UNDATED
from historyapp.core.entries import Entry, ModelOutput, load_body
from historyapp.core.projection import Tail, advance
from historyapp.core.search_tokens import compound_names, tokens_of
from historyapp.core.searchable import passages

GAP = "\ue000"
"""A separator between texts, so that no phrase spans two texts."""
MARKS: Mapping[str, str] = {
    "tool": "\ue001", "file": "\ue002", "command": "\ue003", "status": "\ue004", "has": "\ue005",
    "kind": "\ue006", "day": "\ue007", "month": "\ue008", "session": "\ue009", "project": "\ue00a",
    "rows": "\ue00b",
}  # fmt: skip
"""The first character of each facet's tokens. No token of a text contains one of these characters."""
HEAD_CHARACTERS, TAIL_CHARACTERS = 24_000, 8_000
"""If a text is longer than both together, only its beginning and its end are searched."""
MAX_TOKENS = 15_000
"""The maximum number of tokens of a step. PostgreSQL stores positions of tokens up to 16,383."""
MAX_TOKEN_BYTES = 900_000
"""The maximum number of bytes of a step's tokens. PostgreSQL stores 1,048,575, and takes up to four more for
each token."""
MAX_NAMES = 400
"""The maximum number of names of a step that can be found as a whole."""
MAX_READ = 1 << 24
"""After this many characters of a step's inputs, no further input is read; likewise of its other entries."""
LIKELY_FAILED = "likely_failed"
_MAX_TEXT_TOKENS = MAX_TOKENS - 2 * MAX_NAMES
_MAX_CALLS = 20
_MAX_SCRIPT = 20_000
"""Characters of a command line that are looked at. Its here-documents, which are not parsed, may be long."""
_MAX_COMMANDS = 4_000
"""Characters of the command lines of a step that are parsed for files, in up to 12 ms."""
_MAX_NAME = HEAD_CHARACTERS + TAIL_CHARACTERS
"""Characters of the name of a tool or file that are searched."""
_BEFORE = {"system_instruction", "memory_notebook", "model_input", "debug_log"}
"""Entries that belong to the step after them."""
_ADDS = {"model_input": "input", "review": "review"}
"""What a step has because of an entry of this kind, for the facet ``has``."""


class UnreadEntry(NamedTuple):
    """An entry of the log whose body is read only if it is needed."""

    position: int
    kind: str
    step: int
    """The number of the newest step up to this entry."""
    at: datetime
    tokens: int
    read: Callable[[], tuple[Mapping[str, Any], int]]
    """Returns the body as stored, and its length in characters."""


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


def split_steps(entries: Iterable[UnreadEntry]) -> Iterator[Iterator[UnreadEntry]]:
    """The entries of a session by the step that they belong to, in order. Rewinds belong to none.

    The entries of a step must be taken before the next step is.
    """
    for number, step_entries in groupby(entries, _step_numbers()):
        if number is not None:
            yield step_entries


def _step_numbers() -> Callable[[UnreadEntry], int | None]:
    """A function for consecutive entries. Returns a number for each step, and None for rewinds."""
    number, has_output = 0, False

    def number_of(logged: UnreadEntry) -> int | None:
        nonlocal number, has_output
        is_output = logged.kind == "model_output"
        if logged.kind == "rewind" or (has_output and (is_output or logged.kind in _BEFORE)):
            number, has_output = number + 1, False
        has_output = has_output or is_output
        return None if logged.kind == "rewind" else number

    return number_of


def document_of(project: UUID, session: UUID, step_entries: Iterable[UnreadEntry]) -> SearchDocument:
    """The document of one step's entries. At most one body is in memory at a time."""
    reader = _StepReader()
    for logged in step_entries:
        reader.add(logged)
    return reader.document(project, session)


class _StepReader:
    """What the document of a step needs of the entries that were read."""

    def __init__(self) -> None:
        self._tail = Tail()
        self._texts = _Texts()
        self._first: UnreadEntry | None = None
        self._last: UnreadEntry | None = None
        self._output: UnreadEntry | None = None
        self._call_facets: list[str] = []
        self._has: set[str] = set()
        """What the step has, for the facet ``has``."""
        self._parsed = 0
        """The characters of command lines that were parsed."""
        self._inputs_read = self._others_read = 0
        """The characters read: of entries before the output, and of others."""

    def add(self, logged: UnreadEntry) -> None:
        self._first, self._last = self._first or logged, logged
        if logged.kind == "model_output":
            self._output = self._output or logged
        elif logged.kind in _ADDS:
            self._has.add(_ADDS[logged.kind])
        is_input = logged.kind in _BEFORE
        if (self._inputs_read if is_input else self._others_read) >= MAX_READ:
            self._texts.is_capped = True
            return
        body, size = logged.read()
        if is_input:
            self._inputs_read += size
        else:
            self._others_read += size
        entry = Entry(logged.position, load_body(logged.kind, body), logged.at, {}, logged.tokens)
        self._tail = advance(self._tail, entry).tail
        for passage in passages(logged.position, logged.step, logged.kind, body):
            self._texts.add(passage.text)
        if isinstance(entry.body, ModelOutput):
            self._add_output(entry.body)

    def _add_output(self, body: ModelOutput) -> None:
        if body.thoughts_text:
            self._has.add("thought")
        calls = calls_of(body)
        for tool_call in calls:
            subject = call_subject(tool_call.name, tool_call.arguments)
            uses = self._files_used(subject, tool_call.arguments)
            files = (*subject.files, *dict.fromkeys(used.file for used in uses))
            self._call_facets += _call_facets(tool_call.name, subject, files)
            self._has.add(subject.kind)
            if any(used.use == "write" for used in uses):
                self._has.add("edit")
        if not calls:
            self._has.add("answer")

    def _files_used(self, subject: CallSubject, arguments: Any) -> tuple[FileUse, ...]:
        """What the command line of a call does with files."""
        command = command_line(arguments)[:_MAX_SCRIPT] if subject.kind == "shell" else ""
        if not may_use_files(command) or self._parsed >= _MAX_COMMANDS:
            return ()
        self._parsed += min(len(command), MAX_COMMAND)
        return files_used(command)

    def document(self, project: UUID, session: UUID) -> SearchDocument:
        anchor = self._output or self._last
        if anchor is None or self._first is None or self._last is None:
            raise ValueError("A step has at least one entry.")
        step, at = self._tail.step, anchor.at
        texts = self._texts.tokens()
        tokens = [project_token(project), session_token(session), *(day_tokens(at) if at != UNDATED else ())]
        tokens += [*self._step_facets(), *texts]
        document_tokens, is_cut = _cut(" ".join(tokens[:MAX_TOKENS]))
        tools: tuple[str, ...] = ()
        status = ""
        if step:
            tools = tuple(dict.fromkeys(step.tool_names))[:_MAX_CALLS]
            status = LIKELY_FAILED if step.likely_failure else step.status
        return SearchDocument(
            first=self._first.position,
            last=self._last.position,
            anchor=anchor.position,
            step=anchor.step if self._output else anchor.step + 1,
            at=at,
            tokens=document_tokens,
            tools=tools,
            status=status,
            is_capped=self._texts.is_capped or is_cut or len(tokens) > MAX_TOKENS,
        )

    def _step_facets(self) -> Iterator[str]:
        names, step = set(self._has), self._tail.step
        if step is not None:
            yield from self._call_facets
            yield MARKS["status"] + step.status
            if step.likely_failure:
                yield MARKS["status"] + LIKELY_FAILED
                names.add("failure")
            if step.status == "error":
                names |= {"error", "failure"}
        for name in sorted(names):
            yield MARKS["has"] + name


def _cut(tokens: str) -> tuple[str, bool]:
    """Leaves out tokens beyond ``MAX_TOKEN_BYTES``. Returns also whether there were any."""
    data = tokens.encode()
    if len(data) <= MAX_TOKEN_BYTES:
        return tokens, False
    return data[:MAX_TOKEN_BYTES].rpartition(b" ")[0].decode(), True


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


def calls_of(body: ModelOutput) -> Sequence[Any]:
    """The calls of an output whose facets are searched."""
    return (body.use_tool,) if body.use_tool else body.tool_calls[:_MAX_CALLS]


def _call_facets(name: str, subject: CallSubject, files: Iterable[str]) -> Iterator[str]:
    yield from facet_tokens("tool", name[:_MAX_NAME])
    yield GAP
    for file in files:
        for text in dict.fromkeys((file[:_MAX_NAME], file[:_MAX_NAME].lower())):  # found in any case
            yield from facet_tokens("file", text)
            yield GAP
    if subject.kind == "shell":
        yield from facet_tokens("command", subject.target)
        yield GAP


class _Texts:
    """The tokens of a step's texts, at most as many as the document has."""

    def __init__(self) -> None:
        self.is_capped = False
        """Whether a part of a text was left out."""
        self._tokens: list[str] = []
        self._names: dict[str, None] = {}

    def add(self, text: str) -> None:
        if len(self._tokens) < _MAX_TEXT_TOKENS or len(self._names) < MAX_NAMES:
            self._tokens.append(GAP)
            for part in searched_parts(text):
                if len(self._tokens) < _MAX_TEXT_TOKENS:
                    self._tokens += tokens_of(part)
                if len(self._names) < MAX_NAMES:
                    self._names.update(dict.fromkeys(sorted(compound_names(part))))
        self.is_capped = self.is_capped or len(text) > HEAD_CHARACTERS + TAIL_CHARACTERS

    def tokens(self) -> list[str]:
        return [*self._tokens[:_MAX_TEXT_TOKENS], GAP, *list(self._names)[:MAX_NAMES]]


def searched_parts(text: str) -> tuple[str, ...]:
    """The beginning and the end of a long text."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return (text,)
    return text[:HEAD_CHARACTERS], text[-TAIL_CHARACTERS:]

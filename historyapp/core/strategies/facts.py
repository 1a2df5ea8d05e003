"""The extract of one step: its tool call, its outcome, and the names and lines that later steps refer to.

Names come before lines: within a hundred tokens, the names of a result contain more of what later actions
write than any choice of its lines (docs/context-quality.md). If there is room, lines replace their names.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from historyapp.core.episodes import Episode
from historyapp.core.excerpts import MAX_LINE, split_lines
from historyapp.core.identifiers import identifiers, new_identifiers, texts_in
from historyapp.core.policies.clipping import fair_share
from historyapp.core.results import NO_OUTPUT, returned_text
from historyapp.core.strategies.base import Language
from historyapp.core.strategies.lines import line_of
from historyapp.core.strategies.reviews import review_fields
from historyapp.core.text import clean, without_colours
from historyapp.core.tokens import TokenCounter

MAX_CALL = 200
"""Characters of the tool calls."""
MAX_TEXT = 100_000
"""Characters of a step's results that are read: one half from the beginning, the other from the end."""
MAX_PROSE = 1_200
"""Characters of thoughts and answers that are read."""
_FIRST_RATIO = 2.8  # characters per token, assumed until a text is counted
_ENOUGH = 0.85  # an extract that uses this share of its tokens is not tried again
_TRIES = 4
_CALL_SHARE = 0.4
_FIELDS_SHARE = 0.7
_VITAL_SHARE = 0.35
_MAX_RANKED_NAMES = 4  # further names do not raise the rank of a line
_FRAMING = 20
_MAX_TRIED = 200  # names whose tokens are counted one by one
_MIN_FOR_THOUGHT = 12  # tokens that must be left to add a thought
_VITAL = re.compile(
    r"exit(?:ed)?(?: with)?(?: code| status)|returned non-zero|\b\d+ (?:passed|failed|errors?|skipped)\b"
    r"|^\s*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b|^(?:FAILED|ERROR|FAIL|OK|PASSED|error|fatal|panic)\b"
    r"|[Cc]ommand not found|[Nn]o such file|[Pp]ermission denied|[Ss]egmentation fault|[Tt]imed out"
)

_NUMBERED = re.compile(r"^\s*\d{1,6}(?:→|\t)")
"""The line number that file viewers write before a line."""
_HINTS = (
    "rror", "xception", "ailed", "assed", "kipped", "FAIL", "PASS", "OK", "xit", "ot found", "o such",
    "denied", "fault", "imed out", "fatal", "panic", "non-zero", "ERROR",
)  # fmt: skip
"""Every vital line contains one of these. Searching for them takes a tenth of the time of matching."""


def is_vital(line: str, hints: Iterable[str] = _HINTS) -> bool:
    """Whether a line says how a step ended: an exit code, test results, a traceback's last line, an error."""
    return any(hint in line for hint in hints) and _VITAL.search(line) is not None


class Fact(NamedTuple):
    """A line of a result, a part of a long line, or a sentence of an answer."""

    place: int
    text: str
    names: tuple[str, ...]
    """Its identifiers that no earlier line contains."""
    vital: bool


class Facts(NamedTuple):
    call: str
    """The tool calls, on one line."""
    lines: tuple[Fact, ...]
    """The non-empty lines of the results, or sentences of the answer, in order."""
    entities: tuple[str, ...] = ()
    """Names that a statistical model finds in what the agent wrote."""


def facts_of(episode: Episode, language: Language) -> Facts:
    """Reads at most ``MAX_TEXT`` characters of results and ``MAX_PROSE`` of what the agent wrote."""
    output = episode.output
    calls = output.tool_calls or ((output.use_tool,) if output.use_tool else ())
    prose = ((output.text if not calls else "") or output.thoughts_text)[:MAX_PROSE]
    entities = tuple(language.names(prose))
    if not calls:
        sentences = language.sentences(prose) if len(prose) > MAX_LINE else [prose]
        return Facts("Answered", tuple(_facts(sentences, prose)), entities)
    called = "; ".join(f"{tool_call.name}: {' '.join(texts_in(tool_call.arguments))}" for tool_call in calls)
    text = "\n".join(map(returned_text, episode.results))
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2
        text = f"{text[:half]}\n{text[-half:]}"
    text = without_colours(text)
    return Facts(line_of(called, MAX_CALL), tuple(_facts(split_lines(text), text)), entities)


def _facts(texts: Iterable[str], whole: str) -> Iterator[Fact]:
    lines = [line for text in texts if (line := _NUMBERED.sub("", text).strip()) and line != NO_OUTPUT]
    hints = [hint for hint in _HINTS if hint in whole]
    for number, (line, names) in enumerate(zip(lines, new_identifiers(lines), strict=True)):
        yield Fact(number, line, tuple(names), bool(hints) and is_vital(line, hints))


class _Extract(NamedTuple):
    text: str
    missing: tuple[str, ...]
    """Names that none of its lines contains."""
    tokens: int


def extract(episode: Episode, tokens: int, language: Language, count: TokenCounter) -> str:
    """The step within ``tokens``: tool call, outcome, names and lines of results; a thought if it fits."""
    facts = facts_of(episode, language)
    fields = [f"{label}: {text}" for label, text in review_fields(episode, language).items()]
    if fields:
        shown = "\n".join(fields)
        facts = facts._replace(lines=tuple(line for line in facts.lines if line.text not in shown))
    best = _Extract(episode.status, (), 0)  # used if not even the tool call fits
    room = int(tokens * _FIRST_RATIO)
    for _ in range(_TRIES):
        attempt, is_whole = _compose(facts, fields, episode.status, room)
        size = count(attempt.text)
        if size <= tokens:
            best = attempt._replace(tokens=size)
            # Missing names fill the remaining room, but fields come first.
            if is_whole or (attempt.missing and not fields) or size >= _ENOUGH * tokens:
                break
        used = room if fields else len(attempt.text)
        room = min(int(used * tokens / size * 0.97), room - 1 if size > tokens else 4 * room)
    extended, tokens_left = best.text, tokens - best.tokens - 1
    if best.missing:
        names = []
        for name in best.missing[:_MAX_TRIED]:
            size = count(f" {name}")
            if size <= tokens_left:
                names.append(name)
                tokens_left -= size
        extended = clean("\n".join([best.text, " ".join(names)])) if names else best.text
    elif tokens_left >= _MIN_FOR_THOUGHT and episode.action and not fields:
        thoughts = line_of(episode.output.thoughts_text, min(3 * tokens_left, MAX_CALL))
        thought = f"Thought: {language.sentences(thoughts)[0].strip()}" if thoughts else ""
        extended = f"{best.text}\n{thought}".strip()
    return extended if extended == best.text or count(extended) <= tokens else best.text


def _compose(facts: Facts, fields: list[str], status: str, room: int) -> tuple[_Extract, bool]:
    """The step within ``room`` characters, and whether it has all lines."""
    called = "" if fields and facts.call == "execute_step:" else facts.call
    head = f"{line_of(called, max(20, int(room * _CALL_SHARE)))} → {status}" if called else ""
    head = head if status != "answered" else called
    if fields:
        lengths = [len(field) for field in fields]
        field_room = room - len(head) - len(fields)
        max_field = fair_share(
            lengths, field_room if sum(lengths) <= field_room else int(room * _FIELDS_SHARE)
        )
        head = "\n".join(
            ([head] if called else []) + [line_of(field, max(12, max_field)) for field in fields]
        )
    call_names = identifiers(called)
    kept, names = _choose_lines(facts, call_names, room - len(head) - 1, set(identifiers(head)))
    return _Extract(clean("\n".join([head, *kept])), names, 0), len(kept) == len(facts.lines)


def _choose_lines(
    facts: Facts, call_names: Sequence[str], room: int, head_names: set[str]
) -> tuple[list[str], tuple[str, ...]]:
    """The lines to keep, which leave room for the other names, and these names.

    Args:
        call_names: names in the tool calls.
        head_names: names that need no room, because the head contains them. Names of kept lines are added.
    """
    kept: dict[int, str] = {}
    vital_room = int(room * _VITAL_SHARE)
    for fact in facts.lines:
        if fact.vital and len(fact.text) < vital_room:
            vital_room -= len(fact.text) + 1
            room -= len(fact.text) + 1
            kept[fact.place] = fact.text
            head_names.update(fact.names)
    names = dict.fromkeys(name for name in call_names if name not in head_names)
    names.update(dict.fromkeys(name for fact in facts.lines for name in fact.names if name not in head_names))
    names.update(dict.fromkeys(facts.entities))
    names_length = sum(map(len, names)) + len(names)
    for fact in sorted(
        facts.lines,
        key=lambda fact: (-min(len(fact.names), _MAX_RANKED_NAMES) / (_FRAMING + len(fact.text)), fact.place),
    ):
        if fact.place in kept:
            continue
        saved = sum([len(name) + 1 for name in fact.names if name not in head_names])
        if names_length - saved + len(fact.text) + 1 <= room:
            kept[fact.place] = fact.text
            head_names.update(fact.names)
            names_length -= saved
            room -= len(fact.text) + 1
    return [kept[number] for number in sorted(kept)], tuple(
        [name for name in names if name not in head_names]
    )

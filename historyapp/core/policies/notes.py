"""Notes on steps that are no longer messages: the source lines that later steps are likeliest to need.

A line is worth what its identifiers are worth, per token. An identifier is worth more the more often the
agent wrote it into arguments, and the more recently; one that was only read, the fewer there were beside it.
The measurements behind the figures are in docs/context-quality.md.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, nlargest
from typing import NamedTuple

from historyapp.core.excerpts import Excerpt, ExcerptLine, one_line
from historyapp.core.identifiers import stands_in
from historyapp.core.policies.base import StepOutline

NAMES = 0.35
"""Share of a note's room for names alone, after the lines."""
HALF_LIFE = 16
"""Steps after which an identifier that was not mentioned again is worth half."""
USED = 4.0
"""What an identifier in arguments is worth; one that was only read is worth at most a half."""
READ = 0.5
DIGEST = 2.0
"""What a summary of several steps is worth for each of them, besides its identifiers."""
FEW = 8
"""Identifiers in a result up to which each of them is likely to matter."""
UNRESOLVED = 2.0
"""How much more the lines of a failure are worth until the same tool succeeded."""
MISFITS = 40
"""Lines for which there is no room that are looked past, one after the other, for shorter ones."""
_HEADING = 12  # tokens, at most: "step 41 read_file: src/pars…" and a line break
_CALL_HEADING = 6
_LINE_FRAMING = 3
_DIGEST = -2
_CALL = -1
_HEADING_CHARACTERS = 24
_SPARE = 40  # names that are looked at in case that others stand there already
_LEAST_NAME = 3  # tokens


class Note(NamedTuple):
    """A line that was chosen."""

    at: int
    """Of its step among the outlined ones."""
    line: int
    """Its place in the step; the call comes first."""
    text: str
    tokens: int


class _Candidate(NamedTuple):
    at: int
    line: int
    text: str
    tokens: int
    names: tuple[str, ...]


class _Entry(NamedTuple):
    """A candidate in the queue. No two agree in step and line."""

    rank: float
    at: int
    line: int
    candidate: _Candidate


class Notes:
    """Chooses lines over the cuts of one context. Each line and each name is given once."""

    def __init__(self, steps: Sequence[StepOutline], known: Iterable[str]) -> None:
        """``known``: identifiers that stand in the context anyhow."""
        self._steps = steps
        self._known = set(known)
        self._bare: set[str] = set()
        self._shown = " ".join(self._known)
        self._open: dict[str, None] = {}
        self._read = 0
        self._offered = 0
        self._worth: dict[str, float] = {}
        self._uses: dict[str, int] = {}
        self._first: dict[str, tuple[int, int]] = {}
        self._heap: list[_Entry] = []
        self._unresolved = _unresolved(steps)

    def choose(self, at: int, start: int, room: int) -> tuple[list[Note], list[str]]:
        """Notes on the steps before ``start``, as known when ``at`` was the newest, and further names."""
        messages = set(self._named_in(start, at + 1))
        lines, left = self._lines(at, start, room - int(NAMES * room), messages)
        return lines, self._names(left + int(NAMES * room), messages)

    def lines(self, at: int, start: int, room: int) -> list[Note]:
        """The same without names."""
        return self._lines(at, start, room, set(self._named_in(start, at + 1)))[0]

    def _lines(self, at: int, start: int, room: int, messages: set[str]) -> tuple[list[Note], int]:
        self._read_to(at + 1)
        for index in range(self._offered, start):
            self._offer(index)
        self._offered = max(self._offered, start)
        return self._take(room, messages)

    def names_missing(self, at: int, shown: str, room: int) -> list[str]:
        """The names worth most, as known when step ``at`` is the newest, that do not stand in ``shown``."""
        self._read_to(at + 1)
        likely = self._likeliest(
            [name for name in self._worth if name not in self._known and name not in self._bare], room
        )
        return _fitting(likely, shown, room)

    def _read_to(self, end: int) -> None:
        """Learns what the steps up to ``end`` mention."""
        for index in range(self._read, end):
            excerpt = self._steps[index].excerpt
            # Growing instead of fading: the order of values stays, and nothing needs to be valued again.
            recent = 2.0 ** (index / HALF_LIFE)
            for name in excerpt.names:
                self._uses[name] = self._uses.get(name, 0) + 1
                self._worth[name] = USED * self._uses[name] ** 0.8 * recent
            read = READ * min(1.0, FEW / (4 + excerpt.result_names)) * recent
            for place, line in enumerate(excerpt.lines):
                for name in line.names:
                    if name not in self._first:
                        self._first[name] = index, place
                    if name not in self._uses:
                        self._worth[name] = max(read, self._worth.get(name, 0.0))
            for name in excerpt.others:
                self._worth.setdefault(name, read)
        self._read = max(self._read, end)

    def _offer(self, index: int) -> None:
        """Makes the lines of a step candidates, each for the names that stand there first."""
        step = self._steps[index]
        excerpt = step.excerpt
        for place, line in enumerate(excerpt.lines):
            new = [n for n in line.names if self._first[n] == (index, place) and n not in self._known]
            if new:
                self._open.update(dict.fromkeys(new))
                self._push(_Candidate(index, place, line.text, line.tokens, tuple(new)))
        if step.digest:
            line = step.digest.line
            names = tuple([n for n in line.names if n not in self._known])
            self._push(_Candidate(index, _DIGEST, line.text, line.tokens + _CALL_HEADING, names))
        call = step.summary or ExcerptLine(excerpt.call, excerpt.call_tokens, excerpt.names)
        names = tuple([n for n in call.names if n not in self._known and n in call.text])
        self._push(_Candidate(index, _CALL, call.text, call.tokens + _CALL_HEADING, names))
        self._open.update(dict.fromkeys((*excerpt.names, *excerpt.others)))

    def _push(self, candidate: _Candidate) -> None:
        if candidate.names or candidate.line == _DIGEST:
            rank = -self._value(candidate, candidate.names)
            heappush(self._heap, _Entry(rank, candidate.at, candidate.line, candidate))

    def _value(self, candidate: _Candidate, names: Iterable[str]) -> float:
        """Worth per token of the names that a candidate would add."""
        step = self._steps[candidate.at]
        digest = step.digest if candidate.line == _DIGEST else None
        worth = 0.0
        if digest:
            worth = DIGEST * (step.number - digest.first_step + 1) * 2.0 ** (candidate.at / HALF_LIFE)
        for name in names:
            # A call repeats what some result told first, and that line says more of it.
            told = candidate.line == _CALL and name in self._first
            worth += self._worth.get(name, 0.0) * (0.5 if told else 1.0)
        if candidate.at in self._unresolved:
            worth *= UNRESOLVED
        return worth / (candidate.tokens + _LINE_FRAMING)

    def _take(self, room: int, messages: set[str]) -> tuple[list[Note], int]:
        """The best lines that have room, in their order, and the room that is left."""
        taken: list[Note] = []
        waiting: list[_Entry] = []
        opened: set[int] = set()
        misfits = 0
        while self._heap and room > _HEADING:
            entry = heappop(self._heap)
            candidate = entry.candidate
            price = candidate.tokens + 1
            if candidate.line >= 0 and candidate.at not in opened:
                price += _HEADING
            if price > room:
                waiting.append(entry)
                misfits += 1
                if misfits > MISFITS:
                    break
                continue
            names = [n for n in candidate.names if n not in self._known]
            if not names and candidate.line != _DIGEST:
                continue  # for good: what is known stays known
            names = [n for n in names if n not in messages]
            if not names and candidate.line != _DIGEST:
                waiting.append(entry)
                continue
            now = -self._value(candidate, names) if len(names) < len(candidate.names) else entry.rank
            if self._heap and now > self._heap[0].rank:
                heappush(
                    self._heap, _Entry(now, entry.at, entry.line, candidate._replace(names=tuple(names)))
                )
                continue
            room -= price
            misfits = 0
            opened.add(candidate.at)
            self._known.update(names)
            self._shown += f" {candidate.text}"
            taken.append(Note(candidate.at, candidate.line, candidate.text, price))
        self._heap += waiting
        heapify(self._heap)
        return sorted(taken), room

    def _names(self, room: int, messages: set[str]) -> list[str]:
        """The names worth most of the steps noted, where a name is all that there is room for."""
        for name in self._known.intersection(self._open):
            del self._open[name]
        likely = self._likeliest([name for name in self._open if name not in messages], room)
        found = _fitting(likely, self._shown, room)
        for name in found:
            del self._open[name]
        self._bare.update(found)
        self._shown += f" {' '.join(found)}"
        return found

    def _likeliest(self, names: Iterable[str], room: int) -> list[str]:
        """As many names as could have room and some more, the one that is worth most for its length first."""
        worth = self._worth
        return nlargest(room // 4 + _SPARE, names, key=lambda name: worth[name] / (len(name) // 3 + 2))

    def _named_in(self, start: int, end: int) -> Iterable[str]:
        """What steps that are messages mention: their arguments, and the lines that clipping keeps."""
        for step in self._steps[start:end]:
            yield from step.excerpt.names
            for line in step.excerpt.lines[:3]:
                yield from line.names


def _fitting(names: Iterable[str], shown: str, room: int) -> list[str]:
    """As many of the first names that do not stand in ``shown`` as have room."""
    found: list[str] = []
    for name in names:
        if room < _LEAST_NAME:
            break
        cost = len(name) // 3 + 2
        if cost <= room and not stands_in(name, shown):
            room -= cost
            found.append(name)
    return found


def _unresolved(steps: Sequence[StepOutline]) -> set[int]:
    """Indexes of failed steps whose tool has not succeeded on the same things since."""
    found: set[int] = set()
    succeeded: dict[str, set[str]] = {}
    for index in range(len(steps) - 1, -1, -1):
        excerpt = steps[index].excerpt
        tool = excerpt.call.partition(":")[0]
        if steps[index].status == "success":
            succeeded.setdefault(tool, set()).update(excerpt.names or ("",))
        elif steps[index].status == "error" and succeeded.get(tool, set()).isdisjoint(excerpt.names or ("",)):
            found.add(index)
    return found


def told_by(steps: Sequence[StepOutline], notes: Iterable[Note]) -> set[int]:
    """Indexes of the steps of which notes tell; a summary tells of several."""
    told: set[int] = set()
    for note in notes:
        digest = steps[note.at].digest if note.line == _DIGEST else None
        before = steps[note.at].number - digest.first_step if digest else 0
        told.update(range(max(0, note.at - before), note.at + 1))
    return told


def notes_text(steps: Sequence[StepOutline], notes: Iterable[Note], names: Sequence[str]) -> str:
    """The notes as a model reads them: a short heading for each step, its lines below."""
    lines = []
    current = -1
    for note in notes:
        step = steps[note.at]
        if note.line == _DIGEST and step.digest:
            lines.append(f"steps {step.digest.first_step} to {step.number}: {note.text}")
            continue
        if note.at != current or note.line == _CALL:
            call = note.text if note.line == _CALL else _short(step.excerpt)
            lines.append(f"step {step.number} {call}")
        if note.line != _CALL:
            lines.append(note.text)
        current = note.at
    if names:
        lines.append(f"also seen: {' '.join(names)}")
    return "\n".join(lines)


def _short(excerpt: Excerpt) -> str:
    return one_line(excerpt.call, _HEADING_CHARACTERS)

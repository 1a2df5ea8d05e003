"""Makes notes on steps that are no longer messages: the lines that later steps most likely need.

A line's score is the score of its identifiers, per token. An identifier scores higher if the agent wrote
it into arguments more often or more recently. An identifier that was only read scores higher if it was
read with fewer others. The module ``scores`` has the scores, and ``sources`` finds further lines.
"""

from collections.abc import Container, Iterable, Sequence
from heapq import heapify, heappop, heappush, nlargest
from operator import attrgetter
from typing import NamedTuple

from historyapp.core.excerpts import ExcerptLine, one_line
from historyapp.core.policies.base import NO_EXTRAS, RequestExtras, StepOutline
from historyapp.core.policies.explained import ExplainedNames
from historyapp.core.policies.scores import (
    AGE,
    EARLIER_SCORING,
    NUMBER_CHARACTERS,
    REPEATED,
    SCORING,
    USED,
    age_factors,
)
from historyapp.core.policies.shown import ShownTexts
from historyapp.core.policies.sources import LineOfUsedName

NAMES = 0.4
"""Share of a note's room for bare names, which follow the lines."""
FIRST_LINE = 2.0
"""Factor for a name that the agent used, in the line where the name first appeared."""
DIGEST = 0.8
"""The score of a summary for each of its steps, in addition to its identifiers."""
UNRESOLVED = 2.0
"""Factor for the lines of a failure until the same tool has succeeded."""
MISFITS = 40
"""The search for shorter lines ends after this many consecutive lines that do not fit."""
_HEADING = 12  # tokens, at most: "step 41 read_file: src/pars…" and a line break
_CALL_HEADING = 6
_LINE_FRAMING = 3
_INPUT_HEADING = 3
_DIGEST = -2  # lines of inputs have lower numbers
_CALL = -1
_HEADING_CHARACTERS = 24
_SPARE = 40  # names to try in case others are in the context already


class Note(NamedTuple):
    """A line that was chosen."""

    at: int
    """The index of its step among the outlined steps."""
    line: int
    """Its index in the step; the tool call comes first."""
    text: str
    tokens: int


class _Candidate(NamedTuple):
    at: int
    line: int
    text: str
    tokens: int
    names: tuple[str, ...]


_Entry = tuple[float, int, int, _Candidate]
"""A rank, and a candidate with its step and line. These are unique, so candidates themselves are never
compared."""


class Notes:
    """Chooses lines for all cuts of one context. Each line and each name is chosen only once."""

    def __init__(
        self,
        steps: Sequence[StepOutline],
        known: Iterable[str],
        extras: RequestExtras = NO_EXTRAS,
        sources: Iterable[LineOfUsedName] = (),
    ) -> None:
        """
        Args:
            known: identifiers that are in the context already.
            sources: further lines, for names that steps used.
        """
        self._steps = steps
        self._scoring = EARLIER_SCORING if extras.scores_as_earlier else SCORING
        self._explained = ExplainedNames(known)
        self._calls_explain = extras.notes_as_earlier
        self._bare_names: set[str] = set()
        """Names that a note has without a line."""
        self._shown = ShownTexts(self._explained.known)
        self._unnoted: dict[str, None] = {}
        """Names in noted steps that no note has yet."""
        self._steps_offered = 0
        self._base_scores: dict[str, float] = {}
        """The score of each name, not yet reduced by its age."""
        self._costs: dict[str, int] = {}
        """The tokens of each name."""
        self._newest: dict[str, int] = {}
        """The step from which the age of each name counts."""
        self._ages: list[float] = []
        """The factor of a name by the step from which its age counts."""
        self._uses: dict[str, int] = {}
        self._in_lines: set[str] = set()
        """The names that have appeared in a line of a result."""
        self._new_names: list[list[tuple[ExcerptLine, int, list[str]]]] = []
        """For each step that was read, its lines with names that first appeared there, and their indexes."""
        self._heap: list[_Entry] = []
        self._sources = list(sources)
        """Those that are no candidates yet."""
        self._unresolved = _unresolved(steps)

    def choose(self, at: int, start: int, room: int) -> tuple[list[Note], list[str]]:
        """Notes on the steps before ``start``, chosen when ``at`` was the newest step, and further names."""
        self._score_at(at)
        self._offer(start)
        named = set[str]()  # in steps that are messages: in their arguments, and in lines that clipping keeps
        for step in self._steps[start : at + 1]:
            named.update(step.excerpt.names, *(line.names for line in step.excerpt.lines[:3]))
        lines, room_left = self._take(room - int(NAMES * room), named)
        return lines, self._names(room_left + int(NAMES * room), named)

    def exceeds(self, tokens: int, room: int) -> bool:
        """Whether a note of ``tokens`` exceeds its room so much that it must have fewer names."""
        return tokens > self._scoring.excess * room

    def fewer(self, names: list[str], tokens: int, room: int) -> list[str]:
        """The first names of a note that takes ``tokens``, which are more than its room."""
        half, quarters = len(names) // 2, len(names) * 3 // 4
        fitting = len(names) * (3 * room - 2 * tokens) // max(1, room)  # about half of a note are names
        kept = quarters if self._scoring is EARLIER_SCORING else max(half, fitting)
        self._bare_names.difference_update(names[kept:])
        return names[:kept]

    def fresh_lines(self, at: int, shown: ShownTexts, room: int, share: float | None = None) -> list[Note]:
        """Lines for step ``at``, the newest, that are not in ``shown``, also of steps that are messages.

        Args:
            room: tokens for these lines and for names.
            share: the share of the room for the lines; None: the usual one.
        """
        self._score_at(at)
        self._offer(at)
        named = shown.names()
        self._heap = [
            (-self._value(candidate, candidate.names, named), candidate.at, candidate.line, candidate)
            for *_, candidate in self._heap
        ]
        heapify(self._heap)
        share = self._scoring.fresh_lines if share is None else share
        return self._take(int(share * room), named, shown)[0]

    def names_missing(self, at: int, shown: ShownTexts, room: int) -> list[str]:
        """The names with the highest scores when step ``at`` is the newest that are not in ``shown``."""
        self._score_at(at)
        noted = self._explained.known | self._explained.mentioned | self._bare_names
        unseen = [name for name in self._base_scores if name not in noted]
        return self._fitting(unseen, shown, room)

    def _score_at(self, at: int) -> None:
        """Reads the names in the steps up to ``at``, the newest, from which ages count."""
        if at + 1 != len(self._ages):
            self._read_names(at + 1)
            self._costs |= self._scoring.name_tokens(self._base_scores.keys() - self._costs.keys())
            self._ages = age_factors(at + 1)

    def _read_names(self, end: int) -> None:
        """Reads the names in the steps up to ``end``."""
        base_scores, newest, uses, in_lines = self._base_scores, self._newest, self._uses, self._in_lines
        for index in range(len(self._new_names), end):
            excerpt = self._steps[index].excerpt
            for name in excerpt.names:
                number = uses[name] = uses.get(name, 0) + 1
                base_scores[name] = USED * number**REPEATED
                newest[name] = index
            score = self._scoring.read / max(2, excerpt.result_names) ** 0.5
            number_score = self._scoring.number * score
            new_names = []
            for number, line in enumerate(excerpt.lines):
                if new := [name for name in line.names if name not in in_lines]:
                    new_names.append((line, number, new))
                    in_lines.update(new)
            self._new_names.append(new_names)
            for names in (*[line.names for line in excerpt.lines], excerpt.others):
                for name in names:
                    if name not in uses:
                        earlier = base_scores.get(name, 0.0)
                        own = score if name.strip(NUMBER_CHARACTERS) else number_score
                        base_scores[name] = own if own > earlier else earlier
                        newest[name] = index

    def _offer(self, start: int) -> None:
        """Makes the lines of the steps before ``start`` candidates."""
        for index in range(self._steps_offered, start):
            self._add_candidate(index)
        self._steps_offered = max(self._steps_offered, start)
        if self._sources:
            self._offer_sources()

    def _offer_sources(self) -> None:
        """Makes the lines of offered steps candidates for the names that have been used."""
        waiting: list[LineOfUsedName] = []
        for source in self._sources:
            if source.used_at >= len(self._new_names) or source.at >= self._steps_offered:
                waiting.append(source)
            elif self._explained.set_source(source.name, (source.at, source.place)):
                names = dict.fromkeys((source.name, *filter(self._uses.__contains__, source.names)))
                tokens = source.tokens + (_INPUT_HEADING if source.place < _DIGEST else 0)
                self._push(_Candidate(source.at, source.place, source.text, tokens, tuple(names)))
        self._sources = waiting

    def _add_candidate(self, index: int) -> None:
        """Makes the lines of a step candidates. A line is a candidate for the names that first appear in
        it."""
        step = self._steps[index]
        excerpt, known = step.excerpt, self._explained.known
        unnoted: list[str] = []
        for line, number, names_in_line in self._new_names[index]:
            if new := [name for name in names_in_line if name not in known]:
                unnoted += new
                self._push(_Candidate(index, number, line.text, line.tokens, tuple(new)))
        if step.digest:
            line = step.digest.line
            names = tuple([n for n in line.names if n not in known])
            self._push(_Candidate(index, _DIGEST, line.text, line.tokens + _CALL_HEADING, names))
        call_line = step.summary
        if call_line is None:  # its end may be cut off, and names with it
            whole_names = tuple([n for n in excerpt.names if n in excerpt.call])
            call_line = ExcerptLine(excerpt.call, excerpt.call_tokens, whole_names)
        names = tuple([n for n in call_line.names if n not in known])
        self._push(_Candidate(index, _CALL, call_line.text, call_line.tokens + _CALL_HEADING, names))
        self._unnoted.update(dict.fromkeys((*unnoted, *excerpt.names, *excerpt.others)))

    def _push(self, candidate: _Candidate) -> None:
        if candidate.names or candidate.line == _DIGEST:
            rank = -self._value(candidate, candidate.names)
            heappush(self._heap, (rank, candidate.at, candidate.line, candidate))

    def _value(self, candidate: _Candidate, names: Iterable[str], named: Container[str] = ()) -> float:
        """The score per token of the names that a candidate would add.

        ``named``: names that the context has elsewhere.
        """
        base_scores, newest, ages = self._base_scores, self._newest, self._ages
        # The tool call repeats a name from an earlier result, whose line says more about it.
        repeated = self._in_lines if candidate.line == _CALL else ()
        mentioned, sources = self._explained.mentioned, self._explained.sources
        place = candidate.at, candidate.line
        score = 0.0
        if candidate.line == _DIGEST and (digest := self._steps[candidate.at].digest):
            steps = self._steps[candidate.at].number - digest.first_step + 1
            score = DIGEST * steps / (len(ages) - candidate.at) ** AGE
        for name in names:
            if name in base_scores:
                own = base_scores[name] * ages[-1 - newest[name]]
                is_elsewhere = name in named or name in repeated or name in mentioned
                if name in sources and sources[name] == place:
                    own *= FIRST_LINE
                elif name in sources:
                    is_elsewhere = True
                score += own * self._scoring.source if is_elsewhere else own
        if candidate.at in self._unresolved and candidate.line >= _DIGEST:
            score *= UNRESOLVED
        return score / (candidate.tokens + _LINE_FRAMING)

    def _take(self, room: int, named: set[str], shown: ShownTexts | None = None) -> tuple[list[Note], int]:
        """The best lines that fit, in their order, and the remaining room.

        Scores fall with age, so an entry's rank from an earlier cut is usually too high. It is computed again
        when the entry comes to the front. An entry whose names were used since then may come too late; for
        the newest step, :meth:`fresh_lines` computes all ranks again.

        Args:
            named: names that are in the context without the line where they first appeared.
            shown: texts whose lines are left out.
        """
        chosen: list[Note] = []
        waiting: list[_Entry] = []
        opened: set[int] = set()
        misfits = 0
        explained = self._explained
        while self._heap and room > _HEADING:
            entry = heappop(self._heap)
            _, at, line, candidate = entry
            cost = candidate.tokens + 1
            if line >= 0 and at not in opened:
                cost += _HEADING
            if cost > room:
                waiting.append(entry)
                misfits += 1
                if misfits > MISFITS:
                    break
                continue
            names = tuple([name for name in candidate.names if name not in explained.known])
            if line == _CALL:
                names = tuple([name for name in names if name not in explained.mentioned])
            if explained.is_chosen_source((at, line), names):
                continue  # it was a candidate for another name, too
            if line == _CALL and named.issuperset(names):
                waiting.append(entry)
                continue
            if line != _DIGEST and not names:
                continue  # dropped: it adds nothing
            if line != _DIGEST and shown and shown.contains_text(candidate.text, names):
                continue
            rank = -self._value(candidate, names, named)
            if self._heap and rank > self._heap[0][0]:
                left = _Candidate(at, line, candidate.text, candidate.tokens, names)
                heappush(self._heap, (rank, at, line, left))
                continue
            room -= cost
            misfits = 0
            if line >= _DIGEST:
                opened.add(at)
            explained.add(names, (at, line), explains=line != _CALL or self._calls_explain)
            self._shown.add(candidate.text)
            chosen.append(Note(at, line, candidate.text, cost))
        self._heap += waiting
        heapify(self._heap)
        return sorted(chosen), room

    def _names(self, room: int, messages: set[str]) -> list[str]:
        """The names of the noted steps with the highest scores, for the room in which only bare names fit."""
        for name in (self._explained.known | self._explained.mentioned).intersection(self._unnoted):
            del self._unnoted[name]
        names = self._fitting((name for name in self._unnoted if name not in messages), self._shown, room)
        for name in names:
            del self._unnoted[name]
        self._bare_names.update(names)
        self._shown.add(*names)
        return names

    def _fitting(self, names: Iterable[str], shown: ShownTexts, room: int) -> list[str]:
        """The names with the highest scores for their length that are not in ``shown``, as many as fit."""
        base_scores, newest, ages = self._base_scores, self._newest, self._ages
        costs = self._costs
        ranks = {name: base_scores[name] * ages[-1 - newest[name]] / costs[name] for name in names}
        likely = nlargest(room // self._scoring.short_name + _SPARE, ranks, key=ranks.__getitem__)
        fitting: list[str] = []
        for name in likely:
            if room < 1:
                break
            if costs[name] <= room and name not in shown:
                room -= costs[name]
                fitting.append(name)
        return fitting


def _unresolved(steps: Sequence[StepOutline]) -> set[int]:
    """Indexes of failed steps whose tool has not succeeded with the same names since."""
    unresolved: set[int] = set()
    succeeded: dict[str, set[str]] = {}
    for index in range(len(steps) - 1, -1, -1):
        excerpt = steps[index].excerpt
        tool = excerpt.call.partition(":")[0]
        if steps[index].status == "success":
            succeeded.setdefault(tool, set()).update(excerpt.names or ("",))
        elif steps[index].status == "error" and succeeded.get(tool, set()).isdisjoint(excerpt.names or ("",)):
            unresolved.add(index)
    return unresolved


def covered_steps(steps: Sequence[StepOutline], notes: Iterable[Note]) -> set[int]:
    """Indexes of the steps that the notes cover. A digest covers several steps."""
    covered: set[int] = set()
    lowest = len(steps)
    of_steps = [note for note in notes if note.line >= _DIGEST]
    for note in sorted(of_steps, key=attrgetter("at"), reverse=True):
        digest = steps[note.at].digest if note.line == _DIGEST else None
        before = steps[note.at].number - digest.first_step if digest else 0
        first = max(0, note.at - before)
        # Digests may overlap, and each step is added once.
        covered.update(range(first, min(note.at + 1, lowest)))
        lowest = min(lowest, first)
    return covered


def notes_text(steps: Sequence[StepOutline], notes: Iterable[Note], names: Sequence[str]) -> str:
    """The notes as a model reads them: a short heading for each step, its lines below."""
    lines = []
    current = -1
    for note in notes:
        step = steps[note.at]
        if note.line < _DIGEST:
            lines.append(f"input: {note.text}")
            continue
        if note.line == _DIGEST and step.digest:
            lines.append(f"steps {step.digest.first_step} to {step.number}: {note.text}")
            continue
        if note.at != current or note.line == _CALL:
            call_text = note.text if note.line == _CALL else one_line(step.excerpt.call, _HEADING_CHARACTERS)
            lines.append(f"step {step.number} {call_text}")
        if note.line != _CALL:
            lines.append(note.text)
        current = note.at
    if names:
        lines.append(f"also seen: {' '.join(names)}")
    return "\n".join(lines)

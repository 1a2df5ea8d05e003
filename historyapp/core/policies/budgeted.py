"""The best mix of steps within a hard budget on the whole request, with a beginning that stays as it is.

A context is: every input, summaries of the oldest steps, notes on later ones, the newer steps as messages,
names that stand nowhere else, the newest step. Where a provider caches nothing, part of the budget is saved.
``cuts`` says where notes end and messages begin, ``notes`` which lines are worth their tokens, ``clipping``
how a step is made to fit. How well this works is measured in docs/context-quality.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from historyapp.core.budget import RequestMeter
from historyapp.core.content import plain_text
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage, has_text, texts_of
from historyapp.core.episodes import Episode
from historyapp.core.identifiers import identifiers
from historyapp.core.manifest import LeftOut, Segment
from historyapp.core.policies.assembly import Assembly, ContextPart, summary_part
from historyapp.core.policies.base import NO_EXTRAS, OutlinedPast, RequestExtras, StepOutline
from historyapp.core.policies.clipping import clip_input, clipped_step, fair_share, without_reasoning
from historyapp.core.policies.cuts import CutPlan, first_outlined, plan_cuts
from historyapp.core.policies.notes import Note, Notes, notes_text, told_by
from historyapp.core.policies.summaries import visible_summaries
from historyapp.core.settings import SessionSettings

INPUTS = 0.7
"""Share of the budget up to which inputs stay verbatim; the rest must hold the newest step."""
EARLIER_INPUTS = 40
"""How many inputs from before the outlined steps are looked at, besides the first."""
LEAST_INPUT = 6
"""Tokens below which no input can be shortened."""
FRESH = 0.08
"""Share of the room for names that stand nowhere else: they are paid for in full at each call."""
LEAST_FRESH = 20
"""Tokens; fewer names are not worth a message."""
CACHEABLE = 1280
"""Tokens of a budget below which a provider caches nothing: from 1,024 tokens on that stay the same, which
notes and inputs are not before this."""
LINES = 0.2
"""Share of what inputs and the newest step leave there for lines; names get the rest."""
THRIFT = 0.62
"""Share of the room that is used where nothing is cached: there each token is paid in full at each call."""
UNLIMITED = 1_000_000
"""Tokens that are chosen for where there is no budget."""
_HEADING = "Notes on steps {} to {}. Each can be fetched in full by its number.\n"
_FRESH = "Also seen so far: "
_GONE = "Steps 1 to {} are left out. Each can be fetched in full by its number."
_HEADING_TOKENS = 24
_AROUND = 8  # tokens around a message and before names
DIGESTS = 0.15
"""Share of the room for summaries of steps before the outlined ones, where there are any."""
MOST_DIGESTS = 100
MARK = "[…]"
"""Stands for an input of which nothing else has room."""


@dataclass(frozen=True, slots=True)
class _Given:
    """What a context is made from, and what it may cost."""

    past: OutlinedPast
    steps: list[StepOutline]
    inputs: list[InputMessage]
    missed: int
    """The position of the newest input before them that was not looked at; 0 where all were."""
    room: int
    """Tokens for inputs, notes and steps."""
    meter: RequestMeter


class Budgeted:
    name = "budgeted"

    def choose(
        self,
        past: OutlinedPast,
        settings: SessionSettings,
        meter: RequestMeter,
        extras: RequestExtras = NO_EXTRAS,
    ) -> Context:
        """The context and its manifest.

        Raises:
            Invalid: when not even the newest step and input, shortened as far as can be, fit.
        """
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        limit = settings.budget()
        budget = UNLIMITED if limit is None else limit
        given = _given(past, budget - assembly.used, meter)
        best = _mixed if budget >= CACHEABLE else _thrifty
        for attempt in (best, _newest_only):
            made = replace(assembly, parts=[], left_out=_missed(given), notes=[])
            stable = attempt(made, given)
            if made.used <= budget:
                return made.context(stable=stable)
        assembly.left_out = _missed(given)
        _smallest(assembly, given)
        return assembly.context()


BUDGETED = Budgeted()


def _given(past: OutlinedPast, room: int, meter: RequestMeter) -> _Given:
    newest = past.steps
    steps = past.outline(first_outlined(newest, room), newest) if newest else []
    first = steps[0].first_position if steps else 0
    return _Given(past, steps, *_told(past, first, room), room, meter)


def _told(past: OutlinedPast, first: int, room: int) -> tuple[list[InputMessage], int]:
    """The inputs to choose from, oldest first, and the position of the newest that is not among them; or 0.

    These are as many since position ``first`` as could have room, the newest before it, and the first of all.
    """
    most = max(EARLIER_INPUTS, room // LEAST_INPUT)
    earlier = missed = 0
    found: list[InputMessage] = []
    for message in past.inputs_newest_first():
        earlier += message.position < first
        if earlier > EARLIER_INPUTS or len(found) >= most:
            oldest = past.first_input
            missed = 0 if oldest is None or oldest.position == message.position else message.position
            found.append(oldest or message)
            break
        found.append(message)
    return [message for message in reversed(found) if has_text(message)], missed


def _missed(given: _Given) -> list[LeftOut]:
    if not given.missed:
        return []
    first = min(given.missed, given.inputs[0].position + 1) if given.inputs else 1
    return [LeftOut(position=first, last_position=given.missed, reason="there are too many inputs")]


def _mixed(assembly: Assembly, given: _Given) -> int:
    """Everything in its best form. Returns how many of the first pieces the next context will begin with."""
    inputs = _inputs(assembly, given, int(INPUTS * max(0, given.room)))
    for piece in inputs:
        assembly.add(piece)
    if not given.steps:
        return len(inputs)
    _add_digests(assembly, given)
    room = given.room - _spent(assembly)
    planned = plan_cuts(given.steps, max(1, room))
    episodes = given.past.bodies(given.steps[planned.start :])
    notes = Notes(given.steps, _names_in(assembly.parts))
    # Notes come before the messages: a piece stands after those of the same position that were added earlier.
    noted = _add_notes(assembly, given, planned, notes)
    for episode in episodes[:-1]:
        whole = assembly.part(episode, without_reasoning(episode))
        if planned.cuts and whole.segment.tokens > planned.step:
            whole = assembly.part(episode, clipped_step(episode, planned.step, given.meter), "clipped")
        assembly.add(whole)
    left = given.room - _spent(assembly)
    fresh = min(left, int(FRESH * given.room)) if planned.start else 0
    fits = assembly.part(episodes[-1]).segment.tokens <= left
    _add_newest(assembly, episodes[-1], left if fits else left - fresh, given.meter)
    if planned.start:
        room = min(fresh, given.room - _spent(assembly))
        if names := _latest(assembly, given, notes, (_FRESH, []), room):
            _put_before_newest(assembly, names)
    _account(assembly, given, planned.start, noted)
    return sum(piece.position < episodes[-1].first_position for piece in assembly.parts)


def _thrifty(assembly: Assembly, given: _Given) -> int:
    """Where nothing is cached: everything if it fits, otherwise notes that are chosen anew for each call."""
    said = sum(assembly.part(entry).segment.tokens for entry in given.inputs)
    if not given.steps or not plan_cuts(given.steps, max(1, given.room - said)).cuts:
        return _mixed(assembly, given)
    room = int(THRIFT * given.room)
    inputs = _inputs(assembly, given, room // 2)
    for piece in inputs:
        assembly.add(piece)
    _add_digests(assembly, replace(given, room=room))
    [newest] = given.past.bodies(given.steps[-1:])
    left = room - _spent(assembly)
    if assembly.part(newest).segment.tokens > left:
        left //= 2
    _add_newest(assembly, newest, left, given.meter)
    notes = Notes(given.steps, _names_in(assembly.parts[:-1]))
    at = len(given.steps) - 1
    left = room - _spent(assembly)
    chosen = notes.lines(at, at, int(LINES * left))
    if last := newest.number - 1:
        noted = _latest(assembly, given, notes, (_HEADING.format(1, last), chosen), left)
        gone = _note(_GONE.format(last), (1, last), newest.first_position, given.meter)
        _put_before_newest(assembly, noted or gone)
    _account(assembly, given, at, told_by(given.steps, chosen))
    return sum(piece.position < newest.first_position for piece in assembly.parts)


def _inputs(assembly: Assembly, given: _Given, room: int) -> list[ContextPart]:
    """Every input verbatim; where they take more than their room, the longest are clipped."""
    whole = [assembly.part(entry) for entry in given.inputs]
    sizes = [piece.segment.tokens for piece in whole]
    if sum(sizes) <= room:
        return whole
    level = fair_share(sizes, room)
    assembly.notes.append(
        f"The inputs take {sum(sizes)} tokens, more than {room}: those over {level} are clipped."
    )
    return [
        piece if piece.segment.tokens <= level else _clipped_input(assembly, entry, level)
        for entry, piece in zip(given.inputs, whole, strict=True)
    ]


def _clipped_input(assembly: Assembly, message: InputMessage, tokens: int) -> ContextPart:
    """An input of at most ``tokens`` where that is possible; otherwise a mark that there was one."""
    text = clip_input(plain_text(message.content), max(0, tokens - 8), assembly.meter) or MARK
    return assembly.part(message, replace(message, content=text), "clipped")


def _add_notes(assembly: Assembly, given: _Given, planned: CutPlan, notes: Notes) -> set[int]:
    """One message for each cut since notes were last chosen anew. Returns the indexes of noted steps."""
    noted: set[int] = set()
    first = 1
    for cut in planned.cuts:
        chosen, names = notes.choose(cut.at, cut.start, cut.room - _HEADING_TOKENS)
        noted.update(told_by(given.steps, chosen))
        last = given.steps[cut.start].number - 1
        if last >= first:
            text = _HEADING.format(first, last) + notes_text(given.steps, chosen, names)
            assembly.add(_note(text, (first, last), given.steps[cut.start].first_position, given.meter))
        first = last + 1
    return noted


def _add_digests(assembly: Assembly, given: _Given) -> None:
    """Summaries of what was before the outlined steps, the newest first, in their share of the room.

    They only change when outlines begin later, or when others are made. The steps between them are listed.
    """
    room = int(DIGESTS * max(0, given.room))
    first, end = given.steps[0].number, given.steps[0].first_position
    reason = f"older than step {first}, with which choosing began"
    for summary in islice(visible_summaries(given.past.summaries_newest_first, end), MOST_DIGESTS):
        if summary.text.strip():
            piece = summary_part(summary, assembly.meter)
            if piece.segment.tokens > room:
                break
            room -= piece.segment.tokens
            assembly.add(piece)
            assembly.leave_out(summary.last_step + 1, first - 1, reason)
            first = summary.first_step
    assembly.leave_out(1, first - 1, reason)


def _note(text: str, steps: tuple[int, int], before: int, meter: RequestMeter) -> ContextPart:
    """A piece of notes that stands right before the step that began at position ``before``."""
    said = InputMessage(before, text)
    part = meter.write(said)
    segment = Segment(source="step", step=steps[0], last_step=steps[1], form="clipped", tokens=part.tokens)
    return ContextPart(before, said, part, segment)


def _add_newest(assembly: Assembly, newest: Episode, left: int, meter: RequestMeter) -> None:
    """The newest step within ``left`` tokens: in full, or clipped and said so."""
    whole = assembly.part(newest)
    if whole.segment.tokens > left:
        whole = assembly.part(newest, without_reasoning(newest))
    if whole.segment.tokens > left:
        size = whole.segment.tokens
        whole = assembly.part(newest, clipped_step(newest, left, meter), "clipped")
        assembly.notes.append(
            f"Step {newest.number}, the newest, takes {size} tokens in full: it is clipped."
        )
    assembly.add(whole)


def _spent(assembly: Assembly) -> int:
    return sum(piece.segment.tokens for piece in assembly.parts)


def _latest(
    assembly: Assembly, given: _Given, notes: Notes, told: tuple[str, list[Note]], room: int
) -> ContextPart | None:
    """A heading, lines, and the likeliest names that stand nowhere else: they may differ at each call.

    Lines that have no room are taken off ``told``. None where nothing has room.
    """
    heading, chosen = told
    text = heading + notes_text(given.steps, chosen, [])
    shown = "\n".join((text, *_texts(assembly.parts)))
    newest = given.steps[-1]
    left = room - given.meter.text(text) - _AROUND
    names = notes.names_missing(len(given.steps) - 1, shown, left) if left >= LEAST_FRESH else []
    while names or chosen:
        text = heading + notes_text(given.steps, chosen, names)
        piece = _note(text, (1, newest.number - 1), newest.first_position, given.meter)
        if piece.segment.tokens <= room:
            return piece
        if not names:
            chosen.pop()
        names = names[: len(names) * 3 // 4]
    return None


def _put_before_newest(assembly: Assembly, piece: ContextPart) -> None:
    assembly.parts.insert(-1, piece)
    assembly.used += piece.segment.tokens


def _account(assembly: Assembly, given: _Given, start: int, noted: set[int]) -> None:
    """Lists the outlined steps of which nothing is said, in ranges."""
    missed = [given.steps[i].number for i in range(start) if i not in noted]
    for one, last in _ranges(missed):
        assembly.leave_out(one, last, "none of their lines is among the likeliest to be needed")


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges without gaps."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def _names_in(inputs: Sequence[ContextPart]) -> list[str]:
    return [name for text in _texts(inputs) for name in identifiers(text)]


def _texts(pieces: Iterable[ContextPart]) -> Iterator[str]:
    """What a model reads in pieces, arguments included."""
    for piece in pieces:
        yield from texts_of(piece.content)


def _newest_only(assembly: Assembly, given: _Given) -> int:
    """Inputs in half of the room, a line that names what is left out, and the newest step."""
    inputs = _inputs(assembly, given, max(0, given.room) // 2)
    for piece in inputs:
        assembly.add(piece)
    if given.steps:
        _add_gone(assembly, given)
        [newest] = given.past.bodies(given.steps[-1:])
        _add_newest(assembly, newest, given.room - _spent(assembly), given.meter)
    return 0


def _add_gone(assembly: Assembly, given: _Given) -> None:
    newest = given.steps[-1]
    last = newest.number - 1
    if last:
        said = InputMessage(newest.first_position, _GONE.format(last))
        part = given.meter.write(said)
        segment = Segment(source="overhead", tokens=part.tokens)
        assembly.add(ContextPart(newest.first_position, said, part, segment))
        assembly.leave_out(1, last, "there is no room besides the inputs and the newest step")


def _smallest(assembly: Assembly, given: _Given) -> None:
    """The newest input and the newest step, shortened as far as can be.

    Raises:
        Invalid: when these do not fit.
    """
    pinned = [_clipped_input(assembly, entry, 0) for entry in given.inputs[-1:]]
    for entry in given.inputs[:-1]:
        out = LeftOut(position=entry.position, reason="there is room for the newest input only")
        assembly.left_out.append(out)
    if given.steps:
        _add_gone(assembly, given)
        [newest] = given.past.bodies(given.steps[-1:])
        pinned.append(assembly.part(newest, clipped_step(newest, 0, given.meter), "clipped"))
    assembly.notes.append("There is room for nothing but the newest input and step, shortened.")
    assembly.pin(pinned)

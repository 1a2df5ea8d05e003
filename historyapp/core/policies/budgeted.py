"""The best mix of steps within a hard budget on the whole request, with a beginning that rarely changes.

A context has every input, summaries of the oldest steps, notes on later ones, newer steps as messages,
lines and names that appear nowhere else in it, and the newest step. Inputs, notes, older messages and the
newest step each have a share of the budget, so none can take the room of another. The module ``cuts``
decides where notes end and messages begin, ``notes`` chooses lines, and ``clipping`` shortens steps.
docs/context-quality.md has measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from historyapp.core.budget import RequestMeter
from historyapp.core.content import plain_text
from historyapp.core.context import Context
from historyapp.core.conversation import InputMessage
from historyapp.core.episodes import Episode
from historyapp.core.manifest import LeftOut, Segment
from historyapp.core.policies.assembly import Assembly
from historyapp.core.policies.base import (
    NO_EXTRAS,
    OutlinedPast,
    RequestExtras,
    StepOutline,
)
from historyapp.core.policies.clipping import clipped_step
from historyapp.core.policies.cuts import CutPlan, first_outlined, plan_cuts
from historyapp.core.policies.digests import add_digests
from historyapp.core.policies.inputs import TOO_MANY, clipped_input, fit_inputs
from historyapp.core.policies.notes import Note, Notes, covered_steps, notes_text
from historyapp.core.policies.parts import ContextPart
from historyapp.core.policies.shown import PartTexts, ShownTexts
from historyapp.core.policies.sources import LineOfUsedName, find_sources
from historyapp.core.settings import SessionSettings

INPUTS = 0.3
"""Share of the room up to which inputs stay verbatim, if not everything fits. Above it the longest are
clipped."""
EARLIER_INPUTS = 40
"""At most this many inputs before the outlined steps are read, in addition to the first input."""
MIN_INPUT = 6
"""Tokens below which no input can be shortened."""
FRESH = 0.2
"""Share of the room for lines and names that appear nowhere else, even where the newest step is clipped for
them. Each request pays for them in full."""
MAX_FRESH = 0.3
"""The maximum of this share, if the newest step is short."""
MIN_FRESH = 20
"""Tokens below which no message of names is made."""
MIN_FILLED = 16
"""Tokens left by notes below which the newest step stays as it was clipped."""
CACHEABLE = 1280
"""The smallest budget in tokens with which caching can work: providers cache an unchanged beginning of 1,024
tokens or more, and with smaller budgets notes and inputs do not reach that length."""
UNCACHED_NEWEST = 0.4
"""Below ``CACHEABLE``, the share of the room left by inputs for a newest step that exceeds half of it."""
UNCACHED_LINES = 0.4
"""Below it, the share for lines of the room for lines and names."""
_EARLIER_UNCACHED_FRESH = 0.93  # share of the rest for lines and names, until 2026-11-30
UNLIMITED = 1_000_000
"""The number of tokens used as the budget if there is none."""
_NOTES_HEADING = "Notes on steps {} to {}. Each can be fetched in full by its number.\n"
_FRESH_HEADING = "Also seen so far: "
_LEFT_OUT = "Steps 1 to {} are left out. Each can be fetched in full by its number."
_NOTES_HEADING_TOKENS = 24
_AROUND = 8  # tokens around a message and before names


@dataclass(frozen=True, slots=True)
class _Material:
    """The content from which a context is made, and the tokens that it may take."""

    past: OutlinedPast
    steps: list[StepOutline]
    inputs: list[InputMessage]
    left_out: list[LeftOut]
    """The inputs that were not read."""
    room: int
    """Tokens for inputs, notes and steps."""
    meter: RequestMeter
    newest: list[tuple[Episode, ContextPart]] = field(default_factory=list)
    """The newest step and its part in full, once they have been created."""


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
            Invalid: when the newest step and input do not fit even in their shortest forms.
        """
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        limit = settings.budget()
        budget = UNLIMITED if limit is None else limit
        material = _material(past, budget - assembly.used, meter, extras)
        add_parts = _add_parts if budget >= CACHEABLE else _add_uncached_parts
        for add in (add_parts, _newest_only):
            candidate = replace(assembly, parts=[], left_out=list(material.left_out), notes=[])
            stable = add(candidate, material)
            if candidate.used <= budget:
                return candidate.context(stable=stable)
        assembly.left_out = list(material.left_out)
        _smallest(assembly, material)
        return assembly.context()


BUDGETED = Budgeted()


def _material(past: OutlinedPast, room: int, meter: RequestMeter, extras: RequestExtras) -> _Material:
    """The outlined steps, and as many inputs after the first outlined step as could fit.

    Of the earlier inputs, only the newest ones and the very first are read.
    """
    newest = past.steps
    steps = past.outline(first_outlined(newest, room), newest) if newest else []
    if extras.reads_few_names:
        steps = [step._replace(excerpt=step.excerpt.with_few_names()) for step in steps]
    first = steps[0].first_position if steps else 0
    max_inputs = max(EARLIER_INPUTS, room // MIN_INPUT)
    earlier = missed = 0
    newest_inputs: list[InputMessage] = []
    for message in past.inputs_newest_first():
        earlier += message.position < first
        if earlier > EARLIER_INPUTS or len(newest_inputs) >= max_inputs:
            oldest = past.first_input
            missed = 0 if oldest is None or oldest.position == message.position else message.position
            newest_inputs.append(oldest or message)
            break
        newest_inputs.append(message)
    inputs = [message for message in reversed(newest_inputs) if plain_text(message.content).strip()]
    left_out = []
    if missed:
        begin = min(missed, inputs[0].position + 1) if inputs else 1
        left_out = [LeftOut(position=begin, last_position=missed, reason=TOO_MANY)]
    return _Material(past, steps, inputs, left_out, room, meter)


def _add_parts(assembly: Assembly, material: _Material) -> int:
    """Adds each part in its best form. Returns the number of parts at the beginning that the next
    context will repeat.
    """
    inputs = _inputs(assembly, material)
    for part in inputs:
        assembly.add(part)
    if not material.steps:
        return len(inputs)
    add_digests(assembly, material.steps[0], material.room)
    room = material.room - assembly.parts_tokens
    plan = plan_cuts(material.steps, max(1, room))
    assembly.cut_cost = plan.cost
    episodes = material.past.bodies(material.steps[plan.start :])
    shown = PartTexts(assembly.parts)
    # Where everything fits, there are no notes, so no text is read.
    known = shown.texts().names() if plan.cuts else ()
    sources = _sources(material, inputs, assembly.extras) if plan.cuts else []
    notes = Notes(material.steps, known, assembly.extras, sources)
    # Notes are added before the messages: parts of the same position stay in the order of their addition.
    noted = _add_notes(assembly, material, plan, notes)
    for episode in episodes[:-1]:
        part = assembly.part_without_reasoning(episode)
        if plan.cuts and part.segment.tokens > plan.step:
            part = _clipped_part(assembly, episode, plan.step)
        assembly.add(part)
    room_left = material.room - assembly.parts_tokens
    _, newest = _newest(assembly, material, episodes[-1])
    fresh_room = min(room_left - newest.segment.tokens, int(MAX_FRESH * room))
    fresh = min(room_left, max(fresh_room, int(FRESH * room))) if plan.start else 0
    _add_newest(assembly, episodes[-1], newest, room_left - fresh)
    if plan.start:
        fresh = min(int(MAX_FRESH * material.room), material.room - assembly.parts_tokens)
        chosen = notes.fresh_lines(len(material.steps) - 1, shown.texts(), fresh)
        if fresh_note := _fresh_note(material, notes, shown.texts(), (_FRESH_HEADING, chosen), fresh):
            assembly.add(fresh_note, before_newest=True)
    _fill_newest(assembly, material)
    _list_missing(assembly, material.steps[: plan.start], noted)
    return sum(part.position < episodes[-1].first_position for part in assembly.parts)


def _add_uncached_parts(assembly: Assembly, material: _Material) -> int:
    """Adds parts without regard to caching: all steps if they fit, otherwise notes chosen for
    each request.
    """
    if _all_fits(material, sum(assembly.part(message).segment.tokens for message in material.inputs)):
        return _add_parts(assembly, material)
    inputs = _inputs(assembly, material)
    for part in inputs:
        assembly.add(part)
    add_digests(assembly, material.steps[0], material.room)
    shown = PartTexts(assembly.parts)
    sources = _sources(material, inputs, assembly.extras)
    notes = Notes(material.steps, shown.texts().names(), assembly.extras, sources)
    newest, whole = _newest(assembly, material)
    room_left = material.room - assembly.parts_tokens
    fits = whole.segment.tokens <= room_left // 2
    _add_newest(assembly, newest, whole, room_left if fits else int(UNCACHED_NEWEST * room_left))
    extras = assembly.extras
    is_reduced = extras.notes_as_earlier and not extras.scores_as_earlier
    room_left = int(
        (_EARLIER_UNCACHED_FRESH if is_reduced else 1.0) * (material.room - assembly.parts_tokens)
    )
    line_share = None if extras.notes_as_earlier else UNCACHED_LINES
    chosen = notes.fresh_lines(len(material.steps) - 1, shown.texts(), room_left, line_share)
    if last := newest.number - 1:
        heading = _NOTES_HEADING.format(1, last)
        note = _fresh_note(material, notes, shown.texts(), (heading, chosen), room_left)
        left_out_note = _note(_LEFT_OUT.format(last), (1, last), newest.first_position, material.meter)
        assembly.add(note or left_out_note, before_newest=True)
    _fill_newest(assembly, material)
    _list_missing(assembly, material.steps[:-1], covered_steps(material.steps, chosen))
    return sum(part.position < newest.first_position for part in assembly.parts)


def _inputs(assembly: Assembly, material: _Material, room: int | None = None) -> list[ContextPart]:
    """The inputs within ``room`` tokens; None: within their share of the whole room."""
    whole = [assembly.part(message) for message in material.inputs]
    if room is None:
        size = sum(part.segment.tokens for part in whole)
        room = material.room if _all_fits(material, size) else int(INPUTS * max(0, material.room))
    return fit_inputs(assembly, material.inputs, whole, room)


def _sources(
    material: _Material, inputs: Sequence[ContextPart], extras: RequestExtras
) -> list[LineOfUsedName]:
    """The lines in which the agent read the names that it used, also in inputs that are clipped or left out.

    Args:
        inputs: the parts of the context with inputs.
    """
    if extras.notes_as_earlier:
        return []
    full = {part.position for part in inputs if part.segment.form == "full"}
    hidden = [message for message in material.inputs if message.position not in full]
    return find_sources(material.past, material.steps, hidden)


def _all_fits(material: _Material, input_tokens: int) -> bool:
    """Whether all inputs and all steps fit in full."""
    return not material.steps or not plan_cuts(material.steps, max(1, material.room - input_tokens)).cuts


def _add_notes(assembly: Assembly, material: _Material, plan: CutPlan, notes: Notes) -> set[int]:
    """Adds a message for each cut since all notes were last chosen. Returns the indexes of noted steps."""
    noted: set[int] = set()
    first = 1
    for cut in plan.cuts:
        chosen, names = notes.choose(cut.at, cut.start, cut.room - _NOTES_HEADING_TOKENS)
        noted.update(covered_steps(material.steps, chosen))
        last = material.steps[cut.start].number - 1
        before = material.steps[cut.start].first_position
        while last >= first:
            text = _NOTES_HEADING.format(first, last) + notes_text(material.steps, chosen, names)
            part = _note(text, (first, last), before, material.meter)
            if not (names and notes.exceeds(part.segment.tokens, cut.room)):
                assembly.add(part)
                break
            names = notes.fewer(names, part.segment.tokens, cut.room)
        first = last + 1
    return noted


def _note(text: str, steps: tuple[int, int], before: int, meter: RequestMeter) -> ContextPart:
    """A part with notes, placed right before the step that began at position ``before``."""
    content = InputMessage(before, text)
    rendered = meter.write(content)
    segment = Segment(
        source="step", step=steps[0], last_step=steps[1], form="clipped", tokens=rendered.tokens
    )
    return ContextPart(before, content, rendered, segment)


def _newest(
    assembly: Assembly, material: _Material, newest: Episode | None = None
) -> tuple[Episode, ContextPart]:
    """The newest step and its part in full. Both attempts share it, because writing a large step takes long.

    ``newest``: the step, if it has been read.
    """
    if not material.newest:
        episode = newest or material.past.bodies(material.steps[-1:])[0]
        material.newest.append((episode, assembly.part(episode)))
    return material.newest[0]


def _clipped_part(assembly: Assembly, episode: Episode, tokens: int, *, fills: bool = False) -> ContextPart:
    turn, written = clipped_step(episode, tokens, assembly.meter, fills=fills)
    return assembly.part(episode, turn, "clipped", written)


def _add_newest(
    assembly: Assembly, newest: Episode, whole: ContextPart, left: int, *, fills: bool = False
) -> None:
    """Adds the newest step within ``left`` tokens: in full (``whole``), or clipped with a note.

    Args:
        fills: see :func:`historyapp.core.policies.clipping.clip_result`.
    """
    if whole.segment.tokens > left and newest.output.reasoning:
        whole = assembly.part_without_reasoning(newest)
    if whole.segment.tokens > left:
        size = whole.segment.tokens
        whole = _clipped_part(assembly, newest, left, fills=fills)
        note = f"Step {newest.number}, the newest, takes {size} tokens in full: it is clipped."
        assembly.notes.append(note)
    assembly.add(whole)


def _fill_newest(assembly: Assembly, material: _Material) -> None:
    """Gives the newest step the room that the notes have left, if it is clipped."""
    clipped, room_left = assembly.parts[-1], material.room - assembly.parts_tokens
    if clipped.segment.form == "clipped" and room_left >= MIN_FILLED and assembly.extras.fills_newest:
        episode, whole = material.newest[0]
        assembly.remove_newest()
        assembly.notes.pop()
        _add_newest(assembly, episode, whole, room_left + clipped.segment.tokens, fills=True)


def _fresh_note(
    material: _Material,
    notes: Notes,
    shown: ShownTexts,
    heading_and_lines: tuple[str, list[Note]],
    room: int,
) -> ContextPart | None:
    """A heading, lines, and the best names that appear nowhere else. They may differ in each context.

    Lines without room are removed from ``heading_and_lines``. None if nothing has room.

    ``shown``: the texts of the context. The heading and the lines are added to them.
    """
    heading, chosen = heading_and_lines
    text = heading + notes_text(material.steps, chosen, [])
    shown.add(text)
    newest = material.steps[-1]
    room_left = room - material.meter.text_tokens(text) - _AROUND
    names = notes.names_missing(len(material.steps) - 1, shown, room_left) if room_left >= MIN_FRESH else []
    while names or chosen:
        text = heading + notes_text(material.steps, chosen, names)
        part = _note(text, (1, newest.number - 1), newest.first_position, material.meter)
        if part.segment.tokens <= room:
            return part
        if not names:
            chosen.pop()
        names = notes.fewer(names, part.segment.tokens, room)
    return None


def _list_missing(assembly: Assembly, steps: Sequence[StepOutline], noted: set[int]) -> None:
    """Lists the steps without a note as left out, in ranges. ``noted``: the indexes of steps with a note."""
    missing = {step.number for index, step in enumerate(steps) if index not in noted}
    assembly.leave_out_all(missing, "none of their lines is likely enough to be needed")


def _newest_only(assembly: Assembly, material: _Material) -> int:
    """Adds inputs in half of the room, a line that names the left-out steps, and the newest step."""
    inputs = _inputs(assembly, material, max(0, material.room) // 2)
    for part in inputs:
        assembly.add(part)
    if material.steps:
        _add_left_out_line(assembly, material)
        newest, whole = _newest(assembly, material)
        _add_newest(assembly, newest, whole, material.room - assembly.parts_tokens)
    return 0


def _add_left_out_line(assembly: Assembly, material: _Material) -> None:
    newest = material.steps[-1]
    last = newest.number - 1
    if last:
        content = InputMessage(newest.first_position, _LEFT_OUT.format(last))
        rendered = material.meter.write(content)
        segment = Segment(source="overhead", tokens=rendered.tokens)
        assembly.add(ContextPart(newest.first_position, content, rendered, segment))
        assembly.leave_out(1, last, "there is room only for the inputs and the newest step")


def _smallest(assembly: Assembly, material: _Material) -> None:
    """Adds the newest input and the newest step in their shortest forms.

    Raises:
        Invalid: when these do not fit.
    """
    pinned = [clipped_input(assembly, message, 0) for message in material.inputs[-1:]]
    for message in material.inputs[:-1]:
        out = LeftOut(position=message.position, reason="there is room for the newest input only")
        assembly.left_out.append(out)
    if material.steps:
        _add_left_out_line(assembly, material)
        newest, _ = _newest(assembly, material)
        pinned.append(_clipped_part(assembly, newest, 0))
    assembly.notes.append("There is room only for the newest input and the newest step, both shortened.")
    assembly.pin(pinned)

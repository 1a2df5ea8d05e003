"""The newest steps in full, older ones in one progress message, and every input.

The endpoint ``/messages`` keeps the exact behaviour of the earlier system (``core/messages``). This policy
keeps to the budget and accounts for every input, as all policies do.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Context, Rendered
from historyapp.core.conversation import InputMessage
from historyapp.core.episodes import Episode
from historyapp.core.manifest import Segment
from historyapp.core.policies.assembly import NO_ROOM, Assembly
from historyapp.core.policies.base import NO_EXTRAS, Past, RequestExtras
from historyapp.core.policies.parts import ContextPart
from historyapp.core.progress import PROGRESS, fill, form_of, progress_line, write_newest
from historyapp.core.settings import SessionSettings

BEGINNING = 0
"""The position of the progress message: before everything else."""


class Episodic:
    name = "episodic"

    def choose(
        self, past: Past, settings: SessionSettings, meter: RequestMeter, extras: RequestExtras = NO_EXTRAS
    ) -> Context:
        """The newest step is pinned. Then come the first input, the other inputs, and the newest steps.

        Steps that do not fit in full go into the progress message.
        """
        assembly = Assembly.begin(self.name, past, settings.budget(), meter, extras)
        steps = past.episodes_newest_first()
        full = max(0, settings.full_message_count)
        assembly.pin(map(assembly.part, islice(steps, min(1, full))))
        _add_inputs(assembly, past)
        older_steps = islice(steps, max(0, full - 1))
        first_older = next((step for step in older_steps if not assembly.take(assembly.part(step))), None)
        _add_progress(assembly, chain([first_older] if first_older else [], steps))
        included_steps = [part.segment.step for part in assembly.parts if part.segment.step is not None]
        last = min(included_steps, default=past.steps + 1) - 1
        assembly.leave_out(1, last, "older than the first step that did not fit")
        return assembly.context()


def _add_inputs(assembly: Assembly, past: Past) -> None:
    """The first input, then the newest ones until one does not fit."""
    first = past.first_input
    if first and not assembly.take(assembly.part(first)):
        first = None
    for message in past.inputs_newest_first():
        if first is not None and message.position == first.position:
            continue
        if not assembly.take(assembly.part(message)):
            assembly.leave_out_inputs(past, message.position, NO_ROOM)
            return


def _add_progress(assembly: Assembly, steps: Iterable[Episode]) -> None:
    """One message with as many of the older steps as fit."""
    meter = assembly.meter
    empty_tokens = meter.write(InputMessage(BEGINNING, PROGRESS, "system")).tokens
    lines = fill(steps, assembly.used + empty_tokens, assembly.max_tokens, meter.text_tokens, _line)

    def write(texts: Sequence[str]) -> tuple[tuple[InputMessage, Rendered], int]:
        message = InputMessage(BEGINNING, PROGRESS + "\n\n".join(texts), "system")
        rendered = meter.write(message)
        return (message, rendered), rendered.tokens

    limit = None if assembly.max_tokens is None else assembly.max_tokens - assembly.used
    fitted = write_newest(lines, limit, write)
    if fitted is None:
        return
    included, (message, rendered) = fitted
    line_tokens = sum(tokens for _, _, tokens in included)
    heading = Segment(source="overhead", tokens=rendered.tokens - line_tokens)
    assembly.add(ContextPart(BEGINNING, message, rendered, heading))
    for episode, _, tokens in included:
        segment = Segment(source="step", step=episode.number, form=form_of(episode), tokens=tokens)
        empty = InputMessage(episode.first_position, "")
        assembly.add(ContextPart(episode.first_position, empty, meter.write(empty), segment))


def _line(episode: Episode) -> str:
    """The line of the progress message, with the output's text below the action."""
    line, text = progress_line(episode), episode.output.text
    text = "" if text == episode.output.thoughts_text else text
    if episode.summary is not None or not episode.action or not text.strip():
        return line
    return f"{line}\n  - **Text:** {text}"


EPISODIC = Episodic()

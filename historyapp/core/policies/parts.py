"""The parts from which a policy builds a context."""

from dataclasses import dataclass

from historyapp.core.budget import RequestMeter
from historyapp.core.context import Rendered
from historyapp.core.conversation import ConversationPart, InputMessage
from historyapp.core.manifest import Segment
from historyapp.core.policies.base import SummaryLike


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of a conversation: its position, its content as the format writes it, and its manifest
    segment."""

    position: int
    content: ConversationPart
    rendered: Rendered
    segment: Segment
    covers_to: int = 0
    """The last position that a summary covers. Inputs between its first and last positions are separate
    parts."""
    is_whole: bool = False
    """Whether it is a step or an input as it was recorded, apart from reasoning."""
    blocks: int = 0
    """The step's reasoning blocks."""


def summary_part(summary: SummaryLike, meter: RequestMeter) -> ContextPart:
    """A summary as a user's message. It repeats texts of tools, which must not have the system role."""
    first, last = summary.first_step, summary.last_step
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    content = InputMessage(summary.first_position, f"Summary of {steps}:\n{summary.text}")
    rendered = meter.write(content)
    segment = Segment(
        source="step",
        step=first,
        last_step=last,
        form="summarised",
        summary=str(summary.id),
        tokens=rendered.tokens,
    )
    return ContextPart(summary.first_position, content, rendered, segment, summary.last_position)

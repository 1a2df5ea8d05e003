"""The outputs for which the source reports too few tokens, so that pages can say so."""

from dataclasses import dataclass, field

from historyapp.core.overview.files import add_step_number
from historyapp.core.usage import Usage, lacks_output, reports_too_few


@dataclass(slots=True)
class TooFewTokens:
    steps: list[int] = field(default_factory=list)
    """The first steps with such outputs."""
    count: int = 0
    missing: int = 0
    """The tokens that these outputs have by our own count, without the reported ones."""

    def add(self, number: int, usage: Usage, written: int) -> None:
        """Adds the model call of a step.

        Args:
            written: the tokens of the output by our own count.
        """
        if reports_too_few(usage, written):
            add_step_number(self.steps, number)
            self.count += 1
            self.missing += written - usage.output

    def is_noted(self, output: int) -> bool:
        """As :func:`historyapp.core.usage.lacks_output`."""
        return lacks_output(self.missing, output)

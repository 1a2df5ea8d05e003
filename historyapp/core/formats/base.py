"""What a format is: it writes a context as one provider's request."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from historyapp.core.formats.tools import Definition
from historyapp.core.formats.turns import Aside, Turn
from historyapp.core.manifest import Context

START = "(What came before is not shown.)"
CONTINUE = "Continue."

Item = dict[str, Any]
"""A message or an item of input, as the provider has it."""


class Frame(NamedTuple):
    """What a format adds of itself, because its provider refuses to do without."""

    before: str = ""
    """A user's text at the beginning."""
    after: str = ""
    """And at the end."""


class Format(Protocol):
    name: str
    most: Frame
    """The most that :meth:`frame` adds."""

    def render(self, context: Context, *, model: str, tools: Sequence[Definition] = ()) -> dict[str, Any]:
        """The fields of a request that hold the context, in the order in which the provider reads them.

        Raises:
            Invalid: when a tool's definition is none.
        """
        ...

    def items(self, conversation: Sequence[Turn | Aside]) -> list[Item]:
        """What is said, without anything that depends on what stands before or after it."""
        ...

    def frame(self, items: Sequence[Item]) -> Frame:
        """What has to be added to all items of a request."""
        ...

    def tools(self, definitions: Sequence[Definition]) -> list[dict[str, Any]]:
        """Tools in the provider's shape.

        Raises:
            Invalid: when a definition is none.
        """
        ...

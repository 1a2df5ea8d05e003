"""Who may spend money on calls of a provider's model."""

from dataclasses import dataclass

from historyapp.models import ApiKey
from historyapp.wire.problems import SpendForbidden

SCOPE = "spend"


@dataclass(frozen=True, slots=True)
class Spender:
    """Who asks for a call of a provider's model: an API key, a person, or the operator (the default)."""

    key: ApiKey | None = None
    is_member: bool = False
    """Whether it is a person who does not own the project."""

    def check(self, subject: str) -> None:
        """Checks that the spender may spend.

        Args:
            subject: what would cost money, as the beginning of a sentence.

        Raises:
            SpendForbidden: when a key lacks the scope ``spend``, or a person is no owner of the project.
        """
        costs = f"{subject} calls a provider's model, which costs money"
        if self.key is not None and SCOPE not in self.key.scopes:
            raise SpendForbidden(
                f"{costs}, and this API key lacks the scope spend. Ask an owner of the project to grant it: "
                f"playhead keys grant {self.key.prefix}. A compression with the model local needs no scope.",
                scope=SCOPE,
            )
        if self.is_member:
            raise SpendForbidden(
                f"{costs}. Only owners of the project may start it. Use the model local, or ask an owner."
            )


OPERATOR = Spender()

"""The client's behaviour while the server cannot be reached."""

from dataclasses import dataclass
from typing import Literal

from historyapp.client.retrying import QUICK_ATTEMPTS, RetryLimit
from historyapp.client.spool import Spool


@dataclass(frozen=True, slots=True)
class Wait:
    """Every API call is retried until the server responds, for at most ``seconds`` in total."""

    seconds: float = 300.0

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"Wait({self.seconds!r}): seconds must be more than 0.")


@dataclass(frozen=True, slots=True)
class Raise:
    """Every API call fails after a few quick attempts."""

    attempts: int = QUICK_ATTEMPTS

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Raise({self.attempts!r}): attempts must be at least 1.")


Outage = Wait | Raise | Spool
OnOutage = Outage | Literal["wait", "raise", "spool"]


def outage_of(on_outage: OnOutage) -> Outage:
    """The behaviour that the argument ``on_outage`` of a client names.

    Raises:
        ValueError: for any other value.
    """
    match on_outage:
        case Wait() | Raise() | Spool():
            return on_outage
        case "wait":
            return Wait()
        case "raise":
            return Raise()
        case "spool":
            return Spool()
    raise ValueError(
        f"on_outage is {on_outage!r}. Use 'wait', 'spool', 'raise', Wait(…), Spool(…) or Raise(…)."
    )


def retry_limit_of(outage: Outage, timeout: float) -> RetryLimit:
    """The limit of an API call that needs the server's response.

    Args:
        timeout: seconds that one attempt may take.
    """
    match outage:
        case Wait():
            return RetryLimit(outage.seconds)
        case Raise():
            return RetryLimit(timeout, outage.attempts)
        case Spool():
            return RetryLimit(timeout, QUICK_ATTEMPTS)

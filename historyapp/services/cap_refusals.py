"""The errors that refuse a model call because of a spending cap."""

from historyapp.core.usage import MICRO, dollar_text
from historyapp.models import SpendingCounter
from historyapp.models.database_clock import database_now
from historyapp.wire.problems import CapReached


def _cap_text(cap: SpendingCounter) -> str:
    """The beginning of a sentence, such as "The API key ph_1234567… may spend $5.00 a day"."""
    subject = f"The {cap.subject}"
    if cap.session_id is not None:
        subject += f" {cap.session_id}"
    elif cap.key is not None:
        subject = f"The API key {cap.key.prefix}…"
    return f"{subject} may spend {cap}"


def cap_exceeded(cap: SpendingCounter, attempt_cost: int) -> CapReached:
    """The refusal of a call whose maximum cost, in millionths of a dollar, exceeds what a cap leaves."""
    return _cap_reached(
        f"{_cap_text(cap)} and has spent {dollar_text(cap.counted)}, including running calls. "
        f"This call may cost {dollar_text(attempt_cost)}. The next {cap.period} begins at "
        f"{cap.ends_at:%Y-%m-%d %H:%M} UTC. Wait until then, or ask an owner of the project to raise "
        "the cap.",
        cap,
    )


def unknown_price(cap: SpendingCounter, model: str, part: str) -> CapReached:
    """The refusal of a call without a known price.

    Args:
        part: a description of the part of the request that has no price; empty: the model has none.
    """
    cap.begin_period(database_now())
    advice = "Leave it out."
    if not part:
        advice = "Choose a model of the price list, or ask the operator to add its price to PLAYHEAD_PRICES."
    return _cap_reached(
        f"{_cap_text(cap)}, and the price of {part or model} is not known, so the call "
        f"could exceed the cap. {advice}",
        cap,
        model=model,
    )


def _cap_reached(detail: str, cap: SpendingCounter, **fields: str) -> CapReached:
    assert cap.limit is not None
    if cap.session_id is not None:
        fields["session"] = str(cap.session_id)
    if cap.key is not None:
        fields["key"] = cap.key.prefix
    return CapReached(
        detail,
        subject=cap.subject,
        period=cap.period,
        limit=cap.limit / MICRO,
        spent=cap.counted / MICRO,
        ends_at=cap.ends_at.isoformat().replace("+00:00", "Z"),
        **fields,
    )

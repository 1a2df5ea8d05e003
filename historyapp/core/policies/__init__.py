"""Policies choose the content of a context. Each has a file of its own; the registry lists them."""

from historyapp.core.errors import Invalid
from historyapp.core.policies.base import Policy
from historyapp.core.policies.budgeted import BUDGETED
from historyapp.core.policies.episodic import EPISODIC
from historyapp.core.policies.live import LIVE
from historyapp.core.policies.masked import MASKED
from historyapp.core.policies.sliding_window import SLIDING_WINDOW

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        BUDGETED,
        EPISODIC,
        SLIDING_WINDOW,
        LIVE,
        MASKED,
    )
}


def policy_named(name: str) -> Policy:
    """The policy with this name.

    Raises:
        Invalid: when the name is unknown. The message lists all policies.
    """
    if name not in POLICIES:
        raise Invalid(
            f"There is no policy {name!r}. Use one of {', '.join(POLICIES)}.", policies=list(POLICIES)
        )
    return POLICIES[name]

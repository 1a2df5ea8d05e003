"""How a context is chosen. One file each; the registry names them."""

from historyapp.core.policies.base import Policy
from historyapp.core.policies.episodic import EPISODIC

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (EPISODIC,)}

"""What ``make test`` leaves to ``make test-all``: most examples of properties, and some parameters.

The profile ``ci`` is the default, and ``--hypothesis-profile all`` chooses all examples. ``few`` is for a
test that runs other tests.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

_PART, _LEAST = 12, 8
"""The profile ``ci`` tries one example in the first number, and the second number at least."""
_FEW = 3
"""The profile ``few`` tries this many examples."""


def register_profiles() -> None:
    """The profiles. They have no deadline: the machine may be busy with other things."""
    settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("ci", settings.get_profile("all"), max_examples=100 // _PART)
    settings.register_profile("few", settings.get_profile("all"), max_examples=_FEW)
    _read_constants_only_for_all_examples()


def _read_constants_only_for_all_examples() -> None:
    """Hypothesis looks in all loaded modules for numbers and texts, which it tries for one value in twenty.

    In a fresh clone this takes two seconds of processor time.
    """
    usual, none = providers._get_local_constants, Constants()
    patch = pytest.MonkeyPatch()
    patch.setattr(providers, "_get_local_constants", lambda: usual() if runs_all_examples() else none)


def runs_all_examples() -> bool:
    """Whether ``make test-all`` started this run."""
    return settings.get_current_profile_name() == "all"


def examples(maximum: int, *, minimum: int = _LEAST, part: int = _PART) -> int:
    """The number of examples for the loaded profile: all, or one in ``part`` and the minimum at least."""
    if runs_all_examples():
        return maximum
    if settings.get_current_profile_name() == "few":
        return min(maximum, minimum, _FEW)
    return max(maximum // part, min(maximum, minimum))


def thorough(*values: Any) -> Any:
    """A parameter of a test that ``make test-all`` alone tries."""
    return pytest.param(*values, marks=pytest.mark.thorough)

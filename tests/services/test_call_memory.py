"""Large contexts of model calls that wait for a provider are limited together."""

import pytest

from historyapp.services.call_memory import MAX_TOTAL, OF_PROJECT, SMALL, CallMemory
from historyapp.wire.problems import ServerUnavailable, TooManyRequests


def test_a_project_may_have_large_contexts_up_to_its_limit() -> None:
    memory = CallMemory()
    with memory.held("a", OF_PROJECT // 2), memory.held("a", OF_PROJECT // 2):
        with (
            pytest.raises(TooManyRequests, match=r"of this project.*smaller `max_tokens`"),
            memory.held("a", SMALL + 1),
        ):
            pass
        with memory.held("b", OF_PROJECT):
            pass
    with memory.held("a", OF_PROJECT):
        pass


def test_all_projects_together_have_a_limit() -> None:
    memory = CallMemory()
    with (
        memory.held("a", MAX_TOTAL - 2 * SMALL),
        pytest.raises(ServerUnavailable, match="of this server"),
        memory.held("b", 3 * SMALL),
    ):
        pass


def test_a_usual_context_does_not_count() -> None:
    memory = CallMemory()
    with memory.held("a", MAX_TOTAL), memory.held("a", SMALL), memory.held("b", SMALL):
        pass


def test_a_single_context_may_be_larger_than_the_limits() -> None:
    memory = CallMemory()
    with memory.held("a", 2 * MAX_TOTAL):
        memory.check("b")
        with pytest.raises(TooManyRequests, match="Wait until one has ended"):
            memory.check("a")
    with memory.held("a", OF_PROJECT):
        memory.check("a")

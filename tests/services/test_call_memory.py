"""Large contexts of model calls that wait for a provider are limited together."""

from contextlib import ExitStack

import pytest

from historyapp.services.call_memory import FEW, MAX_TOTAL, OF_PROJECT, SMALL, SPARE, CallMemory
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
        memory.held("a", OF_PROJECT),
        memory.held("b", MAX_TOTAL - OF_PROJECT),
        pytest.raises(ServerUnavailable, match="of this server"),
        memory.held("c", FEW + 1),
    ):
        pass


def test_a_single_context_leaves_room_for_other_projects() -> None:
    memory = CallMemory()
    with memory.held("a", 2 * MAX_TOTAL), memory.held("b", OF_PROJECT):
        pass


def test_projects_with_small_contexts_have_room_while_others_use_their_limits() -> None:
    memory = CallMemory()
    with ExitStack() as held:
        held.enter_context(memory.held("a", 2 * MAX_TOTAL))
        held.enter_context(memory.held("b", 2 * MAX_TOTAL))
        for project in range(SPARE // FEW):
            held.enter_context(memory.held(project, FEW // 2))
            held.enter_context(memory.held(project, FEW // 2))
        with pytest.raises(ServerUnavailable, match="of this server"):
            held.enter_context(memory.held("c", FEW))


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

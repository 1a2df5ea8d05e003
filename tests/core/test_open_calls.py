from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.conversation import PairedResult, Progress
from historyapp.core.entries import Body, Entry, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.open_calls import OpenCalls
from historyapp.core.projection import Tail, advance
from tests.core.entries import START

IDS = st.lists(st.sampled_from("abcd"), max_size=6)
CALLS = 2_000


class Counted(str):
    """An id that counts how often ids of this class are hashed or compared."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__ne__(other)


@given(IDS, st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcde"))))
def test_a_value_is_unchanged_by_values_made_from_it(ids: list[str], removals: list[tuple[int, str]]) -> None:
    values = [(OpenCalls(ids), ids)]
    for number, id in removals:
        value, plain = values[number % len(values)]
        values.append((value.without(id), [other for other in plain if other != id]))
    for value, plain in values:
        assert list(value) == plain
        assert len(value) == len(plain)
        assert value == OpenCalls(plain)
        assert {id for id in "abcde" if id in value} == set(plain)


def wide_step() -> tuple[ModelOutput, list[ToolResult]]:
    """An output with very many calls, and their results in the opposite order."""
    ids = [Counted(f"call {number}") for number in range(CALLS)]
    output = ModelOutput(tool_calls=tuple(ToolCall(id=id, name="ls") for id in ids))
    return output, [ToolResult(tool_call_id=id, status="success", outputs="ok") for id in reversed(ids)]


def test_answering_every_call_of_a_step_looks_at_each_a_few_times() -> None:
    output, results = wide_step()
    progress = Progress.begin(output)
    Counted.looks = 0
    for result in results:
        progress, _ = progress.add_results([result])
    assert progress.status == "success"
    assert CALLS <= Counted.looks <= 20 * CALLS


def test_the_work_for_the_rows_of_a_step_grows_linearly_with_its_calls() -> None:
    output, results = wide_step()
    bodies: list[Body] = [output, *(ToolResults(results=(result,)) for result in results)]
    tail = Tail()
    Counted.looks = 0
    for position, body in enumerate(bodies, start=1):
        tail = advance(tail, Entry(position, body, START, {}, 1)).tail
    assert tail.step
    assert (tail.step.status, len(tail.step.pending)) == ("success", 0)
    assert CALLS <= Counted.looks <= 40 * CALLS


@given(IDS, st.lists(st.sampled_from("abcde"), min_size=1))
def test_results_with_ids_answer_the_same_calls_in_one_entry_or_in_several(
    ids: list[str], answered: list[str]
) -> None:
    results = [ToolResult(tool_call_id=id, status="success") for id in answered]
    output = ModelOutput(tool_calls=tuple([ToolCall(id=id, name="read") for id in ids]))
    one_by_one, pairs = Progress.begin(output), list[PairedResult]()
    for result in results:
        one_by_one, paired = one_by_one.add_results([result])
        pairs += paired
    assert Progress.begin(output).add_results(results) == (one_by_one, pairs)

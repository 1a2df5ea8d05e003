"""The time in which a step waited for a person: to approve its calls, or to answer its questions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from historyapp.core.dates import milliseconds_of
from historyapp.core.entries import Entry, ModelOutput, ToolResults
from historyapp.core.overview.approvals import approval_waits, asks_for_approval
from historyapp.core.person_tools import MAX_NAMES, waits_for_person

_NO_WAITS: Mapping[int, int] = MappingProxyType({})


class PersonWaits(NamedTuple):
    """Waits in milliseconds, by the positions of the results that ended them. No position has both kinds."""

    approvals: Mapping[int, int] = _NO_WAITS
    """See :func:`historyapp.core.overview.approvals.approval_waits`."""
    answers: Mapping[int, int] = _NO_WAITS
    only_asks: bool = False
    """Whether all calls of the step ask a person."""

    def before(self, position: int) -> int:
        """The wait that the results at a position ended; 0 if they ended none."""
        return self.approvals.get(position, 0) or self.answers.get(position, 0)

    @property
    def total(self) -> int:
        return sum(self.approvals.values()) + sum(self.answers.values())


NO_WAITS = PersonWaits()


def person_waits(entries: Sequence[Entry]) -> PersonWaits:
    """The waits in a step.

    Args:
        entries: its output and the live entries after it, up to the next output.
    """
    output = entries[0].body
    assert isinstance(output, ModelOutput)
    approvals, asking = approval_waits(entries), _asking_calls(output)
    if not asking:
        return PersonWaits(approvals) if approvals else NO_WAITS
    answers = _answer_waits(entries, asking)
    approvals = {position: wait for position, wait in approvals.items() if position not in answers}
    return PersonWaits(approvals, answers, all(call.id in asking for call in output.tool_calls))


def may_wait_for_person(output: ModelOutput) -> bool:
    """Whether a step with this output may have waited for a person."""
    asks = any(asks_for_approval(tool_call.arguments) for tool_call in output.tool_calls)
    return asks or bool(_asking_calls(output))


def _answer_waits(entries: Sequence[Entry], asking: set[str | None]) -> dict[int, int]:
    """The time before results that are only answers of a person.

    A call that failed has asked nobody. If results of other tools have the same time, theirs is not known,
    and none of it counts as a wait.
    """
    moments, of_tools = dict[int, int](), set[int]()
    for entry in entries[1:]:
        if isinstance(entry.body, ToolResults):
            results, moment = entry.body.results, milliseconds_of(entry.created_at)
            moments[entry.position] = moment
            if not results or any(one.tool_call_id not in asking or one.status == "error" for one in results):
                of_tools.add(moment)
    previous, waits = milliseconds_of(entries[0].created_at), dict[int, int]()
    for position, moment in moments.items():
        if moment > previous and moment not in of_tools:
            waits[position] = moment - previous
        previous = max(previous, moment)
    return waits


def _asking_calls(output: ModelOutput) -> set[str | None]:
    """The ids of the calls that ask a person; None for an action without provider calls."""
    calls: list[tuple[str | None, str]] = [(call.id, call.name) for call in output.tool_calls]
    if output.use_tool and not calls:
        calls = [(None, output.use_tool.name)]
    names = {name for _, name in calls}
    if len(names) > MAX_NAMES:
        return set()
    waiting = set(filter(waits_for_person, names))
    return {id for id, name in calls if name in waiting} if waiting else set()

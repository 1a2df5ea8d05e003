"""A child process is started when it is needed, and replaced when it has ended."""

from unittest.mock import Mock

import pytest

from historyapp import child
from historyapp.child import Child
from historyapp.child_on_demand import ChildEnded, ChildOnDemand


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Mock]:
    """Those that were started."""
    started: list[Mock] = []

    def start(*arguments: str) -> Mock:
        assert arguments == ("module", "60")
        started.append(Mock(spec=Child, pipe=Mock()))
        return started[-1]

    monkeypatch.setattr(child, "Child", start)
    return started


def test_one_process_gets_all_requests_until_it_has_ended(children: list[Mock]) -> None:
    process, ended = ChildOnDemand("module", 60), list[Child]()

    def request(child: Child) -> Child:
        if child in ended:
            raise EOFError
        return child

    assert process.child is None
    assert process.send(request) is process.send(request) is children[0]
    ended.append(children[0])
    assert process.send(request) is children[1] is process.child
    children[0].pipe.close.assert_called_once_with()
    assert len(children) == 2


def test_a_request_with_which_two_processes_end_is_not_sent_again(children: list[Mock]) -> None:
    process = ChildOnDemand("module", 60)
    with pytest.raises(ChildEnded):
        process.send(Mock(side_effect=BrokenPipeError))
    assert len(children) == 2
    assert process.child is None


def test_a_process_that_another_thread_has_replaced_is_not_retired_again(children: list[Mock]) -> None:
    process = ChildOnDemand("module", 60)
    process.send(process.retire)
    process.send(lambda child: None)
    process.retire(children[0])
    assert process.child is children[1]
    children[0].pipe.close.assert_called_once_with()
    process.stop()
    children[1].stop.assert_called_once_with()

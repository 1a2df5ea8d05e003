from historyapp.core.entries import ModelInput
from historyapp.core.importers.base import Append, RewindTo, SessionStart
from historyapp.core.importers.messages import CallMatcher, SourceCall
from historyapp.core.importers.recording import OutputParts, Recording


def recording() -> Recording:
    return Recording("s", agent="a", title="t", model="m", tags=("x",), spawned_by="p", metadata={"cwd": "/"})


START = SessionStart("s", title="t", agent="a", model="m", tags=("x",), spawned_by="p", metadata={"cwd": "/"})


def test_the_first_operations_are_held_back_until_the_session_is_announced() -> None:
    session_recording = recording()
    assert list(session_recording.append(ModelInput(content="x"), None, {})) == []
    assert list(session_recording.rewind(0, "because")) == []
    start, entry, rewind = session_recording.release_held()
    assert start == START
    assert isinstance(entry, Append)
    assert rewind == RewindTo("s", 0, "because", actor="user")


def test_a_session_is_announced_once() -> None:
    session_recording = recording()
    assert list(session_recording.release_held()) == [START]
    assert list(session_recording.release_held()) == []
    assert len(list(session_recording.append(ModelInput(content="x"), None, {}))) == 1


def test_a_session_with_many_operations_is_announced_in_any_case() -> None:
    session_recording = recording()
    operations = [op for n in range(1000) for op in session_recording.append(ModelInput(content=n), None, {})]
    assert operations[0] == START
    assert len(operations) == 1001


def test_entries_and_rewinds_take_positions() -> None:
    session_recording = recording()
    for _ in range(3):
        session_recording.append(ModelInput(content="x"), None, {})
    session_recording.rewind(1, "because")
    assert session_recording.position == 4


def test_a_fallback_title_is_used_if_there_is_no_other() -> None:
    session_recording = Recording("s", agent="a", fallback_title="/init")
    assert list(session_recording.release_held()) == [SessionStart("s", title="/init", agent="a")]


def test_changed_ids_are_stored_with_those_of_the_source() -> None:
    source: dict[str, object] = {}
    parts = OutputParts(calls=[SourceCall("c", "f", {}), SourceCall("c", "g", {})])
    body = parts.body(CallMatcher("s"), source)
    second = body.tool_calls[1].id
    assert (body.tool_calls[0].id, source) == ("c", {"call_ids": {second: "c"}})


def test_empty_pieces_leave_no_blank_lines() -> None:
    parts = OutputParts(thoughts=["", "a", "b"], texts=["", "c", ""])
    body = parts.body(CallMatcher("s"), {})
    assert (body.thoughts, body.text) == ("a\n\nb", "c")
    assert OutputParts().body(CallMatcher("s"), {}).thoughts is None

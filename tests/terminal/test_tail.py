"""``playhead tail``: the newest entries of a session, and what is recorded while it runs."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.utils import timezone

from historyapp.models import Project
from historyapp.models.changes import ChangeKind
from historyapp.services.append import append
from historyapp.services.changes import record_change, record_run_change
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.retention import purge
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.transactions import writing
from historyapp.terminal import tail as tail_module
from historyapp.terminal.errors import Unreachable
from historyapp.terminal.server import Server
from historyapp.terminal.tail import entry_parts
from tests.services.drafts import act, ask, failed, ok
from tests.terminal.conftest import Playhead

pytestmark = pytest.mark.usefixtures("settled")
FAILED_RESULT = {"status": "error", "error": {"exception_type": "E", "message": "no"}}
Happening = Callable[[], object]


def test_the_newest_entries_have_a_line_for_each_text_call_and_result(
    playhead: Playhead, session_id: UUID
) -> None:
    lines = playhead("tail", session_id, "-n", 4).out.splitlines()
    words = [line.split()[1:3] for line in lines]
    assert words == [
        ["4", "thought"], ["4", "call"], ["5", "error"], ["6", "thought"], ["6", "call"], ["7", "success"],
    ]  # fmt: skip
    assert "test command=go test ./..." in lines[1]


def test_all_entries_are_shown_of_a_shorter_session(playhead: Playhead, session_id: UUID) -> None:
    assert len(playhead("tail", session_id, "-n", 100).out.splitlines()) == 10
    assert playhead("tail", session_id, "-n", 0).out == ""


def test_json_has_an_entry_in_each_line(playhead: Playhead, session_id: UUID) -> None:
    lines = playhead("tail", session_id, "--json", "-n", 2).out.splitlines()
    entries = [json.loads(line) for line in lines]
    assert [(entry["session"], entry["position"]) for entry in entries] == [
        (str(session_id), 6),
        (str(session_id), 7),
    ]


def test_without_a_session_the_command_can_only_follow(playhead: Playhead) -> None:
    printed = playhead("tail")
    assert printed.code == 2
    assert "add --follow" in printed.err


def test_text_of_agents_cannot_control_the_terminal(playhead: Playhead, project: Project) -> None:
    session = create_session(project)
    append(
        project, session.pk, [ask("\x1b]0;title\x07\x1b[2Jgone"), act("\x1b[1A\r"), ok(outputs="a\x9b2K\nb")]
    )
    printed = playhead("tail", session.pk)
    assert set(printed.out) & set("\x1b\x07\x9b\r") == set()
    assert len(printed.out.splitlines()) == 4


def test_a_stream_without_line_ends_is_given_up() -> None:
    endless = httpx.MockTransport(lambda _: httpx.Response(200, content=iter(lambda: b"x" * 1_000, b"")))
    with pytest.raises(Unreachable, match="sends no events"):
        tail_module.current_cursor(Server("http://playhead.example", "ph_x", endless))


def test_a_long_text_is_cut(playhead: Playhead, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("word " * 100_000)])
    (line,) = playhead("tail", session.pk).out.splitlines()
    assert line.endswith("…")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        (
            {"kind": "model_output", "thoughts": {"summary": "hm"}, "text": "yes"},
            [("thought", '{"summary": "hm"}'), ("answer", "yes")],
        ),
        (
            {"kind": "model_output", "text": "now", "use_tool": {"name": "ls", "arguments": {"path": "."}}},
            [("text", "now"), ("call", "ls path=.")],
        ),
        (
            {
                "kind": "model_input",
                "content": [{"type": "text", "text": "see"}, {"type": "image"}],
            },
            [("input", "see")],
        ),
        ({"kind": "review", "passed": False, "score": 0.5}, [("review", "passed: false  score: 0.5")]),
        (
            {
                "kind": "tool_results",
                "results": [FAILED_RESULT],
            },
            [("error", "E: no")],
        ),
        ({"kind": "from_the_future", "content": "new"}, [("from_the_future", "new")]),
    ],
)
def test_every_kind_of_entry_is_shown(entry: dict[str, Any], parts: list[tuple[str, str]]) -> None:
    assert [part[:2] for part in entry_parts(entry)] == parts


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Happening]]:
    """Does one thing each time that the stream has been read to its end, and then ends the command."""
    happenings: list[Happening] = []

    def wait(seconds: float) -> None:
        if not happenings:
            raise KeyboardInterrupt
        happenings.pop(0)()

    # Only of the client: transactions of what happens may also sleep.
    monkeypatch.setattr(
        "historyapp.client.sync_client.time", SimpleNamespace(sleep=wait, monotonic=monotonic)
    )
    yield happenings
    assert not happenings


def followed(playhead: Playhead, *arguments: object) -> None:
    with pytest.raises(KeyboardInterrupt):
        playhead("tail", "-f", *arguments)


def test_the_command_follows_new_entries_and_misses_none(
    playhead: Playhead,
    project: Project,
    session_id: UUID,
    following: list[Happening],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newest_entries = tail_module._newest_entries

    def read_late(*arguments: Any) -> Iterable[Any]:
        """Another process appends between the beginning of the stream and the first read."""
        append(project, session_id, [act("between")])
        return newest_entries(*arguments)

    monkeypatch.setattr(tail_module, "_newest_entries", read_late)
    following += [
        lambda: append(project, session_id, [ok(outputs="late"), act("next")]),
        lambda: append(project, create_session(project).pk, [ask("of another session")]),
        lambda: rewind(project, session_id, Target(to_step=1)),
    ]
    followed(playhead, session_id, "-n", 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:5]] == ["8", "8", "9", "10", "10"]
    assert "rewound" in lines[5]
    assert len(lines) == 6


def test_a_compression_is_printed_once(
    playhead: Playhead,
    project: Project,
    session_id: UUID,
    following: list[Happening],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = start_run(project, session_id, RunRequest(model="local")).run

    def go_on() -> None:
        for _ in range(3):
            with writing():
                record_run_change(run)
                record_change(run.session, ChangeKind.SUMMARIES)

    following += [go_on]
    followed(playhead, session_id, "-n", 0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == ["A compression runs."]


def test_all_sessions_are_followed_and_each_line_names_its_session(
    playhead: Playhead,
    project: Project,
    session_id: UUID,
    following: list[Happening],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = create_session(project, names={"title": "other"}).pk
    following += [
        lambda: append(project, session_id, [act("one")]),
        lambda: append(project, other, [act("two"), failed()]),
    ]
    followed(playhead)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [str(session_id)[:13]] * 2 + [str(other)[:13]] * 3


def test_all_sessions_can_begin_with_their_newest_entries(
    playhead: Playhead,
    project: Project,
    session_id: UUID,
    following: list[Happening],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = create_session(project, names={"title": "other"}).pk
    append(project, other, [ask("one")])
    append(project, session_id, [ask("two")])
    append(project, other, [ask("three")])
    monkeypatch.setattr(tail_module, "MAX_SESSIONS", 1)
    newest_of_all = tail_module._newest_of_all

    def read_late(*arguments: Any) -> Iterable[Any]:
        """Another process appends between the beginning of the stream and the first read."""
        append(project, other, [ask("between")])
        return newest_of_all(*arguments)

    following += [lambda: append(project, session_id, [ask("new")])]
    with monkeypatch.context() as patch:
        patch.setattr(tail_module, "_newest_of_all", read_late)
        followed(playhead, "-n", 3)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["two", "three", "between", "new"]
    assert [line.split()[1] for line in lines[:2]] == [str(session_id)[:13], str(other)[:13]]
    printed = playhead("tail", "-n", 2)
    assert [line.split()[-1] for line in printed.out.splitlines()] == ["between", "new"]


def test_a_deleted_session_ends_the_command(
    playhead: Playhead, project: Project, session_id: UUID, following: list[Happening]
) -> None:
    def delete() -> None:
        change_session(project, session_id, {"status": "archived"})
        purge(project, [session_id], timezone.now() + timedelta(days=1))

    following.append(delete)
    printed = playhead("tail", "-f", session_id)
    assert printed.code == 1

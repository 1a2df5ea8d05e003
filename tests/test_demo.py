"""The demo records real tool runs over the public API, once."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import pytest
from django.db import transaction
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from historyapp.core.episodes import Episode
from historyapp.demo import SESSIONS, DemoFailed, run, run_with
from historyapp.demo.recorder import WAITS, DemoRecorder
from historyapp.demo.tools import FailedTests, Toolbox
from historyapp.management.commands.up import demo_is_missing
from historyapp.models import Entry, Project, RetentionPass, Session, Summary
from historyapp.models.history import History
from historyapp.services.keys import create_key
from historyapp.services.sessions import create_session
from tests.examples import thorough

pytestmark = pytest.mark.django_db

AUDIT = "Audit the ledgers of 2023 to 2025"
REPAIR = "Repair the invoice totals in tally"
FORK = "Repair the invoice totals, with a taxable amount"
RELEASE = "Release tally 1.4.1"


class Flaky(httpx.BaseTransport):
    """The server in this process. After a number of requests it stops responding."""

    def __init__(self, requests: int | None = None) -> None:
        self.left = requests
        self.answered = 0
        self.server = Client()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.left is not None and self.answered >= self.left:
            raise httpx.ConnectError("the server is gone")
        self.answered += 1
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        response = self.server.generic(
            request.method,
            request.url.path,
            request.read(),
            content_type="application/json",
            headers=headers,
        )
        return httpx.Response(response.status_code, content=response.content)


def client(project: Project, transport: httpx.BaseTransport) -> httpx.Client:
    _, key = create_key(project, "demo")
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(transport=transport, base_url="http://localhost/api/v1", headers=headers)


@pytest.fixture
def project() -> Project:
    return Project.objects.create(name="Demo")


class Recorded(NamedTuple):
    api: httpx.Client
    ids: list[str]


@pytest.fixture(scope="module")
def recorded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Recorded]:
    """The demo, recorded once for all tests that only read it."""
    with django_db_blocker.unblock(), transaction.atomic():
        api = client(Project.objects.create(name="Demo"), Flaky())
        yield Recorded(api, run_with(api))
        transaction.set_rollback(True)


@pytest.fixture
def demo(recorded: Recorded) -> dict[str, History]:
    """The sessions by title."""
    sessions = (Session.objects.get(pk=UUID(id)) for id in recorded.ids)
    return {session.title: History(session) for session in sessions}


def steps(history: History) -> list[Episode]:
    return history.episodes(1, history.steps)


def test_four_sessions_are_recorded_with_the_long_one_first(demo: dict[str, History]) -> None:
    assert len(demo) == SESSIONS
    assert all("demo" in history.session.tags for history in demo.values())
    assert {title: history.steps for title, history in demo.items()} == {
        AUDIT: 79,
        REPAIR: 16,
        FORK: 12,
        RELEASE: 3,
    }


def test_the_repair_lists_reads_edits_tests_fails_is_stopped_and_asks(demo: dict[str, History]) -> None:
    done = [(step.action.name if step.action else None, step.status) for step in steps(demo[REPAIR])]
    assert done == [
        ("list_folder", "success"),
        ("read_file", "success"),
        ("run_tests", "error"),
        ("read_file", "error"),
        ("grep", "success"),
        ("edit_file", "success"),
        ("run_tests", "error"),
        ("edit_file", "interrupted_by_human"),
        ("ask_user", "success"),
        ("edit_file", "success"),
        ("run_tests", "success"),
        ("ask_user", "success"),
        ("write_file", "success"),
        (None, "answered"),
        ("grep", "success"),
        (None, "answered"),
    ]


def test_the_results_of_the_tools_are_real(demo: dict[str, History]) -> None:
    episodes = steps(demo[REPAIR])
    failing, passing = episodes[2].results[0], episodes[10].results[0]
    assert failing.reason
    assert "AssertionError: Decimal('19.00') != Decimal('17.10')" in failing.reason
    assert "Ran 7 tests" in failing.reason
    assert str(passing.outputs).endswith("Ran 7 tests\n\nOK")
    missing = episodes[3].results[0].error
    assert missing
    assert missing.exception_type == "FileNotFoundError"
    assert missing.args == [2, "No such file or directory"]


def test_one_step_reads_three_files_at_once(demo: dict[str, History]) -> None:
    reading = steps(demo[REPAIR])[1]
    assert [call.arguments["path"] for call in reading.output.tool_calls] == [
        "README.md",
        "tally/money.py",
        "tally/invoice.py",
    ]
    assert [result.status for result in reading.results] == ["success"] * 3


def test_the_wrong_attempt_stays_as_a_take_with_the_reason(demo: dict[str, History]) -> None:
    session = demo[REPAIR].session
    rewind = session.rewinds().get()
    assert rewind.body["reason"] == "The total was right by accident; tax was still wrong."
    cut_off = History(session, as_of=rewind.position - 1)
    statuses = [(step.number, step.status) for step in cut_off.episodes(9, cut_off.steps)]
    assert statuses == [(9, "success"), (10, "error")]


def test_the_fork_shares_eight_steps_and_then_diverges(demo: dict[str, History]) -> None:
    fork = demo[FORK]
    assert fork.session.forked_from == demo[REPAIR].session
    assert [step.output for step in steps(fork)[:8]] == [step.output for step in steps(demo[REPAIR])[:8]]
    assert str(steps(fork)[10].results[0].outputs).endswith("Ran 8 tests\n\nOK")


def test_the_demo_has_every_kind_of_content_of_a_session(demo: dict[str, History]) -> None:
    repair = demo[REPAIR]
    assert repair.instruction
    assert repair.notebook
    assert "Both repaired" in repair.notebook
    kinds = set(Entry.objects.values_list("kind", flat=True))
    assert kinds == {
        "system_instruction",
        "memory_notebook",
        "model_input",
        "model_output",
        "tool_results",
        "review",
        "rewind",
    }
    assert [(s.first_step, s.last_step) for s in repair.summaries()] == [(1, 5)]
    assert Summary.objects.filter(session=demo[AUDIT].session).count() == 3


def test_every_output_has_usage_that_is_marked_as_an_estimate(demo: dict[str, History]) -> None:
    for entry in Entry.objects.filter(kind="model_output"):
        assert entry.metadata["usage"]["output_tokens"] > 0
        assert entry.metadata["usage_is_estimated"] is True
    assert demo[AUDIT].tail.totals.input_tokens > 100_000


def test_the_audit_finds_what_is_hidden_in_the_ledgers(demo: dict[str, History]) -> None:
    answer = steps(demo[AUDIT])[-1]
    for fault in (
        "**2023-07**: it closes at 22627.25, but its rows add up to 22600.25",
        "**2024-02**: line 5 has '1O4.50' for an amount",
        "**2024-11**: 'utf-8' codec can't decode byte 0xe9",
        "**2025-03**: [Errno 2] No such file or directory: 'ledger/2025-03.csv'",
        "**2025-09**: line 7 books 2025-09/04 a second time",
    ):
        assert fault in answer.output.text
    assert answer.reviews[0].passed is True


def test_one_action_waits_for_a_person(demo: dict[str, History]) -> None:
    waiting = steps(demo[RELEASE])[-1]
    assert (waiting.status, waiting.results) == ("in_flight", ())
    assert demo[RELEASE].session.status == "live"
    assert demo[REPAIR].session.status == "finished"


def logs(project: Project) -> dict[str, list[Any]]:
    """The log of each session, without times, ids and keys."""
    logs_by_name: dict[str, list[Any]] = {}
    for session in Session.objects.filter(project=project).order_by("created_at"):
        entries = Entry.objects.filter(session=session).order_by("position")
        bodies = [{**entry.body, "spans": None, "actor": None} for entry in entries]
        summaries = session.summaries.order_by("id").values_list("text", "first_step", "last_step")
        logs_by_name[session.title] = [session.status, bodies, list(summaries)]
    return logs_by_name


def test_running_the_demo_again_adds_nothing(recorded: Recorded) -> None:
    project = Session.objects.get(pk=UUID(recorded.ids[0])).project
    before = logs(project)
    assert run_with(recorded.api) == recorded.ids
    assert logs(project) == before


@pytest.mark.parametrize("requests", [100, thorough(190)])
def test_after_a_crash_the_demo_continues_and_records_nothing_twice(
    project: Project,
    recorded: Recorded,
    requests: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    transport = Flaky(requests)
    api = client(project, transport)
    with pytest.raises(DemoFailed):
        run_with(api)
    transport.left = None
    run_with(api)
    uninterrupted = Session.objects.get(pk=UUID(recorded.ids[0])).project
    assert logs(project) == logs(uninterrupted)
    assert list(tmp_path.iterdir()) == []


def test_the_server_loads_the_demo_until_it_is_complete_but_not_beside_other_sessions(
    project: Project,
) -> None:
    RetentionPass.objects.create()  # the recording that all tests share is there already
    Session.objects.exclude(forked_from=None).delete()
    Session.objects.all().delete()
    assert demo_is_missing()
    for number in range(SESSIONS):
        assert demo_is_missing()
        create_session(project, names={"title": f"demo {number}"}, tags=["demo"])
    assert not demo_is_missing()
    Session.objects.all().delete()
    create_session(project, tags=["mine"])
    assert not demo_is_missing()


def test_an_invalid_key_ends_the_demo_with_one_sentence(project: Project) -> None:
    api = client(project, Flaky())
    api.headers["Authorization"] = "Bearer ph_nonsense"
    with pytest.raises(DemoFailed, match=r"POST /sessions returned 401: .*There is no such API key"):
        run_with(api)


def test_without_a_server_the_demo_ends_with_one_sentence() -> None:
    with pytest.raises(DemoFailed, match="POST /sessions got no response"):
        run("http://127.0.0.1:9/", "ph_key")


@pytest.fixture
def tools(tmp_path: Path) -> Toolbox:
    toolbox = Toolbox(tmp_path / "project")
    toolbox.folder.mkdir()
    toolbox.fill({"a.txt": b"one\ntwo\n", "sub/b.txt": b"two\n"})
    return toolbox


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "sub/../../secret"])
def test_no_tool_can_leave_the_folder(tools: Toolbox, path: str) -> None:
    (tools.folder.parent / "secret").write_text("x")
    for name, arguments in (
        ("read_file", {"path": path}),
        ("list_folder", {"path": path}),
        ("grep", {"path": path, "pattern": "x"}),
        ("write_file", {"path": path, "content": "y"}),
    ):
        with pytest.raises(PermissionError, match="lies outside the project"):
            tools.run(name, arguments)


def test_an_edit_needs_exactly_one_match_and_returns_a_diff(tools: Toolbox) -> None:
    diff = tools.edit_file("a.txt", "two", "three")
    assert diff.splitlines() == ["--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+three"]
    with pytest.raises(ValueError, match=r"old_string occurs 0 times in a\.txt, but must occur once"):
        tools.edit_file("a.txt", "two", "four")


def test_a_search_names_file_and_line(tools: Toolbox) -> None:
    assert tools.grep("two") == "a.txt:2: two\nsub/b.txt:1: two"
    assert tools.grep("ten") == "No line matches ten."


def test_filling_a_folder_removes_its_other_files(tools: Toolbox) -> None:
    before = tools.files()
    tools.write_file("new.txt", "x")
    tools.fill(before)
    assert tools.list_folder() == "     8 a.txt\n     4 sub/b.txt"


def test_a_test_run_s_output_has_no_time_and_no_folder(tools: Toolbox) -> None:
    code = "import unittest\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n"
    tools.fill({"test_it.py": code.encode()})
    with pytest.raises(FailedTests) as failed:
        tools.run_tests()
    assert str(tools.folder) not in failed.value.output
    assert "Ran 1 test\n" in failed.value.output


@pytest.mark.parametrize(("refusals", "recorded"), [(2, True), (len(WAITS) + 1, False)])
def test_requests_to_a_busy_server_are_retried_for_a_while(
    monkeypatch: pytest.MonkeyPatch, refusals: int, recorded: bool
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("historyapp.demo.recorder.time.sleep", waited.append)
    answers = iter([httpx.Response(503)] * refusals + [httpx.Response(201, json={})])
    transport = httpx.MockTransport(lambda request: next(answers))
    api = httpx.Client(transport=transport, base_url="http://x", headers={"Authorization": "y"})
    if recorded:
        DemoRecorder.begin(api, "demo")
        assert waited == list(WAITS[:refusals])
    else:
        with pytest.raises(DemoFailed, match="returned 503"):
            DemoRecorder.begin(api, "demo")

"""Importing transcripts as files, and exporting sessions in every format."""

import json
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError
from django.test import override_settings

from historyapp.api import transfers
from historyapp.core.exporters import EXPORTERS
from historyapp.core.importers import IMPORTERS
from historyapp.models import AuditRecord, Project
from historyapp.services.imports import parsers, time_limit
from historyapp.services.imports.parser import ParserProcess
from historyapp.services.imports.sessions import ImportJob
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem
from tests.examples import thorough
from tests.services.imports import spinning_process
from tests.services.imports.spinning_process import MEMORY, PYTHON, C

CHAT = json.dumps({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]})

OTHER = CHAT.replace("done", "done again")


def file(content: str | bytes = CHAT, name: str = "chat.json") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


def imported(agent: Agent, *files: SimpleUploadedFile, **fields: Any) -> Any:
    return agent.upload("/imports", {"files": list(files), **fields})


def test_a_transcript_becomes_a_session(alice: Agent) -> None:
    response = imported(alice, file())
    assert response.status == 201
    (report,) = response["files"]
    assert (report["name"], report["format"], report["error"]) == ("chat.json", "openai_chat", "")
    (session,) = report["sessions"]
    assert (session["new"], session["entries"], session["steps"], session["added"]) == (True, 2, 1, 2)
    entries = alice.get(f"/sessions/{session['id']}/entries")["items"]
    assert [entry["kind"] for entry in entries] == ["model_input", "model_output"]


def test_importing_again_adds_nothing(alice: Agent) -> None:
    first = imported(alice, file())["files"][0]["sessions"][0]
    again = imported(alice, file())
    assert again.status == 200
    assert again["files"][0]["sessions"] == [{**first, "new": False, "added": 0}]
    assert len(alice.get("/sessions")["items"]) == 1


def test_the_report_says_what_became_of_every_line(alice: Agent, run: Agent) -> None:
    (chat,) = imported(alice, file())["files"]
    assert chat["lines"] is None, "one JSON document"
    run.append(ask("go"))
    run.step("ls")
    export = run.get("/export").body + b"\n{"
    (report,) = imported(alice, file(export, "export.jsonl"))["files"]
    assert report["lines"] == {"total": 6, "with_entries": 3, "further": 1, "left_out": 1, "blank": 1}


def test_several_files_are_reported_one_by_one(alice: Agent) -> None:
    response = imported(alice, file(name="a.json"), file("junk", "b.txt"))
    assert response.status == 201
    good, bad = response["files"]
    assert len(good["sessions"]) == 1
    assert "in no format that can be imported: it does not begin" in bad["error"]


@pytest.mark.parametrize("text", [thorough(PYTHON), C])
def test_a_file_that_takes_too_much_time_or_memory_is_named_and_the_others_imported(
    alice: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """A real process really spins and allocates; see ``spinning_process``."""
    spinning = partial(ParserProcess, module=spinning_process.__name__)
    monkeypatch.setattr(parsers, "ParserProcess", spinning)
    monkeypatch.setattr(transfers, "PARSER_POOL", parsers.ParserPool())
    monkeypatch.setattr(time_limit, "BASE_SECONDS", 0.5)  # for the message; the process has its own
    started = time.process_time()
    response = imported(
        alice,
        file(name="a.json"),
        file(CHAT.replace("go", text), "b.json"),
        file(CHAT.replace("go", MEMORY), "c.json"),
        file(OTHER, "d.json"),
    )
    assert response.status == 201
    first, stopped, too_large, last = response["files"]
    assert [len(report["sessions"]) for report in (first, stopped, too_large, last)] == [1, 0, 0, 1]
    assert "took more than 419 MB of memory and was stopped" in too_large["error"]
    assert "took more than 1 s of processor time and was stopped" in stopped["error"]
    assert any("b.json" in line and "processor time" in line for line in caplog.messages)
    assert time.process_time() < started + 1  # this process did not spin


def test_a_damaged_line_is_named_and_the_others_imported(alice: Agent, run: Agent) -> None:
    run.append(ask("1"), ask("2"))
    lines = alice.get(f"{run.get()['id'].join(['/sessions/', '/export'])}").body.decode().splitlines()
    lines.insert(2, '{"torn": ')
    response = imported(alice, file("\n".join(lines), "run.jsonl"))
    (report,) = response["files"]
    assert report["format"] == "playhead_jsonl"
    assert [(skipped["line"], skipped["damaged"]) for skipped in report["skipped"]] == [(3, True)]
    assert report["damaged_count"] == 1


def test_a_collision_with_another_import_is_a_conflict(alice: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(*_: object) -> None:
        raise IntegrityError

    with monkeypatch.context() as patch:
        patch.setattr(ImportJob, "_find_or_create_source", collide)
        assert_problem(imported(alice, file()), 409, "Another import of")
    assert imported(alice, file()).status == 201


def test_a_fork_without_own_entries_is_imported(alice: Agent, run: Agent, charlie: Agent) -> None:
    run.append(ask("1"))
    alone = run.get("/export").body
    assert imported(charlie, file(alone, "run.jsonl")).status == 201
    run.post("/forks")
    assert imported(charlie, file(run.get("/export").body, "run.jsonl")).status == 201
    assert imported(charlie, file(run.get("/export").body, "run.jsonl")).status == 200


def test_a_retryable_failure_is_not_stored_for_its_key(alice: Agent) -> None:
    id = imported(alice, file())["files"][0]["sessions"][0]["id"]
    grown = json.dumps({"messages": [*json.loads(CHAT)["messages"], {"role": "user", "content": "more"}]})
    key = {"Idempotency-Key": "again"}
    alice.delete(f"/sessions/{id}")
    refused = alice.upload("/imports", {"files": [file(grown)]}, headers=key)
    assert_problem(refused, 409, "archived")
    alice.patch(f"/sessions/{id}", {"status": "live"})
    carried_out = alice.upload("/imports", {"files": [file(grown)]}, headers=key)
    assert (carried_out.status, carried_out["files"][0]["sessions"][0]["added"]) == (201, 1)
    again = alice.upload("/imports", {"files": [file(grown)]}, headers=key)
    assert (again.status, again.headers["Idempotency-Replayed"]) == (201, "true")


def test_the_report_has_imported_and_waiting_files(alice: Agent) -> None:
    id = imported(alice, file())["files"][0]["sessions"][0]["id"]
    alice.delete(f"/sessions/{id}")
    grown = json.dumps({"messages": [*json.loads(CHAT)["messages"], {"role": "user", "content": "more"}]})
    other = json.dumps({"messages": [{"role": "user", "content": "something else"}]})
    fields = {"files": [file(grown), file(other, "other.json")]}
    response = alice.upload("/imports", fields, headers={"Idempotency-Key": "both"})
    assert response.status == 201
    assert "archived" in response["files"][0]["error"]
    assert response["files"][1]["error"] == ""
    fields = {"files": [file(grown), file(other, "other.json")]}
    assert_problem(alice.upload("/imports", fields, headers={"Idempotency-Key": "both"}), 409, "archived")


def test_a_file_that_is_not_a_transcript_is_refused(alice: Agent) -> None:
    refused = imported(alice, file("junk", "notes.txt"))
    assert_problem(refused, 422, "This file is in no format")
    assert refused["type"] == "/docs/errors#unreadable-transcript"
    assert refused["formats"] == list(IMPORTERS)
    assert alice.get("/sessions")["items"] == []


def test_the_request_can_name_the_format(alice: Agent) -> None:
    assert imported(alice, file(), format="openai_chat").status == 201
    assert_problem(imported(alice, file(), format="word"), 422, "'word'", "openai_chat")


def test_unknown_and_missing_form_fields_are_refused(alice: Agent) -> None:
    assert_problem(alice.upload("/imports", {}), 422, "files is missing")
    assert_problem(alice.upload("/imports", {"files": "text"}), 422, "files is missing")
    assert_problem(imported(alice, file(), title="x"), 422, "no form field title")
    assert_problem(alice.upload("/imports", {"files": file(), "more": file()}), 422, "no form field more")


def test_another_media_type_than_a_form_is_refused(alice: Agent) -> None:
    assert_problem(alice.post("/imports", {"files": []}), 415, "multipart/form-data")
    broken = alice.send("POST", "/imports", b"--x", type="multipart/form-data; boundary=x")
    assert_problem(broken, 422, "files is missing")
    assert_problem(alice.send("POST", "/imports", b"x", type="multipart/form-data"), 400, "multipart")


@override_settings(PLAYHEAD_MAX_BODY=1000)
def test_a_file_that_is_too_large_is_refused(alice: Agent) -> None:
    assert_problem(imported(alice, file("x" * 1000)), 413)


def test_a_stranger_does_not_see_the_imported_session(alice: Agent, charlie: Agent) -> None:
    imported(alice, file())
    assert charlie.get("/sessions")["items"] == []
    assert imported(charlie, file())["files"][0]["sessions"][0]["new"] is True


@pytest.mark.parametrize("format", list(EXPORTERS))
def test_a_session_is_exported_in_every_format(run: Agent, format: str) -> None:
    run.append(ask("<script>\ud800"))
    run.step("ls", ["a"])
    response = run.get(f"/export?format={format}")
    exporter = EXPORTERS[format]
    assert response.status == 200
    assert response.headers["Content-Type"] == exporter.media_type
    assert response.headers["Content-Disposition"].startswith('attachment; filename="a-run-')
    assert response.headers["Content-Disposition"].endswith(f'{exporter.suffix}"')
    text = json.dumps(response.body) if exporter.media_type == "application/json" else response.body.decode()
    assert "ls" in text


def test_an_export_can_be_imported_again(run: Agent, charlie: Agent) -> None:
    run.append(ask("\ud800\x00"))
    run.step()
    run.post("/rewinds", {"to_position": 1})
    run.step("again")
    exported = run.get("/export").body
    (session,) = imported(charlie, file(exported, "run.jsonl"))["files"][0]["sessions"]
    copy = charlie.within(f"/sessions/{session['id']}")
    for path in ("/entries", "/episodes", "/messages"):
        assert copy.get(path).body == run.get(path).body
    everything = copy.get("/entries?take=all")["items"]
    assert [(item["kind"], item["live"]) for item in everything] == [
        ("model_input", True), ("model_output", False), ("tool_results", False), ("rewind", False),
        ("model_output", True), ("tool_results", True),
    ]  # fmt: skip
    assert copy.get()["title"] == "a run"


def test_an_export_is_as_of_a_position(run: Agent) -> None:
    run.append(ask("1"), ask("2"))
    lines = run.get("/export?as_of=1").body.decode().splitlines()
    assert [json.loads(line).get("position") for line in lines] == [None, 1]
    assert_problem(run.get("/export?as_of=9"), 422, "head is 2")


def test_an_unknown_format_is_refused(run: Agent) -> None:
    assert_problem(run.get("/export?format=pdf"), 422, "'pdf'", "markdown")


def test_an_export_is_audited(run: Agent) -> None:
    run.get("/export?format=markdown")
    record = AuditRecord.objects.get(action="export")
    assert record.actor.startswith("key:ph_")
    assert record.detail == {"format": "markdown"}


@override_settings(PLAYHEAD_QUEUE_SECONDS=0.01)
def test_an_import_that_finds_no_parser_is_refused_and_can_be_sent_again(
    alice: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool = parsers.ParserPool()
    monkeypatch.setattr(transfers, "PARSER_POOL", pool)
    project = Project.objects.get(name="Alice's")
    with ExitStack() as stack:
        for _ in range(parsers.OF_PROJECT):
            stack.enter_context(pool.acquire(project.pk))
        response = imported(alice, file())
        assert_problem(response, 429, "imports of this project are running already")
        assert response.headers["Retry-After"] == "10"
    assert "database" not in caplog.text
    assert imported(alice, file()).status == 201

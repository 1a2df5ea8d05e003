"""Importing transcripts that a person uploads."""

import json
import re
from contextlib import ExitStack
from io import BytesIO

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.services.exports import export_session
from historyapp.services.imports.parsers import OF_PROJECT, PARSER_POOL
from historyapp.services.rewinds import fork
from tests.dashboard.pages import html, text

MESSAGES = [
    {"role": "user", "content": "Count the files"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "three files"},
    {"role": "assistant", "content": "There are three."},
]


def upload(client: Client, *files: tuple[str, bytes], format: str = "") -> str:
    named = [SimpleUploadedFile(name, content) for name, content in files]
    response = client.post("/imports", {"files": named, "format": format})
    assert response.status_code == 200
    return html(response)


def chat() -> tuple[str, bytes]:
    return "chat.json", json.dumps(MESSAGES).encode()


def test_an_uploaded_transcript_becomes_a_session_of_the_project(alice: Client, project: Project) -> None:
    page = upload(alice, chat())
    session = Session.objects.get(project=project)
    assert session.steps == 2
    assert f'href="{reverse("overview", args=[session.pk])}"' in page


def test_importing_again_adds_nothing(alice: Client, project: Project) -> None:
    upload(alice, chat())
    assert "nothing new" in upload(alice, chat())
    assert Session.objects.count() == 1


def test_a_fork_is_new_even_without_an_entry_of_its_own(alice: Client, session: Session) -> None:
    fork(session.project, session.pk, at_step=2)
    export = "".join(export_session(session, "playhead_jsonl").chunks).encode()
    assert "nothing new" not in upload(alice, ("export.jsonl", export))
    assert upload(alice, ("export.jsonl", export)).count("nothing new") == 2


def test_a_file_without_a_session_says_so(alice: Client) -> None:
    snapshot = json.dumps({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}).encode()
    page = upload(alice, ("snapshots.jsonl", snapshot))
    assert "claude_code, no session found" in page
    assert "1 record skipped" in page
    assert "no session in it" not in upload(alice, chat(), ("poem.json", b"roses are red"))


def test_skipped_records_are_listed_by_reason(alice: Client) -> None:
    snapshot = json.dumps({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}})
    page = upload(alice, ("snapshots.jsonl", "\n".join([snapshot] * 7).encode()))
    assert "7 records skipped: nothing in them belongs to the history" in page
    assert re.search(r"<li>1, 2, 3, 4, 5\s+… \(7 records\): .", page)


def test_the_report_says_what_became_of_every_line(alice: Client) -> None:
    def record(number: int, kind: str, **message: object) -> str:
        ids = {"uuid": str(number), "sessionId": "s"}
        return json.dumps({"type": kind, **ids, "message": {"role": kind, **message}})

    lines = [
        record(1, "user", content="go"),
        record(2, "assistant", id="m", content=[{"type": "text", "text": "I look."}]),
        record(3, "assistant", id="m", content=[{"type": "tool_use", "id": "c", "name": "ls", "input": {}}]),
        json.dumps({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}),
        "",
    ]
    page = upload(alice, ("s.jsonl", "\n".join([*lines, "{"]).encode()))
    words = " ".join(page.split())
    assert "6 lines: 2 with entries, 1 that continues an entry or describes the session, 2 left out" in words
    assert ", 1 blank.</p>" in words
    assert " lines: " not in upload(alice, chat())


def test_each_file_is_reported_separately(alice: Client) -> None:
    page = upload(alice, ("readme.txt", b"hello"), chat(), ("<b>.json", b"\xff\xfe{"))
    assert "readme.txt" in page
    assert page.count('<p class="bar bar-bad"') == 2
    assert "<b>.json" not in page
    assert Session.objects.count() == 1


def test_a_damaged_record_is_named_by_its_line(alice: Client) -> None:
    first = {"type": "user", "uuid": "1", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
    lines = json.dumps(first).encode() + b"\n{broken\n"
    page = upload(alice, ("session.jsonl", lines), format="claude_code")
    assert "1 damaged" in page
    assert "<li>2:" in page


def test_a_form_without_a_file_says_so(alice: Client) -> None:
    assert "Choose at least one file." in text(alice.post("/imports", {"format": ""}))


def test_a_format_that_does_not_exist_is_a_422(alice: Client) -> None:
    response = alice.post("/imports", {"files": [BytesIO(b"x")], "format": "nonsense"})
    assert response.status_code == 422


@override_settings(PLAYHEAD_QUEUE_SECONDS=0.01)
def test_an_import_that_finds_no_parser_says_when_to_send_the_files_again(
    alice: Client, project: Project
) -> None:
    with ExitStack() as stack:
        for _ in range(OF_PROJECT):
            stack.enter_context(PARSER_POOL.acquire(project.pk))
        response = alice.post("/imports", {"files": [SimpleUploadedFile(*chat())]})
    assert (response.status_code, response["Retry-After"]) == (429, "10")
    assert "imports of this project are running already" in text(response)
    assert not Session.objects.exists()

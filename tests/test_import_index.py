"""A long session is indexed for searches after its import, by the importing process and by a worker."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from historyapp import enqueue
from historyapp.models import Membership, Session
from historyapp.services.bootstrap import default_project
from historyapp.services.keys import create_key
from historyapp.services.text_index import index_text


@pytest.fixture
def index_requests(db: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions for which an index was requested."""
    lines: list[str] = []
    monkeypatch.setattr(enqueue, "_requested_at", {})

    def task_message(task: str, argument: str, queue: str) -> str:
        if task == "index_text":
            lines.append(argument)
        return ""

    monkeypatch.setattr(enqueue, "task_message", task_message)
    return lines


def chat(messages: int) -> bytes:
    """A transcript in the format of OpenAI's chat messages."""
    roles = ("user", "assistant")
    return json.dumps([{"role": roles[n % 2], "content": f"message {n}"} for n in range(messages)]).encode()


def by_api(content: bytes, folder: Path) -> None:
    _, secret = create_key(default_project(), "agent")
    upload = {"files": SimpleUploadedFile("chat.json", content)}
    Client().post("/api/v1/imports", upload, headers={"Authorization": f"Bearer {secret}"})


def by_page(content: bytes, folder: Path) -> None:
    user, _ = User.objects.get_or_create(username="alice")
    Membership.objects.get_or_create(project=default_project(), user=user)
    client = Client()
    client.force_login(user)
    client.post("/imports", {"files": [SimpleUploadedFile("chat.json", content)]})


def by_command(content: bytes, folder: Path) -> None:
    (folder / "chat.json").write_bytes(content)
    call_command("import", folder / "chat.json")


@pytest.mark.parametrize("imported", [by_api, by_page, by_command])
def test_a_long_session_is_indexed_after_its_import(
    imported: Callable[[bytes, Path], None], index_requests: list[str], tmp_path: Path
) -> None:
    imported(chat(600), tmp_path)
    assert index_requests == [str(Session.objects.get().pk)]
    assert index_text(UUID(index_requests[0])) == 1
    imported(chat(600), tmp_path)
    assert len(index_requests) == 1


def test_a_short_session_is_not_indexed_after_its_import(index_requests: list[str], tmp_path: Path) -> None:
    by_page(chat(40), tmp_path)
    assert Session.objects.count() == 1
    assert index_requests == []


def test_a_dry_run_of_the_command_requests_no_index(index_requests: list[str], tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_bytes(chat(600))
    call_command("import", tmp_path / "chat.json", dry_run=True)
    assert index_requests == []

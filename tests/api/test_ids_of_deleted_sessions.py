"""The id of a deleted session is never that of another one: caches, logs and links name sessions by ids."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from historyapp.models import Session
from historyapp.services.deletions import delete_hidden, hide
from historyapp.services.transactions import writing
from tests.api.agent import Agent, ask
from tests.api.test_problems import assert_problem


def delete(session: str) -> None:
    with writing():
        hide(Session.objects.get(pk=session), "user:Alice")
    delete_hidden(Session.objects.get(pk=session).pk)


@pytest.fixture
def deleted(run: Agent) -> tuple[str, bytes]:
    """The id of a deleted session, and its export."""
    run.append(ask("The password is hunter2."))
    session = run.get()["id"]
    exported: bytes = run.get("/export").body
    delete(session)
    return session, exported


@pytest.mark.parametrize("of_other", [False, True])
def test_a_session_cannot_be_created_with_it(
    alice: Agent, charlie: Agent, deleted: tuple[str, bytes], of_other: bool
) -> None:
    id, _ = deleted
    response = (charlie if of_other else alice).post("/sessions", {"id": id})
    assert_problem(response, 409)
    assert "belongs or belonged to another session" in str(response.body)
    assert not Session.objects.filter(pk=id).exists()


def test_a_fork_cannot_be_created_with_it(charlie: Agent, deleted: tuple[str, bytes]) -> None:
    id, _ = deleted
    other = charlie.post("/sessions", {})["id"]
    assert_problem(charlie.post(f"/sessions/{other}/forks", {"id": id}), 409)
    assert not Session.objects.filter(pk=id).exists()


def test_an_import_of_its_export_gets_another_id(charlie: Agent, deleted: tuple[str, bytes]) -> None:
    id, exported = deleted
    response = charlie.upload("/imports", {"files": [SimpleUploadedFile("run.jsonl", exported)]})
    [imported] = response["files"][0]["sessions"]
    assert imported["id"] != id
    assert (
        charlie.get(f"/sessions/{imported['id']}/entries")["items"][0]["content"]
        == "The password is hunter2."
    )

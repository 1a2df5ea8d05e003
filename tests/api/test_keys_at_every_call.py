"""Every endpoint of the OpenAPI document refuses every key without permission, and then writes nothing."""

import json
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.apps import apps
from django.utils import timezone

from historyapp.models import ApiKey, Project
from tests.api.agent import Agent, ask
from tests.api.conftest import EVERYTHING, key_for
from tests.api.test_auth import RUN, SNAPSHOT

PREFIX = "/api/v1"
GIVEN = {
    "position": "1",
    "number": "1",
    "snapshot_id": SNAPSHOT,
    "run_id": RUN,
    "comparison_id": RUN,
    "what_if_id": RUN,
    "share_id": RUN,
    "webhook_id": RUN,
    "delivery_id": f"msg_{UUID(RUN).hex}",
    "search_id": RUN,
    "bulk_id": RUN,
    "evaluation_id": RUN,
}
QUERIES = {
    "/sessions/{session_id}/snapshots/{snapshot_id}/diff": f"?with={SNAPSHOT}",
    "/sessions/{session_id}/find": "?q=mine",
    "/search": "?q=mine",
    "/search/suggestions": "?q=mine",
}


class Operation(NamedTuple):
    method: str
    path: str
    """With ids; a new parameter has to be added to ``GIVEN``."""
    is_of_a_session: bool
    body: bytes


@pytest.fixture
def operations(session_id: str, run: Agent) -> list[Operation]:
    """Every operation of the document for a session of Alice's, with the example bodies."""
    run.append(ask("mine"))
    document = Agent(None).get("/openapi.json").body
    operations_of_document = []
    for path, calls in document["paths"].items():
        filled = path.removeprefix(PREFIX).format(session_id=session_id, **GIVEN)
        for method, call in calls.items():
            address = filled + QUERIES.get(path.removeprefix(PREFIX), "")
            operations_of_document.append(
                Operation(method.upper(), address, "{session_id}" in path, body_of(document, call))
            )
    assert len(operations_of_document) >= 41
    return operations_of_document


def body_of(document: dict[str, Any], call: dict[str, Any]) -> bytes:
    """The document's first example body for this operation, or none if it takes no JSON."""
    content = call.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return b""
    schema = content["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = document["components"]["schemas"][name] if name else schema
    return json.dumps(schema["examples"][0]).encode()


def answers(operations: list[Operation], key: str | None) -> list[tuple[Operation, Any]]:
    agent = Agent(key)
    return [(each, agent.send(each.method, each.path, each.body)) for each in operations]


def rows() -> dict[str, int]:
    """The number of rows in each of our tables."""
    return {
        model.__name__: model._default_manager.count()
        for model in apps.get_app_config("historyapp").get_models()
    }


def revoked(project: Project) -> str:
    text = key_for(project, "revoked")
    ApiKey.objects.filter(name="revoked").update(revoked_at=timezone.now())
    return text


@pytest.mark.parametrize("state", ["none", "wrong", "revoked"])
def test_without_a_usable_key_every_operation_is_a_401_and_writes_nothing(
    operations: list[Operation], project: Project, state: str
) -> None:
    key = {"none": None, "wrong": "ph_" + "0" * 40, "revoked": revoked(project)}[state]
    before = rows()
    given = answers(operations, key)
    assert {response.status for _, response in given} == {401}
    assert all("WWW-Authenticate" in response.headers for _, response in given)
    assert rows() == before


def test_a_key_of_another_project_gets_404_and_sees_no_data(
    operations: list[Operation], project: Project, session_id: str
) -> None:
    theirs = key_for(Project.objects.create(name="Dora's"), "dora")
    before = rows()
    given = answers([each for each in operations if each.is_of_a_session], theirs)
    assert [(each, response.body) for each, response in given if response.status != 404] == []
    assert rows() == before
    for _, response in answers([each for each in operations if not each.is_of_a_session], theirs):
        assert session_id not in json.dumps(response.body, default=repr)
        assert project.name not in json.dumps(response.body, default=repr)


def test_a_key_without_the_scope_gets_a_403_and_writes_nothing(
    operations: list[Operation], project: Project
) -> None:
    without_read = key_for(project, "no read", tuple(scope for scope in EVERYTHING if scope != "read"))
    only_read = key_for(project, "only read", ("read",))
    before = rows()
    given = answers([each for each in operations if each.method == "GET"], without_read)
    given += answers([each for each in operations if each.method != "GET"], only_read)
    assert len(given) == len(operations)
    assert [each for each, response in given if response.status != 403] == []
    assert rows() == before

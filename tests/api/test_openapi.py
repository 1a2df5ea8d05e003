"""The OpenAPI document: complete, with examples, and the same for everybody."""

from typing import Any

import pytest
from django.test import Client

from historyapp.api.openapi import Document
from tests.api.agent import Agent

UNTAGGED = ("/export", "/stream", "/shares")
PATHS = {
    "/sessions": {"get", "post"},
    "/facets": {"get"},
    "/sessions/{session_id}": {"get", "patch", "delete"},
    "/events": {"get"},
    "/figures": {"get"},
    "/search": {"get"},
    "/search/suggestions": {"get"},
    "/searches": {"get", "post"},
    "/searches/{search_id}": {"patch", "delete"},
    "/sessions/{session_id}/stream": {"get"},
    "/sessions/{session_id}/entries": {"get", "post"},
    "/sessions/{session_id}/entries/{position}": {"get"},
    "/sessions/{session_id}/actions": {"post"},
    "/sessions/{session_id}/results": {"post"},
    "/sessions/{session_id}/steps": {"post"},
    "/sessions/{session_id}/episodes": {"get"},
    "/sessions/{session_id}/find": {"get"},
    "/sessions/{session_id}/episodes/{number}": {"get"},
    "/sessions/{session_id}/episodes/{number}/request": {"get"},
    "/sessions/{session_id}/episodes/{number}/note": {"put", "delete"},
    "/sessions/{session_id}/notes": {"get"},
    "/sessions/{session_id}/episodes/{number}/origins": {"get"},
    "/sessions/{session_id}/progress": {"get"},
    "/sessions/{session_id}/history": {"get"},
    "/sessions/{session_id}/messages": {"get"},
    "/sessions/{session_id}/contexts": {"get", "post"},
    "/sessions/{session_id}/calls": {"post"},
    "/sessions/{session_id}/snapshots": {"get"},
    "/sessions/{session_id}/snapshots/{snapshot_id}": {"get"},
    "/sessions/{session_id}/snapshots/{snapshot_id}/request": {"get"},
    "/sessions/{session_id}/snapshots/{snapshot_id}/diff": {"get"},
    "/sessions/{session_id}/ledger": {"get"},
    "/sessions/{session_id}/ledger/steps": {"get"},
    "/sessions/{session_id}/overview": {"get"},
    "/sessions/{session_id}/summaries": {"get", "post"},
    "/sessions/{session_id}/compressions": {"get", "post"},
    "/sessions/{session_id}/compressions/estimate": {"get"},
    "/sessions/{session_id}/compressions/{run_id}": {"get", "delete"},
    "/sessions/{session_id}/compressions/{run_id}/retries": {"post"},
    "/sessions/{session_id}/comparisons": {"post"},
    "/sessions/{session_id}/comparisons/{comparison_id}": {"get"},
    "/sessions/{session_id}/comparisons/{comparison_id}/rows": {"get"},
    "/sessions/{session_id}/rewinds": {"get", "post"},
    "/sessions/{session_id}/rewinds/{position}/undo": {"post"},
    "/sessions/{session_id}/forks": {"post"},
    "/sessions/{session_id}/export": {"get"},
    "/bulk-actions": {"post"},
    "/bulk-actions/estimate": {"post"},
    "/bulk-actions/{bulk_id}": {"get", "delete"},
    "/evaluations": {"get", "post"},
    "/evaluations/{evaluation_id}": {"get"},
    "/evaluations/{evaluation_id}/cancellations": {"post"},
    "/exports": {"post"},
    "/compare": {"get"},
    "/compare/pairs": {"get"},
    "/imports": {"post"},
    "/project": {"get", "patch"},
    "/caps": {"get", "patch"},
    "/sessions/{session_id}/shares": {"get", "post"},
    "/sessions/{session_id}/shares/{share_id}": {"delete"},
    "/webhooks": {"get", "post"},
    "/webhooks/{webhook_id}": {"get", "patch", "delete"},
    "/webhooks/{webhook_id}/secrets": {"post"},
    "/webhooks/{webhook_id}/tests": {"post"},
    "/webhooks/{webhook_id}/deliveries": {"get"},
    "/webhooks/{webhook_id}/deliveries/{delivery_id}": {"get"},
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliveries": {"post"},
    "/what-ifs": {"get", "put"},
    "/what-ifs/{what_if_id}": {"delete"},
}


@pytest.fixture
def document(db: None) -> dict[str, Any]:
    response = Agent(None).get("/openapi.json")
    assert response.status == 200
    return dict(response.body)


@pytest.fixture
def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_the_document_has_every_operation(document: dict[str, Any]) -> None:
    documented = {path.removeprefix("/api/v1"): set(methods) for path, methods in document["paths"].items()}
    assert documented == PATHS


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return dict(document["components"]["schemas"][name]) if name else schema


def test_every_json_body_and_response_has_an_example(
    document: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    for name, operation in operations.items():
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        bodies += [response for status, response in operation["responses"].items() if status.startswith("2")]
        for content in (body.get("content", {}) for body in bodies):
            json = content.get("application/json") if not name.endswith("/export") else None
            assert json is None or resolved(document, json["schema"]).get("examples"), name


def test_every_endpoint_documents_its_errors(operations: dict[str, dict[str, Any]]) -> None:
    for name, operation in operations.items():
        statuses = set(operation["responses"])
        assert {"400", "401", "403", "422", "503"} <= statuses, name
        names_object = "{" in name or "/compare" in name
        names_object |= name.startswith("patch") and name.endswith("/caps")
        assert ("404" in statuses) == names_object, name
        cancels = name.startswith("delete") and ("/compressions/" in name or "/bulk-actions/" in name)
        erases = name.startswith("delete") and name.endswith("/sessions/{session_id}")
        writes = name.startswith(("post", "patch", "put")) and not name.endswith(
            ("/project", "/exports", "/{webhook_id}")
        )
        assert ("409" in statuses) == (writes or cancels or erases), name
        problems = [response for status, response in operation["responses"].items() if status >= "400"]
        assert all("application/problem+json" in problem["content"] for problem in problems)


def test_every_operation_needs_a_key(operations: dict[str, dict[str, Any]]) -> None:
    assert all(operation["security"] == [{"BearerKey": []}] for operation in operations.values())


def test_every_write_takes_an_idempotency_key_and_session_reads_take_an_etag(
    operations: dict[str, dict[str, Any]],
) -> None:
    for name, operation in operations.items():
        headers = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "header"}
        tagged = name.startswith("get /api/v1/sessions/") and not name.endswith(UNTAGGED)
        assert headers == (
            {"Idempotency-Key"} if name.startswith("post") else {"If-None-Match"} if tagged else set()
        ), name


def test_every_session_read_takes_a_position(operations: dict[str, dict[str, Any]]) -> None:
    for name, operation in operations.items():
        if name.startswith("get /api/v1/sessions/") and not name.endswith(("/stream", "/shares")):
            assert "as_of" in {parameter["name"] for parameter in operation["parameters"]}, name


def test_raw_messages_are_shown_to_agents(document: dict[str, Any]) -> None:
    assert "raw_message" in document["components"]["schemas"]["ActionIn"]["properties"]


def test_names_are_short_and_all_are_used(
    document: dict[str, Any], operations: dict[str, dict[str, Any]]
) -> None:
    names = document["components"]["schemas"]
    assert all(name.isidentifier() and len(name) < 30 for name in names), names
    assert len({operation["operationId"] for operation in operations.values()}) == len(operations)


def test_the_docs_page_needs_no_key_and_no_other_host(db: None) -> None:
    page = Client().get("/api/v1/docs").content.decode()
    assert "swagger-ui" in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_document_is_written_once_and_has_an_etag(monkeypatch: pytest.MonkeyPatch) -> None:
    """To write it takes about 20 ms, and anybody may read it."""
    first = Client().get("/api/v1/openapi.json")

    def write_again(*_: object) -> None:
        raise AssertionError("the document is written again")

    monkeypatch.setattr("historyapp.api.openapi.json.dumps", write_again)
    monkeypatch.setattr(Document, "__init__", write_again)
    assert Client().get("/api/v1/openapi.json").content == first.content
    again = Client().get("/api/v1/openapi.json", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")

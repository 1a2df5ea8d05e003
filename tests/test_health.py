"""The health checks answer as load balancers expect."""

import json

import pytest
from django.db import DatabaseError, connection
from django.test import Client


def test_healthz_needs_no_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_readyz_tells_that_the_database_answers(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "parts": {"database": "ok"}}


@pytest.mark.django_db
def test_readyz_is_503_when_the_database_does_not_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DatabaseError("connection to host db1 as alice failed")

    monkeypatch.setattr(connection, "cursor", refuse)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert json.loads(response.content) == {"status": "unavailable", "parts": {"database": "unavailable"}}

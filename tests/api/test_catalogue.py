"""The page to which the ``type`` of a problem document links."""

import re
from urllib.parse import urljoin

import pytest
from django.test import Client

from historyapp.wire.problems import PROBLEM_TYPES
from tests.api.agent import Agent
from tests.dashboard.pages import html


def test_a_type_leads_to_its_explanation_without_a_key(client: Client, alice: Agent) -> None:
    address, anchor = urljoin("/api/v1/sessions/x", alice.get("/sessions/nothing")["type"]).split("#")
    response = client.get(address)
    assert response.status_code == 200
    assert f'id="{anchor}"' in html(response)


@pytest.mark.django_db
def test_every_kind_that_can_be_sent_has_its_place(client: Client) -> None:
    page = html(client.get("/docs/errors"))
    sent = {type.code for type in PROBLEM_TYPES}
    assert set(re.findall(r'<section class="card prose" id="([^"]+)"', page)) == sent
    assert "<code>expected_position</code>" in page
    assert client.post("/docs/errors").status_code == 405

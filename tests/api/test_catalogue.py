"""The page to which the ``type`` of a problem document links."""

import re
from urllib.parse import urljoin

import pytest
from django.test import Client

from historyapp.wire.problems import PROBLEM_TYPES
from tests.api.agent import Agent
from tests.dashboard.pages import html


def test_a_type_links_to_its_explanation_which_needs_no_key(client: Client, alice: Agent) -> None:
    address, anchor = urljoin("/api/v1/sessions/x", alice.get("/sessions/nothing")["type"]).split("#")
    response = client.get(address)
    assert response.status_code == 200
    assert f'id="{anchor}"' in html(response)


@pytest.mark.django_db
def test_the_page_has_a_section_for_each_problem_type(client: Client) -> None:
    page = html(client.get("/docs/errors"))
    sent = {type.code for type in PROBLEM_TYPES}
    assert set(re.findall(r'<section class="card prose" id="([^"]+)"', page)) == sent
    assert "<code>expected_position</code>" in page
    assert client.post("/docs/errors").status_code == 405

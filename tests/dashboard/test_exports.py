"""Exporting from the session page."""

import json

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import reverse

from historyapp.core.exporters import EXPORTERS
from historyapp.models import AuditRecord, Session
from tests.dashboard.pages import html


def exported(client: Client, session: Session, format: str, query: str = "") -> StreamingHttpResponse:
    response = client.get(reverse("export", args=[session.pk, format]) + query)
    assert isinstance(response, StreamingHttpResponse)
    return response


@pytest.mark.parametrize("format", EXPORTERS)
def test_every_format_is_in_the_menu_and_is_sent_as_a_file(
    alice: Client, session: Session, format: str
) -> None:
    address = reverse("export", args=[session.pk, format])
    assert f'href="{address}"' in html(alice.get(reverse("session", args=[session.pk])))
    response = exported(alice, session, format)
    assert response["Content-Disposition"].startswith('attachment; filename="repair-the-totals')
    assert b"file-5.txt" in response.getvalue()


def test_an_export_is_as_of_the_position(alice: Client, session: Session) -> None:
    messages = json.loads(exported(alice, session, "openai_messages", "?as_of=5").getvalue())
    assert "file-2.txt" in json.dumps(messages)
    assert "file-3.txt" not in json.dumps(messages)


def test_exporting_is_recorded(alice: Client, session: Session) -> None:
    exported(alice, session, "markdown")
    record = AuditRecord.objects.get(action="export")
    assert (record.actor, record.session) == ("user:alice", session.pk)


def test_a_format_that_does_not_exist_is_a_422(alice: Client, session: Session) -> None:
    assert alice.get(reverse("export", args=[session.pk, "pdf"])).status_code == 422


def test_the_menu_offers_html_without_text_of_people(alice: Client, session: Session) -> None:
    address = reverse("export", args=[session.pk, "html"])
    assert f'href="{address}?inputs=0"' in html(alice.get(reverse("session", args=[session.pk])))
    assert f'href="{address}?inputs=0&amp;as_of=5"' in html(
        alice.get(reverse("session", args=[session.pk]) + "?as_of=5")
    )
    response = exported(alice, session, "html", "?inputs=0&as_of=5")
    assert response["Content-Disposition"] == f'attachment; filename="session-{str(session.pk)[-6:]}.html"'
    text = response.getvalue().decode()
    assert "Session with a hidden title" in text
    assert "file-2.txt" in text
    assert "file-3.txt" not in text
    assert "epair the totals" not in text
    refused = alice.get(reverse("export", args=[session.pk, "markdown"]) + "?inputs=0")
    assert refused.status_code == 422


@pytest.mark.parametrize("no", ["0", "no", "off", "False"])
def test_every_word_that_the_api_reads_as_false_leaves_out_text_of_people(
    alice: Client, session: Session, no: str
) -> None:
    text = exported(alice, session, "html", f"?inputs={no}").getvalue().decode()
    assert "epair the totals" not in text
    assert "epair the totals" in exported(alice, session, "html", "?inputs=yes").getvalue().decode()


@pytest.mark.parametrize("unclear", ["", "none", "2"])
def test_another_value_of_inputs_is_refused(alice: Client, session: Session, unclear: str) -> None:
    refused = alice.get(reverse("export", args=[session.pk, "html"]) + f"?inputs={unclear}")
    assert refused.status_code == 422
    assert "Use true or false." in html(refused)

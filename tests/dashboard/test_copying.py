"""Ids and links can be copied: each is complete, has a button, and can be selected without scripts."""

import re

from django.templatetags.static import static
from django.test import Client
from django.test.utils import override_settings

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.contexts import RequestedContext
from historyapp.services.keys import create_key
from historyapp.services.snapshots import record_snapshot, serve_context
from historyapp.services.summaries import SummaryText, add_summary
from historyapp.static import JOINED
from tests.dashboard.pages import fragment, html
from tests.services.drafts import act


def copyable(page: str) -> dict[str, str]:
    """What can be copied, by the title of its button."""
    button = r'class="copyable"><code>(.*?)</code><button [^>]*data-copy title="Copy the (.*?)"'
    buttons = re.findall(button, page)
    return {name: value for value, name in buttons}


def test_a_step_has_its_link_number_and_position(alice: Client, session: Session) -> None:
    values = copyable(html(fragment(alice, f"/sessions/{session.pk}/steps/2")))
    assert values["link to this step"] == f"http://testserver/sessions/{session.pk}?step=2"
    assert (values["number of the step"], values["session ID"]) == ("2", str(session.pk))
    assert values["position of the output"] == str(4)


def test_the_link_keeps_the_position_and_uses_the_servers_own_address(
    alice: Client, session: Session
) -> None:
    with override_settings(PLAYHEAD_BASE_URL="https://playhead.example"):
        values = copyable(html(fragment(alice, f"/sessions/{session.pk}/steps/2?as_of=7")))
    assert values["link to this step"] == (
        f"https://playhead.example/sessions/{session.pk}?step=2&amp;as_of=7"
    )


def test_the_page_of_a_session_has_its_id(alice: Client, session: Session) -> None:
    assert copyable(html(alice.get(f"/sessions/{session.pk}/overview")))["session ID"] == str(session.pk)


def test_a_snapshot_has_its_id_and_hash(alice: Client, project: Project, session: Session) -> None:
    snapshot = record_snapshot(serve_context(session, RequestedContext()))
    append(project, session.pk, [act("ls")])
    values = copyable(html(fragment(alice, f"/sessions/{session.pk}/context?step=-1")))
    assert values == {"snapshot ID": str(snapshot.pk), "hash": snapshot.sha256}


def test_a_run_and_a_summary_have_their_ids(alice: Client, project: Project, session: Session) -> None:
    run = start_run(project, session.pk, RunRequest("simple_extract", 1, 2)).run
    values = copyable(html(alice.get(f"/sessions/{session.pk}/compressions/{run.pk}")))
    assert values["run ID"] == str(run.pk)
    summary = add_summary(project, session.pk, (1, 2), SummaryText("Both went well."))
    values = copyable(html(fragment(alice, f"/sessions/{session.pk}/steps/1")))
    assert values["summary ID"] == str(summary.pk)


def test_a_key_has_its_prefix(alice: Client, project: Project) -> None:
    key, _ = create_key(project, "agent")
    assert copyable(html(alice.get("/project")))["prefix of the key"] == key.prefix


def test_every_page_loads_the_script_of_the_buttons(alice: Client, session: Session) -> None:
    for address in ("", "/overview", "/connect", "/settings", "/context?step=1"):
        assert static("joined/page.js") in html(alice.get(f"/sessions/{session.pk}{address}")), address
    assert "js/copy.js" in JOINED["joined/page.js"]

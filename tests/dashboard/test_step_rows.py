"""A row of the step list says in two lines what was tried and what came of it."""

from django.test import Client
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.services.append import append
from tests.dashboard.pages import fragment, html
from tests.services.drafts import act, answer, failed, ok


def row(client: Client, session: Session, number: int) -> str:
    page = html(fragment(client, reverse("steps", args=[session.pk]) + f"?after={number - 1}"))
    return page[page.index(f'data-step="{number}"') :].split("</li>")[0]


def test_a_row_names_the_target_and_has_the_icon_of_its_kind(alice: Client, session: Session) -> None:
    shown = row(alice, session, 1)
    assert "<b>file-1.txt</b>" in shown
    assert 'aria-label="read"' in shown
    assert "text 1" in shown


def test_a_failure_has_its_line_in_red_and_its_sign(alice: Client, session: Session) -> None:
    shown = row(alice, session, 3)
    assert '<span class="error-line" dir="auto">not found</span>' in shown
    assert 'aria-label="error"' in shown


def test_a_likely_failure_is_not_called_an_error(alice: Client, project: Project, session: Session) -> None:
    output = "Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: no such row"
    append(project, session.pk, [act("bash", command="python a.py"), ok(outputs=output)])
    shown = row(alice, session, 6)
    assert "ValueError: no such row" in shown
    assert 'aria-label="error"' not in shown


def test_an_answer_has_no_tool(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [answer("All done.")])
    shown = row(alice, session, 6)
    assert '<span class="answer">All done.</span>' in shown
    assert 'aria-label="answer"' in shown


def test_of_a_long_path_only_the_end_is_shown(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [act("read_file", path="/home/someone/project/src/<b>.py"), failed()])
    assert "<b>…/src/&lt;b&gt;.py</b>" in row(alice, session, 6)

"""The page of one long text of a step."""

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ok

OUTPUT = "".join(f"compiling file {number}\n" for number in range(2_000)) + "fatal: <b>no such header</b>\n"


@pytest.fixture
def build(project: Project) -> Session:
    session = create_session(project)
    append(project, session.pk, [act("bash", command="make"), ok(outputs=OUTPUT)])
    return session


def address(session: Session, query: str = "", key: str = "result-0") -> str:
    return reverse("whole-text", args=[session.pk, 1, key]) + query


def test_a_long_output_links_to_its_page(alice: Client, build: Session) -> None:
    step = html(alice.get(reverse("session", args=[build.pk]) + "?step=1"))
    assert f'href="{address(build)}"' in step
    assert "Search in this text" in step


def test_the_page_finds_a_line_without_scripts(alice: Client, build: Session) -> None:
    page = alice.get(address(build, "?q=FATAL"))
    assert "1 line with FATAL" in text(page)
    assert "<mark>fatal</mark>: &lt;b&gt;no such header" in html(page)
    assert "<b>no such" not in html(page)
    assert "compiling file 1999" in text(page)
    assert "compiling file 5 " not in text(page)


def test_a_search_without_matches_says_so(alice: Client, build: Session) -> None:
    assert "Not found" in text(alice.get(address(build, "?q=segfault")))


def test_pages_of_lines_and_of_text_keep_the_search(alice: Client, build: Session) -> None:
    page = html(alice.get(address(build, "?q=compiling&from=50&as_of=2")))
    assert "?q=compiling&amp;as_of=2&amp;from=100" in page
    assert "?q=compiling&amp;as_of=2&amp;from=50&amp;start=" in page


@pytest.mark.parametrize("query", ["?start=x", "?from=x", f"?q={'x' * 201}"])
def test_invalid_parameters_are_a_422(alice: Client, build: Session, query: str) -> None:
    assert alice.get(address(build, query)).status_code == 422


def test_a_text_that_does_not_exist_is_a_404(alice: Client, build: Session) -> None:
    assert alice.get(address(build, key="result-9")).status_code == 404


def test_a_stranger_gets_404(charlie: Client, build: Session) -> None:
    assert charlie.get(address(build)).status_code == 404

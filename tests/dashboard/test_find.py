"""Find in the session: in the address, without scripts, on every position, and with hostile text."""

from urllib.parse import quote

import pytest
from django.test import Client

from dashboard import find
from historyapp.models import Project, Session, text_search
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, ok


def test_the_page_says_which_steps_have_the_text(alice: Client, session: Session) -> None:
    page = alice.get(f"/sessions/{session.pk}?step=2&find=FILE-")
    assert 'data-found="1,2,3,4,5"' in html(page)
    assert "2 of 5 steps" in text(page)
    assert f'href="/sessions/{session.pk}?step=3&amp;find=FILE-" data-step="3"' in html(page)
    assert "Step 4 · call" in text(page)
    assert "read_file path: <mark>file-</mark>4.txt" in html(page)


def test_the_page_says_up_to_which_step_it_has_searched(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "MAX_HITS", 3)
    assert 'title="Searched up to step 3"' in html(alice.get(f"/sessions/{session.pk}?find=file-"))
    monkeypatch.undo()
    assert "Searched up to" not in html(alice.get(f"/sessions/{session.pk}?find=file-"))


def test_every_link_keeps_the_search(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=4&status=success&find=a%26b%22"))
    assert 'data-find="&amp;find=a%26b%22"' in page
    assert f'href="/sessions/{session.pk}?step=5&amp;status=success&amp;find=a%26b%22"' in page
    assert '<input type="hidden" name="status" value="success">' in page
    assert f'href="/sessions/{session.pk}?step=4&amp;status=success"' in page  # ends the search


def test_next_and_previous_wrap_around(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=5&find=text"))
    assert 'data-find-move="previous"\n    href="/sessions' in page
    previous, following = (page.partition(f'data-find-move="{name}"')[2] for name in ("previous", "next"))
    assert f'href="/sessions/{session.pk}?step=4&amp;find=text"' in previous.partition(">")[0]
    assert f'href="/sessions/{session.pk}?step=1&amp;find=text"' in following.partition(">")[0]


def test_a_search_without_matches_says_so(alice: Client, session: Session) -> None:
    assert "Not found" in text(alice.get(f"/sessions/{session.pk}?find=nowhere"))
    assert 'id="found" class="found"></div>' in html(alice.get(f"/sessions/{session.pk}?find=%20"))
    assert 'id="found" class="found"></div>' in html(alice.get(f"/sessions/{session.pk}"))


def test_only_the_first_characters_of_a_very_long_text_are_searched(alice: Client, session: Session) -> None:
    assert "Not found" in text(alice.get(f"/sessions/{session.pk}?find={'x' * 3000}"))


def test_takes_are_not_searched(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=3))
    assert 'data-found="1,2,3"' in html(alice.get(f"/sessions/{session.pk}?find=file-"))
    assert 'data-found="1,2,3,4,5"' in html(alice.get(f"/sessions/{session.pk}?as_of=11&find=file-"))


def test_steps_of_takes_are_listed_separately_as_they_were(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=3))
    append(project, session.pk, [act("other"), ok()])
    page = html(alice.get(f"/sessions/{session.pk}?find=file-"))
    assert "Cut off: step 4" in page
    address = f"/sessions/{session.pk}?as_of=11&step=5&find=file-"
    assert f'href="{address.replace("&", "&amp;")}"' in page
    assert 'data-found="1,2,3,4,5"' in html(alice.get(address))
    alone = alice.get(f"/sessions/{session.pk}?find=file-5")
    assert "Not found" in text(alone)
    assert "Cut off: step 5" in html(alone)
    assert "Cut off" not in html(alice.get(f"/sessions/{session.pk}?find=file-1"))


def test_a_take_of_a_take_is_shown_as_of_the_text(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=4))  # at 12: step 5 is in a take
    append(project, session.pk, [act("inner"), ok()])
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act("other"), ok()])
    page = html(alice.get(f"/sessions/{session.pk}?find=file-5"))
    address = f"/sessions/{session.pk}?as_of=10&step=-1&find=file-5"
    assert f'href="{address.replace("&", "&amp;")}"' in page
    assert 'data-found="5"' in html(alice.get(address))


def test_steps_cut_off_before_a_fork_are_shown_in_the_parent(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=3))
    append(project, session.pk, [act("another"), ok()])
    child = fork(project, session.pk)
    append(project, child.pk, [act("other"), ok()])
    page = html(alice.get(f"/sessions/{child.pk}?find=file-5"))
    address = f"/sessions/{session.pk}?as_of=10&step=-1&find=file-5"
    assert f'href="{address.replace("&", "&amp;")}"' in page
    assert 'data-found="5"' in html(alice.get(address))


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=a>'])
def test_hostile_text_stays_inert(alice: Client, project: Project, hostile: str) -> None:
    session = create_session(project)
    append(project, session.pk, [ask(f"look {hostile} here"), act("ls"), ok()])
    page = html(alice.get(f"/sessions/{session.pk}?find={quote(hostile)}"))
    assert 'data-found="1"' in page
    assert hostile not in page


def test_the_fragment_has_only_the_result(alice: Client, session: Session) -> None:
    response = fragment(alice, f"/sessions/{session.pk}/find?step=3&find=file-", target="found")
    assert html(response).startswith('<p role="status" data-found="1,2,3,4,5"')
    page = alice.get(f"/sessions/{session.pk}/find?step=3&find=file-")
    assert page.status_code == 302
    assert page["Location"] == f"/sessions/{session.pk}?step=3&find=file-"


def test_a_search_that_stops_early_links_to_its_continuation(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_ENTRIES", 4)
    first = alice.get(f"/sessions/{session.pk}?find=file-4")
    assert "Nothing found yet" in text(first)
    assert f'href="/sessions/{session.pk}?step=1&amp;find=file-4&amp;find_after=4"' in html(first)
    rest = alice.get(f"/sessions/{session.pk}?find=file-4&find_after=4")
    assert 'data-found="4"' in html(rest)


def test_strangers_get_404(charlie: Client, session: Session) -> None:
    assert charlie.get(f"/sessions/{session.pk}/find?find=file").status_code == 404

"""The entries in which the names of a step occurred first, on its page."""

import pytest
from django.test import Client

from dashboard.views import origins
from historyapp import enqueue
from historyapp.core.entries import ModelInput
from historyapp.models import NameIndex, Project, Session
from historyapp.services.append import append
from historyapp.services.names.index import catch_up
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, draft, ok


@pytest.fixture
def named(project: Project, session: Session) -> Session:
    """Step 6 lists two files; 7 reads one of them, 8 one that is nowhere, 9 one that was compacted away."""
    listed = ok(outputs="nothing\nsrc/app.py <b>new</b>\nsrc/old.py")
    summary = draft(ModelInput(channel="compaction", content="We read src/app.py."))
    drafts = [act("search"), listed, act("read_file", path="src/app.py"), ok(outputs="fine")]
    drafts += [act("read_file", path="src/guess.py"), ok(outputs="none"), summary]
    drafts += [act("read_file", path="src/old.py"), ok(outputs="none")]
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session


def page(session: Session, number: int) -> str:
    return f"/sessions/{session.pk}/steps/{number}/origins"


def test_the_step_has_a_folded_section_that_loads_it(alice: Client, named: Session) -> None:
    shown = html(fragment(alice, f"/sessions/{named.pk}/steps/7"))
    assert f'hx-get="{page(named, 7)}"' in shown
    assert "Where do these names come from?" in shown
    assert not NameIndex.objects.exists()


def test_a_name_links_to_the_line_that_first_had_it(alice: Client, named: Session) -> None:
    response = fragment(alice, page(named, 7))
    assert "src/app.py First in a result of step 6 , line 2. The model could still see it." in text(response)
    assert f'href="/sessions/{named.pk}?step=6"' in html(response)


def test_a_name_without_an_earlier_place_is_from_nowhere(alice: Client, named: Session) -> None:
    shown = text(fragment(alice, page(named, 8)))
    assert (
        "src/guess.py from nowhere The name does not appear before this step: "
        "the agent guessed it or knew it from elsewhere." in shown
    )


def test_amounts_are_shown_only_if_they_appeared_before(
    alice: Client, project: Project, session: Session
) -> None:
    drafts = [act("exec", cmd="sed -n '100,240p' src/x.py", wait=1000), ok(outputs="x")]
    append(project, session.pk, [*drafts, act("exec", cmd="kill 2000", wait=1000, lines=3000), ok()])
    shown = html(fragment(alice, page(session, 6)))
    assert 'data-name="src/x.py" data-state="nowhere"' in shown
    assert not any(f'data-name="{amount}"' in shown for amount in ("100", "240p", "1000"))
    shown = html(fragment(alice, page(session, 7)))
    assert 'data-name="2000" data-state="nowhere"' in shown
    assert 'data-name="1000" data-state="seen"' in shown
    assert 'data-name="3000"' not in shown


def test_a_line_of_a_result_is_escaped(alice: Client, named: Session) -> None:
    shown = html(fragment(alice, page(named, 7)))
    assert "<b>new" not in shown
    assert "src/app.py &lt;b&gt;new" in shown


def test_a_name_that_was_compacted_away_says_so(alice: Client, named: Session) -> None:
    assert "src/old.py no longer seen First in a result of step 6" in text(fragment(alice, page(named, 9)))
    assert "The model could no longer see it: it had been compacted away" in text(
        fragment(alice, page(named, 9))
    )


def test_a_line_of_a_result_shows_which_later_actions_used_it(alice: Client, named: Session) -> None:
    assert "line 2 src/app.py <b>new</b> src/app.py in step 7" in text(fragment(alice, page(named, 6)))
    unused = text(fragment(alice, page(named, 5)))
    assert "The results contain no name that an action could use." in unused


def test_every_place_of_a_name_is_a_link_to_its_step(alice: Client, named: Session) -> None:
    shown = text(fragment(alice, f"{page(named, 9)}/places?name=src/app.py"))
    assert shown.startswith(
        "step 6 a result, line 2 src/app.py <b>new</b> step 7 an action, line 1 src/app.py"
    )
    assert shown.endswith("step 9 a summary, line 1 We read src/app.py.")
    assert "nothing_1 does not appear up to this step." in text(
        fragment(alice, f"{page(named, 9)}/places?name=nothing_1")
    )


def test_without_htmx_the_section_is_a_page(alice: Client, named: Session) -> None:
    response = alice.get(page(named, 7))
    assert response.status_code == 200
    assert "First in a result of step 6" in text(response)


def test_a_long_session_is_left_to_a_worker(
    alice: Client, named: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "__kwdefaults__", {"limit": 3})
    index_requests: list[object] = []
    monkeypatch.setattr(enqueue, "request_name_index", index_requests.append)
    shown = text(fragment(alice, page(named, 8)))
    assert "A worker is adding the rest." in shown
    assert "Not found yet." in shown
    assert "from nowhere" not in shown
    assert index_requests == [named.pk]


def test_the_section_takes_few_queries(
    alice: Client, named: Session, django_assert_max_num_queries: object
) -> None:
    catch_up(named.lineage())
    with django_assert_max_num_queries(15):  # type: ignore[operator]
        fragment(alice, page(named, 9))


def test_a_stranger_gets_404(charlie: Client, named: Session) -> None:
    for address in (page(named, 7), f"{page(named, 7)}/places?name=x"):
        assert fragment(charlie, address).status_code == 404
    assert charlie.post(f"/sessions/{named.pk}/names").status_code == 404


def test_the_overview_counts_unseen_and_removed_names_once_they_are_indexed(
    alice: Client, named: Session
) -> None:
    overview = f"/sessions/{named.pk}/overview"
    assert "Not indexed yet." in text(alice.get(overview))
    assert not NameIndex.objects.exists()
    response = alice.post(f"/sessions/{named.pk}/names")
    assert response.headers["Location"] == overview
    shown = text(alice.get(overview))
    assert "The agent named 6 files that it had never seen 1 , 2 , 3 …" in shown
    assert "The agent used 1 name that had been compacted away 9" in shown
    assert "Not indexed yet." not in shown


def test_an_open_overview_indexes_names_itself_and_waits_for_a_worker_that_does(
    alice: Client, named: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/sessions/{named.pk}/names"
    assert f'hx-post="{address}" hx-trigger="load"' in " ".join(
        html(alice.get(f"/sessions/{named.pk}/overview")).split()
    )
    monkeypatch.setattr(origins, "ensure_name_index", lambda history: False)
    waiting = alice.post(address, headers={"hx-request": "true"})
    assert 'hx-trigger="load delay:3s"' in html(waiting)
    assert "A worker is building it." in text(waiting)
    monkeypatch.undo()
    shown = text(alice.post(address, headers={"hx-request": "true"}))
    assert "The agent named 6 files that it had never seen 1 , 2 , 3 …" in shown


def test_the_overview_names_the_first_files_that_had_not_appeared(
    alice: Client, charlie: Client, project: Project, django_assert_max_num_queries: object
) -> None:
    session = create_session(project)
    long = "/" + "/".join([f"folder-{number}" for number in range(6)]) + "/b.py"
    drafts = [act("search"), ok(outputs="src/seen.py")]
    drafts += [act("shell", command=f"cat src/seen.py src/guess.py {long} c.py d.py"), ok(outputs="none")]
    append(project, session.pk, [*drafts, act("read_file", path="src/guess.py"), ok(outputs="none")])
    session.refresh_from_db()
    catch_up(session.lineage())
    address = f"/sessions/{session.pk}/names/unseen"
    assert f'hx-get="{address}" hx-trigger="load"' in " ".join(
        html(alice.get(f"/sessions/{session.pk}/overview")).split()
    )
    with django_assert_max_num_queries(15):  # type: ignore[operator]
        response = fragment(alice, address)
    assert text(response) == "src/guess.py in step 2 , …/folder-5/b.py in step 2 , c.py in step 2 …"
    assert f'<a href="/sessions/{session.pk}?step=2">' in html(response)
    assert f'title="{long}"' in html(response)
    assert fragment(charlie, address).status_code == 404


def listed(client: Client, session: Session, query: str) -> list[str]:
    rows = html(client.get(f"/sessions/{session.pk}?{query}")).partition('id="rows"')[2].partition("</ol>")[0]
    return [part.partition('"')[0] for part in rows.split('data-step="')[1:]]


def test_the_step_list_is_filtered_by_the_names_of_steps(alice: Client, named: Session) -> None:
    assert listed(alice, named, "names=gone") == ["9"]
    assert "uses names compacted away" in text(alice.get(f"/sessions/{named.pk}?names=gone"))
    assert listed(alice, named, "names=unseen&step=8") == list("123458")
    assert alice.get(f"/sessions/{named.pk}?names=else").status_code == 422

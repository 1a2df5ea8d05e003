"""The search of all sessions: each result links to its step, and an invalid query is explained."""

import re
from urllib.parse import urlencode

import pytest
from django.test import Client

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, ok


@pytest.fixture
def searched_session(project: Project, settled: None) -> Session:
    session = create_session(project, names={"title": "Mend the hooks", "agent": "mender"})
    append(
        project, session.pk, [act("look"), ok(outputs="nothing"), act("look"), ok(outputs="<b>zebra</b> one")]
    )
    append(project, session.pk, [act("look"), ok(outputs="a zebra that is cut off")])
    rewind(project, session.pk, Target(to_step=2))
    return session


def addresses(page: str) -> list[str]:
    return re.findall(r'class="title" href="([^"]+)"', page)


def test_a_result_links_to_its_step_and_marks_the_match(alice: Client, searched_session: Session) -> None:
    page = html(alice.get("/search?q=zebra"))
    assert addresses(page) == [f"/sessions/{searched_session.pk}?step=2&amp;find=zebra"]
    assert "&lt;b&gt;<mark>zebra</mark>&lt;/b&gt;" in page
    shown = html(alice.get(addresses(page)[0].replace("&amp;", "&")))
    assert 'value="zebra"' in shown


def test_the_results_say_their_number_and_rename_the_page(alice: Client, searched_session: Session) -> None:
    assert "1 step " in text(alice.get("/search?q=zebra"))
    part = html(alice.get("/search?q=zebra", headers={"hx-request": "true"}))
    assert part.startswith("<title>zebra · Search · Playhead</title>")


def test_a_session_is_named_by_the_first_digits_of_its_id(alice: Client, searched_session: Session) -> None:
    id = str(searched_session.pk)
    for condition in (f"session:{id[:13]}", f"session:{id}", "steps>=2", "steps<=2"):
        assert len(addresses(html(alice.get("/search", {"q": f"zebra {condition}"})))) == 1
    for condition in (f"session:{'0' if id[0] != '0' else '1'}{id[1:13]}", "steps>2", "steps<2"):
        assert not addresses(html(alice.get("/search", {"q": f"zebra {condition}"})))


@pytest.mark.parametrize("path", ["/search", "/"])
def test_a_page_says_which_filters_it_does_not_know(
    alice: Client, searched_session: Session, path: str
) -> None:
    assert "Did you mean status:?" in text(alice.get(f"{path}?q=statsu:error"))
    assert "Did you mean" not in text(alice.get(f"{path}?q=status:error"))


def test_words_are_also_offered_as_a_phrase(alice: Client, searched_session: Session) -> None:
    page = html(alice.get("/search?q=zebra+one"))
    assert '<a href="/search?q=%22zebra%20one%22">&quot;zebra one&quot;</a>' in page
    for query in ("zebra", "%22zebra+one%22", "zebra+tool:look", "zebra+-two", "zeb*+one"):
        assert "Only in this order" not in text(alice.get(f"/search?q={query}"))


def test_words_that_no_step_has_together_are_found_in_different_steps(
    alice: Client, searched_session: Session
) -> None:
    page = html(alice.get("/search?q=nothing+zebra"))
    assert "nothing AND zebra" in page
    assert addresses(page) == [
        f"/sessions/{searched_session.pk}?step={n}&amp;find={t}" for n, t in ((1, "nothing"), (2, "zebra"))
    ]
    assert 'href="/search?q=nothing+AND+zebra+agent%3Amender"' in page


def test_each_step_names_its_condition_and_how_many_others_match_it(
    alice: Client, project: Project, settled: None
) -> None:
    session = create_session(project).pk
    for outputs in ("gecko lion", "zebra", "gecko", "gecko"):
        append(project, session, [act("look"), ok(outputs=outputs)])
    page = alice.get("/search?q=gecko+AND+zebra+since:2020-01-01")
    assert [address.split("step=")[1][0] for address in addresses(html(page))] == ["1", "2"]
    shown = "for gecko since:2020-01-01 one of 3 such steps in this session the others: step 3 , step 4"
    assert shown in text(page)
    assert f'<a href="/sessions/{session}?step=4">step 4</a>' in html(page)
    (alike,) = re.findall(r'href="([^"]+)">\s*one of 3', html(page))
    assert "3 steps" in text(alice.get(alike.replace("&amp;", "&")))
    assert "after step" not in text(page)
    both = text(alice.get("/search?q=gecko+AND+lion+gecko"))
    assert "for gecko one of 3 such steps in this session the others: step 3 , step 4 for lion gecko" in both
    late = text(alice.get("/search?q=zebra+AND+lion"))
    assert "for zebra after step 1: no such step before it" in late


def test_a_step_lists_the_closest_five_others_that_match_its_condition(
    alice: Client, project: Project, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project).pk
    for outputs in ("gecko", *["wombat"] * 9):
        append(project, session, [act("look"), ok(outputs=outputs)])
    closest = "step 3 , step 4 , step 5 , step 6 , step 7"
    page = text(alice.get("/search?q=gecko+AND+wombat"))
    assert f"one of 9 such steps in this session the closest others: {closest}" in page
    monkeypatch.setattr("historyapp.models.search_sessions.MAX_ROWS", 9)
    page = text(alice.get("/search?q=gecko+AND+wombat"))
    assert (
        f"one of many such steps in this session not all are compared the closest others: {closest}" in page
    )


@pytest.mark.parametrize("query", ["zebra", "zebra tool:look", "nothing AND zebra", "nothing zebra"])
def test_the_results_lead_to_their_sessions(alice: Client, searched_session: Session, query: str) -> None:
    (address,) = re.findall(
        r'href="([^"]+)">Show the sessions', html(alice.get(f"/search?{urlencode({'q': query})}"))
    )
    assert f'name="session" value="{searched_session.pk}"' in html(alice.get(address))
    alice.post("/searches", {"name": "mine", "q": query})
    (saved,) = re.findall(r'class="chip" href="([^"]+)"', html(alice.get("/")))
    assert f'name="session" value="{searched_session.pk}"' in html(alice.get(saved))


def test_a_result_in_a_take_links_to_a_position_that_has_it(alice: Client, searched_session: Session) -> None:
    page = html(alice.get("/search?q=zebra+takes:all"))
    (in_take,) = (address for address in addresses(page) if "as_of" in address)
    assert "a zebra that is cut off" in text(alice.get(in_take.replace("&amp;", "&")))


def test_facets_narrow_the_results(alice: Client, searched_session: Session) -> None:
    page = html(alice.get("/search?q=zebra"))
    assert 'href="/search?q=zebra+agent%3Amender"' in page
    assert addresses(html(alice.get("/search?q=zebra+agent:mender")))
    assert "No steps found" in html(alice.get("/search?q=zebra+agent:nobody"))


def test_without_a_query_the_page_says_what_can_be_searched(alice: Client) -> None:
    assert "What you can search for" in html(alice.get("/search"))


def test_an_empty_result_says_what_can_be_searched(alice: Client, searched_session: Session) -> None:
    page = html(alice.get("/search?q=wombat"))
    assert "No steps found" in page
    assert "What you can search for" in page


def test_the_list_leads_to_a_search_of_all_steps(alice: Client, searched_session: Session) -> None:
    for word in ("Mend", "wombat"):
        assert f'href="/search?q={word}"' in html(alice.get(f"/?q={word}"))


@pytest.mark.parametrize("query", ["x" * 10_000, "cost>abc", "E*", "%22unbalanced", "status:nonsense", "%25"])
def test_an_invalid_query_is_explained(alice: Client, query: str) -> None:
    response = alice.get(f"/search?q={query}")
    assert response.status_code in (200, 422)
    assert ('<p class="bar bar-bad" role="alert">' in html(response)) == (response.status_code == 422)


def test_a_stranger_finds_nothing(charlie: Client, searched_session: Session) -> None:
    assert "Mend the hooks" not in charlie.get("/search?q=zebra", follow=True).content.decode()


def test_older_results_are_on_the_next_page(
    alice: Client, project: Project, searched_session: Session
) -> None:
    append(
        project,
        searched_session.pk,
        [entry for _ in range(25) for entry in (act("look"), ok(outputs="zebra"))],
    )
    page = html(alice.get("/search?q=zebra"))
    (further,) = re.findall(r'hx-get="(/search\?q=zebra&amp;cursor=\d+\.[0-9a-f]{8})"', page)
    rest = alice.get(further.replace("&amp;", "&"), headers={"HX-Request": "true", "HX-Target": "more"})
    assert len(addresses(page)) == 20
    assert len(addresses(html(rest))) == 6


@pytest.mark.parametrize("cursor", ["7", "7.00000000", "x", "²", "9" * 30])
def test_a_cursor_of_another_search_is_refused(alice: Client, searched_session: Session, cursor: str) -> None:
    response = alice.get("/search", {"q": "zebra", "cursor": cursor})
    assert response.status_code == 422
    assert "This page belongs to another search. Press Search to start again." in html(response)


def test_a_search_is_saved_and_found_below_the_field(
    alice: Client, charlie: Client, searched_session: Session
) -> None:
    assert "Save this search" in html(alice.get("/search?q=zebra"))
    saved = alice.post("/searches", {"q": "zebra tool:look", "name": "Zebras <b>"})
    assert (saved.status_code, saved["Location"]) == (302, "/search?q=zebra+tool%3Alook")
    assert 'href="/search?q=zebra%20tool%3Alook">\n    <bdi>Zebras &lt;b&gt;</bdi>' in html(
        alice.get("/search")
    )
    assert "Zebras" not in html(charlie.get("/search", follow=True))
    listed = html(alice.get("/searches"))
    assert "zebra tool:look" in listed
    assert "alice" in listed
    (address,) = re.findall(r'action="(/searches/[^"]+)"', listed)
    assert charlie.post(address, {"delete": "1"}).status_code == 404
    assert alice.post(address, {"name": "Stripes"}).status_code == 302
    assert "Stripes" in html(alice.get("/searches"))
    assert alice.post(address, {"delete": "1"}).status_code == 302
    assert "No saved searches" in html(alice.get("/searches"))


def test_an_invalid_search_is_not_saved_and_stays_in_the_form(
    alice: Client, searched_session: Session
) -> None:
    alice.post("/searches", {"q": "zebra", "name": "Zebras"})
    refused = alice.post("/searches", {"q": "other", "name": "Zebras"})
    assert refused.status_code == 409
    assert "A saved search named Zebras already exists" in html(refused)
    assert 'name="q" value="other"' in html(refused)
    assert alice.post("/searches", {"q": '"open', "name": "x"}).status_code == 422


def test_suggested_contents_have_their_meaning(alice: Client) -> None:
    shown = text(alice.get("/search/suggestions?q=has:"))
    assert "has:failure an error, or a result that looks like one" in shown
    assert "has:edit a call of the kind edit" in shown


def test_suggestions_are_escaped(alice: Client, searched_session: Session) -> None:
    shown = html(alice.get("/search/suggestions?q=title:"))
    assert 'data-text="title:&quot;Mend the hooks&quot;"' in shown
    assert "<b>" not in html(alice.get("/search/suggestions?q=zebr"))


def test_examples_of_the_help_are_links_to_their_results(alice: Client, searched_session: Session) -> None:
    page = alice.get("/search").content.decode()
    examples = re.findall(r'<dt><a href="([^"]+)"><code>([^<]+)</code></a></dt>', page)
    assert len(examples) == 9
    for address, query in examples:
        results = alice.get(address.replace("&amp;", "&"))
        assert results.status_code == 200
        assert f'value="{query}"' in results.content.decode()


def test_sessions_with_a_note_are_found_in_the_list(
    alice: Client, project: Project, searched_session: Session
) -> None:
    assert "No sessions found" in text(alice.get("/?q=has:note"))
    put_note(project, searched_session.pk, 1, "look here")
    assert f'name="session" value="{searched_session.pk}"' in html(alice.get("/?q=has:note"))
    suggested = text(alice.get("/search/suggestions?q=has:"))
    assert "has:note a note on the session or one of its steps" in suggested


def test_a_sentence_of_which_a_step_has_all_words_leads_to_several_steps(
    alice: Client, project: Project, searched_session: Session
) -> None:
    append(project, searched_session.pk, [act("look"), ok(outputs="zebra failed")])
    page = html(alice.get("/search?q=zebra+failed"))
    assert len(addresses(page)) == 1
    assert 'href="/search?q=zebra+AND+has%3Afailure"><code>zebra AND has:failure</code>' in page
    assert "Different steps of one session" not in html(alice.get("/search?q=zebra+look"))

"""The facets of the list of sessions, its folded rows, and the running agents."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from historyapp.core.actions import ActionProposal, output_of
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import fragment, html, text
from tests.dashboard.test_sessions import TITLE, make, titles
from tests.services.drafts import act, failed

FACET = re.compile(r'<li><a href="([^"]*)"( aria-current="true")?[^>]*>\s*<bdi>([^<]*)</bdi> <b>([^<]*)</b>')


def facets(client: Client, address: str) -> dict[str, tuple[str, str]]:
    """Address and count by label."""
    matches = FACET.findall(html(client.get(address)))
    return {unescape(label): (unescape(url), count) for url, _, label, count in matches}


@pytest.fixture
def runs(project: Project) -> None:
    now = timezone.now()
    for title, agent, folder, age in (
        ("new", "fixer", "/srv/app", 0),
        ("week", "fixer", "/srv/docs", 3),
        ("month", "<b>writer", "/srv/app", 20),
        ("old", "fixer", "/srv/app", 90),
    ):
        session = create_session(project, names={"title": title, "agent": agent}, metadata={"cwd": folder})
        Session.objects.filter(pk=session.pk).update(last_entry_at=now - timedelta(days=age))
    change_session(project, Session.objects.get(title="new").pk, {"tags": ["red & blue"]})
    Session.objects.filter(title__in=("new", "old")).update(errors=1)


@pytest.mark.usefixtures("runs")
def test_facets_have_counts_and_link_to_the_counted_sessions(alice: Client) -> None:
    shown = facets(alice, "/")
    assert "Remove the filter live or idle" in html(alice.get("/?status=live"))
    counts = {label: count for label, (_, count) in shown.items()}
    assert counts == {
        "live or idle": "4", "with errors": "2", "without errors": "2", "today": "1", "last 7 days": "2",
        "last 30 days": "3", "fixer": "3", "<b>writer": "1", "/srv/app": "3", "/srv/docs": "1",
        "red & blue": "1",
    }  # fmt: skip
    for url, count in shown.values():
        assert len(titles(alice, url[1:])) == int(count)


@pytest.mark.usefixtures("runs")
def test_tags_are_counted_in_the_newest_sessions_up_to_a_limit(
    alice: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for title in ("week", "old"):
        change_session(project, Session.objects.get(title=title).pk, {"tags": ["often", title]})
    assert {"often", "week", "old", "red & blue"} <= facets(alice, "/").keys()
    monkeypatch.setattr("historyapp.models.session_filters.MAX_TAG_CHARACTERS", len("\nred & blue\n"))
    shown = facets(alice, "/")
    assert "old" not in shown
    assert {label: shown[label][1] for label in ("often", "week", "red & blue", "live or idle")} == {
        "often": "1",
        "week": "1",
        "red & blue": "1",
        "live or idle": "4",
    }


@pytest.mark.usefixtures("runs")
def test_counts_follow_the_other_filters(alice: Client) -> None:
    shown = facets(alice, "/?agent=fixer&date=7-days")
    assert "<b>writer" not in shown
    assert shown["fixer"] == ("/?date=7-days", "2")
    assert shown["/srv/app"] == ("/?date=7-days&agent=fixer&folder=%2Fsrv%2Fapp", "1")
    assert shown["last 30 days"][1] == "2"
    assert facets(alice, "/?q=week")["fixer"][1] == "1"


@pytest.mark.usefixtures("runs")
def test_a_chip_removes_one_choice(alice: Client) -> None:
    page = html(alice.get("/?q=o&errors=with&agent=fixer&from=2020-01-01&sort=steps"))
    chips = re.findall(r'class="chip" href="([^"]*)"[^>]*>\s*<span dir="auto">([^<]*)<', page)
    assert [(unescape(url), label) for url, label in chips] == [
        ("/?errors=with&agent=fixer&from=2020-01-01&sort=steps", "“o”"),
        ("/?q=o&agent=fixer&from=2020-01-01&sort=steps", "with errors"),
        ("/?q=o&errors=with&from=2020-01-01&sort=steps", "agent: fixer"),
        ("/?q=o&errors=with&agent=fixer&sort=steps", "from 2020-01-01"),
    ]
    assert 'href="/?sort=steps">Remove all' in page


@pytest.mark.usefixtures("runs")
def test_a_span_of_days_replaces_a_preset(alice: Client) -> None:
    day = (timezone.now() - timedelta(days=3)).date().isoformat()
    assert titles(alice, f"?from={day}&to={day}&date=today") == ["week"]
    assert facets(alice, f"/?from={day}&to={day}")["today"] == ("/?date=today", "1")
    assert titles(alice, "?date=30-days&folder=/srv/app") == ["new", "month"]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("from=2026-13-01", "from must be a day, such as 2026-01-31"),
        (
            "from=2026-02-02&to=2026-02-01",
            "`to` is 2026-02-01, which is before `from`, 2026-02-02. Swap them.",
        ),
        ("failures=maybe", "failures must be one of with, without"),
        ("&".join(f"tag=t{n}" for n in range(21)), "tag has 21 values. Use at most 20."),
    ],
)
def test_the_error_of_an_invalid_filter_lists_the_valid_values(
    alice: Client, query: str, detail: str
) -> None:
    response = alice.get(f"/?{query}")
    assert response.status_code == 422
    assert detail in text(response)


def test_filters_that_would_fill_each_link_are_refused(alice: Client, runs: None) -> None:
    folders = "&".join(f"folder=%2F{number:0290}" for number in range(11))
    refused = alice.get(f"/?{folders}")
    assert refused.status_code == 422
    assert "more than 3000 characters" in html(refused)


def test_a_cursor_of_other_filters_is_refused(alice: Client, project: Project) -> None:
    Session.objects.bulk_create(Session(project=project, title=f"run {n}", agent="a") for n in range(60))
    older = re.search(r'href="/\?(cursor=[^"]*)"', html(alice.get("/")))
    assert older
    refused = alice.get(f"/?agent=a&{older[1]}")
    assert refused.status_code == 422
    assert "belongs to another list" in text(refused)


def test_the_list_links_to_the_search_of_all_steps(alice: Client, project: Project) -> None:
    assert f'href="{reverse("search")}"' in html(alice.get("/"))


def test_running_agents_are_shown_above_the_list(alice: Client, project: Project) -> None:
    call = ActionProposal.model_validate({"thoughts": "", "use_tool": {"name": "pytest", "arguments": {}}})
    now = timezone.now()
    for title, age, draft in (
        ("typing", timedelta(minutes=1), ModelOutput(text="on it")),
        ("waiting", timedelta(hours=3), output_of(call)),
        ("forgotten", timedelta(days=2), output_of(call)),
        ("quiet", timedelta(hours=3), ModelOutput(text="in_flight")),
        ("closed", timedelta(minutes=1), ModelOutput(text="bye")),
    ):
        session = create_session(project, names={"title": title})
        append(project, session.pk, [EntryDraft(draft, now - age)])
    change_session(project, Session.objects.get(title="closed").pk, {"status": "finished"})
    typing = Session.objects.get(title="typing")
    fork(project, typing.pk)
    page = html(alice.get("/"))
    at_work = page[page.index('class="at-work"') : page.index('class="list-head"')]
    assert re.findall(r"<bdi>(typing|waiting|forgotten|quiet|closed)</bdi>", at_work) == ["typing", "waiting"]
    assert at_work.count('<span class="tag">fork</span>') == 1
    assert f'href="/sessions/{typing.pk}?step=-1"' in at_work
    assert "step 1 is running: <bdi>pytest()</bdi>" in at_work


def test_the_row_of_a_parent_links_to_the_fork_that_records_now(alice: Client, project: Project) -> None:
    parent, other = make(project, "parent"), make(project, "other")
    Session.objects.update(last_entry_at=timezone.now() - timedelta(days=3))
    assert "recording now" not in text(alice.get("/"))
    child = fork(project, parent.pk, title="child")
    Session.objects.update(last_entry_at=timezone.now() - timedelta(days=3))
    grandchild = fork(project, child.pk, title="grandchild")
    append(project, grandchild.pk, [EntryDraft(ModelOutput(text="on it"))])
    page = alice.get("/")
    assert sorted(titles(alice)) == ["other", "parent"]
    assert text(page).count("a fork is recording now") == 1
    row = html(page).partition(f'value="{parent.pk}"')[2].partition("</tr>")[0]
    assert f'href="/sessions/{grandchild.pk}?step=-1"' in row
    assert "recording now" not in html(page).partition(f'value="{other.pk}"')[2].partition("</tr>")[0]
    folded = text(alice.get(reverse("folded-sessions", args=[parent.pk])))
    assert folded.count("a fork is recording now") == 2, "in the rows of the parent and of the child"
    append(project, child.pk, [EntryDraft(ModelOutput(text="me too"))])
    assert "2 forks are recording now" in text(alice.get("/"))
    change_session(project, grandchild.pk, {"status": "finished"})
    assert "a fork is recording now" in text(alice.get("/"))


def test_nothing_is_shown_above_the_list_without_running_agents(alice: Client, project: Project) -> None:
    make(project, "of January")
    assert "Live now" not in text(alice.get("/"))


@pytest.fixture
def family(project: Project, session: Session) -> Session:
    """A session with a fork, which has a fork, and with two sub-agents."""
    child = fork(project, session.pk, at_step=2, title="another way")
    fork(project, child.pk, at_step=1, title="a third way")
    for name in ("helper", "reader"):
        Session.objects.filter(pk=make(project, name).pk).update(spawned_by=session)
    return session


def test_forks_and_subagents_are_folded_under_their_parent(alice: Client, family: Session) -> None:
    assert titles(alice) == ["Repair the totals"]
    page = html(alice.get("/"))
    assert "1 fork · 2 sub-agents" in text(alice.get("/"))
    assert f'href="/?parent={family.pk}"' in page
    assert sorted(titles(alice, f"?parent={family.pk}")) == ["another way", "helper", "reader"]


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        ((2_000_000, 280_000), "by sub-agents: + 3.0k tokens in, $2.28"),
        ((2_000_000, 0), "by sub-agents: + 3.0k tokens in, at least $2.00"),
        ((0, 0), "by sub-agents: + 3.0k tokens in, cost unknown"),
    ],
)
def test_a_row_says_what_the_subagents_used(
    alice: Client, family: Session, micros: tuple[int, int], shown: str
) -> None:
    Session.objects.filter(spawned_by=family).update(shown_tokens=0)
    assert "by sub-agents" not in text(alice.get("/"))
    for title, money, tokens in zip(("helper", "reader"), micros, (1_000, 2_000), strict=True):
        Session.objects.filter(title=title).update(shown_tokens=tokens, money=money)
    assert shown in text(alice.get("/"))


def test_sums_of_subagents_do_not_overflow(alice: Client, family: Session) -> None:
    Session.objects.filter(spawned_by=family).update(shown_tokens=2**62, money=2**62)
    assert "tokens in, $9,223,372,036,854.78" in text(alice.get("/"))


def test_the_head_and_a_comparison_say_that_they_count_no_subagents(alice: Client, family: Session) -> None:
    other = Session.objects.get(title="another way")
    for address in (reverse("overview", args=[family.pk]), f"/compare?a={family.pk}&b={other.pk}"):
        assert text(alice.get(address)).count("without its sub-agents") == 1
    assert "without its sub-agents" not in text(alice.get(reverse("overview", args=[other.pk])))


def test_the_heading_counts_the_rows_and_what_is_folded_below_them(alice: Client, family: Session) -> None:
    page = text(alice.get("/"))
    listed = len(titles(alice))
    assert f"{listed} session" in page
    assert "and 4 forks or sub-agents below" in page
    assert "below" not in text(alice.get("/?status=live")).partition("Group by")[0]


def test_folded_rows_are_opened_in_place(alice: Client, family: Session) -> None:
    address = reverse("folded-sessions", args=[family.pk])
    rows = html(fragment(alice, address))
    first, *others = TITLE.findall(rows)
    assert (first, sorted(others)) == ("Repair the totals", ["another way", "helper", "reader"])
    assert rows.count('<tr class="folded-row">') == 3
    assert f'hx-get="{address}"' not in rows  # the second click follows the link
    assert len(re.findall(r'hx-get="/sessions/[^"]*/folded"', rows)) == 1  # the fork has a fork


def test_unfolded_sessions_stay_unfolded_when_the_list_is_updated(
    alice: Client, family: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Session.objects.get(title="another way")
    ids = [family.pk, child.pk, uuid4(), "x"]
    query = "&".join(f"unfolded={each}" for each in ids)
    rows = html(fragment(alice, f"/?{query}", target="results"))
    below = TITLE.findall(rows)[1:]
    assert below[below.index("another way") + 1] == "a third way"
    assert sorted(below) == ["a third way", "another way", "helper", "reader"]
    assert rows.count('<tr class="folded-row">') == 4
    assert re.findall(r'name="unfolded" value="([^"]+)"', rows) == [str(family.pk), str(child.pk)]
    monkeypatch.setattr("dashboard.views.sessions.MAX_OPENED", 1)
    few = TITLE.findall(html(fragment(alice, f"/?{query}", target="results")))
    assert sorted(few) == ["Repair the totals", "another way", "helper", "reader"]
    monkeypatch.undo()
    monkeypatch.setattr("dashboard.views.sessions.MAX_ROWS", len(few))
    assert TITLE.findall(html(fragment(alice, f"/?{query}", target="results"))) == few


def test_a_group_stays_open_when_its_unfolded_sessions_are_updated(alice: Client, family: Session) -> None:
    agent = family.agent
    rows = html(fragment(alice, f"/?group=agent&open={agent}&unfolded={family.pk}", target="results"))
    assert set(TITLE.findall(rows)) >= {"Repair the totals", "another way", "helper", "reader"}
    (included,) = re.findall(r'hx-include="#results \[name=(.*?)\]"', rows)
    assert f'name="{included}" value="{family.pk}"' in rows
    assert included != "open"


def test_a_session_with_two_parents_is_unfolded_once(alice: Client, family: Session) -> None:
    forks = {title: Session.objects.get(title=title) for title in ("another way", "a third way")}
    third = forks["a third way"]
    Session.objects.filter(title="another way").update(spawned_by=third)  # also a cycle, as in imports
    Session.objects.filter(title="helper").update(forked_from=third)
    opened = [family.pk, *(fork.pk for fork in forks.values())]
    rows = html(fragment(alice, "/?" + "&".join(f"unfolded={id}" for id in opened), target="results"))
    assert re.findall(r'name="unfolded" value="([^"]+)"', rows) == [str(id) for id in opened]
    assert sorted(TITLE.findall(rows)) == [
        *("Repair the totals", "a third way", "another way", "another way", "helper", "helper", "reader")
    ]


def test_folded_rows_of_strangers_are_not_found(charlie: Client, family: Session) -> None:
    assert charlie.get(reverse("folded-sessions", args=[family.pk])).status_code == 404


def test_filters_find_forks_and_subagents(alice: Client, family: Session) -> None:
    assert titles(alice, "?q=helper") == ["helper"]
    assert len(titles(alice, "?status=live")) == 5


def test_forks_and_subagents_of_an_archived_session_are_listed_separately(
    alice: Client, project: Project, family: Session
) -> None:
    change_session(project, family.pk, {"status": "archived"})
    assert sorted(titles(alice)) == ["another way", "helper", "reader"]


def test_an_invalid_parent_id_is_a_422(alice: Client) -> None:
    assert alice.get("/?parent=x").status_code == 422


def test_forks_and_subagents_name_their_parent(alice: Client, family: Session) -> None:
    page = html(alice.get(f"/?parent={family.pk}"))
    assert page.count(f'href="{reverse("overview", args=[family.pk])}"') == 3
    assert len(re.findall(r"fork of\s+<a ", page)) == 1
    assert len(re.findall(r"sub-agent of\s+<a ", page)) == 2


@pytest.fixture
def failing(project: Project, settled: None) -> Session:
    make(project, "fine")
    session = create_session(project, names={"title": "failing", "agent": "fixer"})
    append(project, session.pk, [act("bash", command="go test"), failed(reason="FAIL: hooks")])
    return session


@pytest.mark.parametrize("query", ["tool:bash status:error hooks", "agent:fixer", "errors>0"])
def test_the_search_field_takes_filters_of_steps_and_of_sessions(
    alice: Client, failing: Session, query: str
) -> None:
    assert titles(alice, f"?q={quote(query)}") == ["failing"]
    assert facets(alice, f"/?q={quote(query)}")["with errors"][1] == "1"


def test_a_search_of_steps_says_how_many_match_and_links_to_them(alice: Client, failing: Session) -> None:
    page = alice.get("/?q=tool:bash")
    assert "1 step matches. Show the steps" in text(page)
    assert 'href="/search?q=tool%3Abash"' in html(page)
    assert "No session has a step that matches" in text(alice.get("/?q=tool:edit"))


def test_a_filter_that_cannot_be_read_is_explained_and_the_facets_stay(
    alice: Client, failing: Session
) -> None:
    page = alice.get("/?q=status:er")
    assert "status:er is unknown. Use one of" in text(page)
    assert facets(alice, "/?q=status:er")["with errors"][1] == "1"

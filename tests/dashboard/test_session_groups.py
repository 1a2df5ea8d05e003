"""The list of sessions, grouped by agent, folder or repository."""

import re
from html import unescape

import pytest
from django.test import Client

from historyapp.core.entries import ModelOutput
from historyapp.models import Project, Session
from historyapp.models.session_groups import MAX_GROUPS, session_groups
from historyapp.models.session_lists import Order
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import StartingToolCall, change_session, create_session
from tests.dashboard.pages import fragment, html, text
from tests.dashboard.test_sessions import make, titles
from tests.services.drafts import ask, draft

GROUP = re.compile(
    r'<tr class="session-group">.*?href="([^"]*)" aria-expanded="(true|false)".*?<bdi>([^<]*)</bdi>'
    r".*?([\d,]+) session",
    re.DOTALL,
)


def groups(client: Client, address: str) -> dict[str, tuple[str, bool, str]]:
    """Address, whether it is open, and number of sessions, by label."""
    rows = GROUP.findall(html(client.get(address)))
    return {unescape(label): (unescape(url), is_open == "true", count) for url, is_open, label, count in rows}


@pytest.fixture
def runs(project: Project) -> None:
    make(project, "first", agent="fixer", day=1)
    make(project, "second", agent="<b>writer", day=2)
    make(project, "third", agent="fixer", day=3)
    make(project, "fourth", day=0)


@pytest.mark.usefixtures("runs")
def test_groups_are_listed_with_the_newest_entry_first(alice: Client) -> None:
    counts = {label: count for label, (_, _, count) in groups(alice, "/?group=agent").items()}
    assert list(counts.items()) == [("fixer", "2"), ("<b>writer", "1"), ("No agent", "1")]
    assert titles(alice, "?group=agent")[:3] == ["fixer", "&lt;b&gt;writer", "No agent"]


@pytest.mark.parametrize(
    ("sort", "first"), [("-steps", "many"), ("steps", "few"), ("-money", "few"), ("-duration", "many")]
)
def test_the_order_of_the_list_is_the_order_of_groups_that_have_its_total(
    alice: Client, project: Project, sort: str, first: str
) -> None:
    for agent, steps, money, day in (("few", 1, 9, 0), ("many", 5, 1, 1)):
        session = make(project, agent, agent=agent, day=day)
        Session.objects.filter(pk=session.pk).update(steps=steps, money=money)
    assert next(iter(groups(alice, f"/?group=agent&sort={sort}"))) == first


def test_a_group_is_shown_whose_total_has_more_than_64_bits(alice: Client, project: Project) -> None:
    for title in ("first", "second", "third"):
        session = make(project, title, agent="fixer")
        Session.objects.filter(pk=session.pk).update(money=2**62, shown_tokens=2**62)
    assert groups(alice, "/?group=agent")["fixer"][2] == "3"
    (group,) = session_groups(Session.objects.filter(project=project), "agent", Order())
    assert group.money == group.shown_tokens == 3 * 2**62


@pytest.mark.usefixtures("runs")
def test_the_link_of_a_group_shows_its_sessions_and_then_hides_them(alice: Client) -> None:
    for label, shown in (("fixer", ["third", "first"]), ("No agent", ["fourth"])):
        url, is_open, _ = groups(alice, "/?group=agent&sort=-steps")[label]
        assert not is_open
        opened = groups(alice, url)
        assert [name for name, (_, is_open, _) in opened.items() if is_open] == [label]
        rows = titles(alice, url.removeprefix("/"))
        begin = rows.index(label) + 1
        assert sorted(rows[begin : begin + len(shown)]) == sorted(shown)
        assert len(rows) == 3 + len(shown)
        assert opened[label][0] == "/?sort=-steps&group=agent"


def test_a_group_has_the_totals_of_its_sessions(alice: Client, project: Project) -> None:
    for steps, errors, tokens, money in ((2, 1, 1500, 2_000_000), (1200, 0, 500, 250_000)):
        session = create_session(project, names={"agent": "fixer"})
        totals = {"steps": steps, "errors": errors, "shown_tokens": tokens, "money": money}
        Session.objects.filter(pk=session.pk).update(**totals)
    row = text(alice.get("/?group=agent"))
    assert "fixer 2 sessions" in row
    for total in ("1,202", "2.0k", "$2.25"):
        assert total in row


def test_totals_of_a_group_count_what_a_fork_shares_once(alice: Client, project: Project) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 10}
    step = draft(ModelOutput(text="done"), model="claude-haiku-4-5", usage=usage)
    parent = create_session(project, names={"agent": "fixer"})
    append(project, parent.pk, [step, step])
    append(project, fork(project, parent.pk).pk, [step])
    row = text(alice.get("/?agent=fixer&group=agent&open=fixer"))
    assert "fixer 2 sessions" in row
    assert "3.0M $3.00" in row
    assert 'title="Forks count also the steps that they share."' in html(alice.get("/?group=agent"))
    assert "1.0M $1.00" in row, "the fork"
    assert "time, tokens and cost since the fork" in row


def test_the_sum_of_a_group_is_exact_beside_a_session_without_a_model_call(
    alice: Client, project: Project
) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 10}
    step = draft(ModelOutput(text="done"), model="claude-haiku-4-5", usage=usage)
    for entry in (step, ask("Is anybody there?")):
        append(project, create_session(project, names={"agent": "fixer"}).pk, [entry])
    assert "1.0M $1.00" in text(alice.get("/?group=agent"))
    make(project, "without usage", agent="fixer")
    page = alice.get("/?group=agent")
    assert "1.0M ≥ $1.00" in text(page)
    assert 'title="The cost of 1 session is unknown. A cost that is too low counts' in html(page)


def test_the_sum_of_a_group_is_marked_if_a_cost_is_known_only_in_part(
    alice: Client, project: Project
) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 10}
    known, unknown = (
        draft(ModelOutput(text="done"), model=name, usage=usage) for name in ("claude-haiku-4-5", "my-model")
    )
    parent = create_session(project, names={"agent": "fixer"})
    append(project, parent.pk, [known, known])
    assert "2.0M $2.00" in text(alice.get("/?group=agent"))
    partly = create_session(project, names={"agent": "fixer"}, starter=StartingToolCall(parent))
    append(project, partly.pk, [known, unknown])
    page = alice.get("/?group=agent&agent=fixer")
    assert "4.0M ≥ $3.00" in text(page)
    assert 'title="The cost of 1 session is known only in part. A cost that is too low counts' in html(page)
    assert "+ 2.0M tokens in, at least $1.00" in text(alice.get("/"))


@pytest.mark.usefixtures("runs")
def test_filters_apply_to_groups_and_links_keep_the_grouping(alice: Client) -> None:
    assert list(groups(alice, "/?group=agent&q=second")) == ["<b>writer"]
    page = unescape(html(alice.get("/?group=agent&errors=without")))
    assert 'href="/?errors=without&agent=fixer&group=agent"' in page
    assert 'href="/?errors=without&group=folder"' in page
    assert 'href="/?errors=without"' in page


def test_removing_all_filters_keeps_the_grouping(alice: Client, project: Project) -> None:
    make(project, "one", agent="fixer")
    page = unescape(html(alice.get("/?q=one&group=agent&open=fixer&sort=steps")))
    assert 'href="/?sort=steps&group=agent&open=fixer">Remove all' in page


def test_folders_and_repositories_are_groups_too(alice: Client, project: Project) -> None:
    place = {"cwd": "/srv/app", "repository": "https://example.com/team/app.git"}
    create_session(project, names={"title": "there"}, metadata=place)
    assert list(groups(alice, "/?group=folder")) == ["/srv/app"]
    (repository,) = groups(alice, "/?group=repository")
    assert "team/app" in repository


def test_forks_stay_folded_under_their_parent(alice: Client, project: Project) -> None:
    parent = make(project, "parent", agent="fixer")
    fork(project, parent.pk, at_step=1)
    opened = groups(alice, "/?group=agent&open=fixer")
    assert opened["fixer"][2] == "1"
    assert "1 fork" in text(alice.get("/?group=agent&open=fixer"))


def test_archived_sessions_are_in_no_group(alice: Client, project: Project) -> None:
    session = make(project, "old", agent="fixer")
    change_session(project, session.pk, {"status": "archived"})
    assert groups(alice, "/?group=agent") == {}


def test_a_long_group_has_pages(alice: Client, project: Project) -> None:
    for number in range(27):
        create_session(project, names={"title": f"run {number}", "agent": "fixer"})
    create_session(project, names={"title": "another", "agent": "writer"})
    page = html(alice.get("/?group=agent&open=fixer"))
    (following,) = set(re.findall(r'hx-get="(/\?group=agent&amp;open=fixer&amp;cursor=[^"]*)"', page))
    response = fragment(alice, unescape(following), target="more")
    assert len(re.findall("<tr", html(response))) == 2
    assert "another" not in text(response)


def test_at_most_200_groups_are_shown(alice: Client, project: Project) -> None:
    for number in range(MAX_GROUPS + 1):
        create_session(project, names={"agent": f"agent {number}"})
    page = alice.get("/?group=agent")
    assert html(page).count('<tr class="session-group">') == MAX_GROUPS
    assert "Only the first 200 groups are shown" in text(page)


def test_a_list_with_many_groups_still_updates_itself(alice: Client, project: Project) -> None:
    """It does not once further rows are loaded: the browser then finds one of the class later."""
    for number in range(60):
        create_session(project, names={"agent": f"agent {number}"})
    page = html(alice.get("/?group=agent&open=agent+1"))
    assert 'data-reload-unless="tr.later,' in page
    assert '<tr class="later">' not in page


@pytest.mark.parametrize("query", ["group=model", "group=x"])
def test_an_unknown_grouping_is_a_422_with_the_valid_ones(alice: Client, query: str) -> None:
    response = alice.get(f"/?{query}")
    assert response.status_code == 422
    assert "agent, folder, repository" in text(response)


def test_without_a_grouping_no_group_is_open(alice: Client, project: Project) -> None:
    make(project, "one", agent="fixer")
    assert titles(alice, "?open=writer") == ["one"]


@pytest.mark.usefixtures("runs")
def test_htmx_gets_only_the_results(alice: Client) -> None:
    response = fragment(alice, "/?group=agent&open=fixer", target="results")
    assert html(response).startswith('<div id="results"')

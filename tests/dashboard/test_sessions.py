"""The list of sessions."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from dashboard.rendering.strip import bar_parts
from dashboard.templatetags.playhead import dollars
from historyapp.core.dates import UNDATED
from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.core.run_costs import money_of
from historyapp.core.strips import StripBar
from historyapp.models import Project, Session
from historyapp.models.session_lists import Order
from historyapp.services.append import append
from historyapp.services.preferences import save_list_preference
from historyapp.services.prices import price_list
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, draft, ok

TITLE = re.compile(r'<a class="title"[^>]*><bdi>([^<]*)</bdi>')


def titles(client: Client, query: str = "") -> list[str]:
    return TITLE.findall(html(client.get(f"/{query}")))


def make(project: Project, title: str, *, day: int = 0, **names: str) -> Session:
    session = create_session(project, names={"title": title, **names})
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    append(project, session.pk, [EntryDraft(ModelOutput(text="done"), moment)])
    return session


def test_the_newest_session_comes_first(alice: Client, project: Project) -> None:
    for day in (2, 1, 3):
        make(project, f"day {day}", day=day)
    assert titles(alice) == ["day 3", "day 2", "day 1"]


def test_an_empty_list_says_how_to_record_a_session(alice: Client) -> None:
    page = text(alice.get("/"))
    assert "No sessions yet" in page
    assert "playhead import" in page
    assert "API key" in page


def test_a_search_without_matches_says_so_and_links_back(alice: Client, session: Session) -> None:
    page = text(alice.get("/?q=zebra"))
    assert "No sessions found" in page
    assert "“ zebra ”" in page


@pytest.mark.parametrize("q", ["invoice", "INVOICE", "claude", "urgent", "invoice urgent"])
def test_sessions_are_found_by_title_agent_and_tag(alice: Client, project: Project, q: str) -> None:
    matching = make(project, "Repair the invoices", agent="claude-code")
    make(project, "Something else", agent="codex")
    change_session(project, matching.pk, {"tags": ["urgent"]})
    assert titles(alice, f"?q={quote(q)}") == ["Repair the invoices"]


def test_all_words_have_to_be_found(alice: Client, project: Project) -> None:
    make(project, "Repair the invoices")
    assert titles(alice, "?q=repair+zebra") == []


def test_an_unfinished_session_without_new_entries_is_idle(alice: Client, project: Project) -> None:
    session = make(project, "quiet")
    append(project, session.pk, [act(), ok()])
    for minutes, shown in ((0, "live"), (20, "idle")):
        Session.objects.filter(pk=session.pk).update(
            last_entry_at=timezone.now() - timedelta(minutes=minutes)
        )
        (ended,) = re.findall(r'<td class="ended">(.*?)</td>', html(alice.get("/")), re.DOTALL)
        assert re.search(rf">{shown}</span>", ended), ended


def test_archived_sessions_are_listed_only_by_their_status(alice: Client, project: Project) -> None:
    make(project, "old")
    archived = make(project, "archived one")
    change_session(project, archived.pk, {"status": "archived"})
    assert titles(alice) == ["old"]
    assert titles(alice, "?status=archived") == ["archived one"]
    assert titles(alice, "?status=live") == ["old"]


def test_sessions_can_be_filtered_by_errors(alice: Client, project: Project, session: Session) -> None:
    make(project, "flawless")
    assert titles(alice, "?errors=with") == ["Repair the totals"]
    assert titles(alice, "?errors=without") == ["flawless"]


@pytest.mark.parametrize(
    "query",
    [
        "?status=nonsense",
        "?errors=maybe",
        "?date=tomorrow",
        "?sort=title",
        "?cursor=zzz",
        "?cursor=~",
        "?cursor=1",
    ],
)
def test_an_invalid_address_is_a_422(alice: Client, query: str) -> None:
    assert alice.get(f"/{query}").status_code == 422


def test_the_error_of_an_invalid_cursor_says_what_to_do(alice: Client) -> None:
    assert "Reload the list from the start." in text(alice.get("/?cursor=zzz"))


def test_a_time_at_the_end_of_the_calendar_is_a_422(alice: Client) -> None:
    cursor = quote("9999-12-31T23:59:59-23:00~01a2004c-4fe8-73d1-a7f6-84daa1a4bdb4")
    assert alice.get(f"/?cursor={cursor}").status_code == 422


def test_older_sessions_are_loaded_by_a_link_that_needs_no_script(alice: Client, project: Project) -> None:
    for number in range(120):
        make(project, f"run {number:03}", day=number // 40)
    seen: list[str] = []
    address: str | None = "/"
    while address:
        page = html(alice.get(address))
        seen += TITLE.findall(page)
        older = re.search(r'href="(/\?cursor=[^"]*)"[^>]*hx-target="#more"', page)
        address = older[1].replace("&amp;", "&") if older else None
    assert len(seen) == 120
    assert sorted(seen) == [f"run {number:03}" for number in range(120)]


def test_the_link_to_a_search_of_all_steps_keeps_the_text(alice: Client, session: Session) -> None:
    page = html(alice.get("/?q=total+%26"))
    assert '<a class="button" href="/search?q=total%20%26" data-takes-text="#q">' in page


def test_a_search_by_htmx_gets_only_the_results(alice: Client, session: Session) -> None:
    part = html(fragment(alice, "/?q=totals", target="results"))
    assert part.startswith('<div id="results"')
    assert "<html" not in part
    assert "Repair the totals" in part


def test_older_sessions_by_htmx_are_only_rows(alice: Client, session: Session) -> None:
    part = html(fragment(alice, "/", target="more"))
    assert part.startswith('<tr class="later">')
    assert "<table" not in part


def test_a_session_without_a_title_has_the_same_name_everywhere(alice: Client, project: Project) -> None:
    parent, helper = make(project, ""), make(project, "helper")
    child = fork(project, parent.pk, at_step=1, title="another way")
    Session.objects.filter(pk=helper.pk).update(spawned_by=parent)
    assert text(alice.get("/?status=live")).count("Untitled session") == 3
    sessions_of_page = {"session": (parent, child, helper), "rewind": (parent,), "compress": (parent,)}
    for page, sessions in sessions_of_page.items():
        for session in sessions:
            shown = text(alice.get(reverse(page, args=[session.pk])))
            assert "Untitled session" in shown
            if session != parent or page != "session":  # where its own ID can be copied
                assert str(parent.pk) not in shown


def test_a_row_shows_the_totals_of_the_session(alice: Client, session: Session) -> None:
    page = text(alice.get("/"))
    assert "Repair the totals demo gpt-5" in page
    assert "demo gpt-5 5 1" in page


def test_a_row_links_to_the_overview(alice: Client, session: Session) -> None:
    assert f'class="title" href="{reverse("overview", args=[session.pk])}"' in html(alice.get("/"))


def test_the_money_of_a_row_is_that_of_the_header_and_the_overview(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "priced", "model": "gpt-5-mini"})
    usage = {"usage": {"input_tokens": 2_000_000, "output_tokens": 1_000}, "model": "gpt-5-mini"}
    append(project, session.pk, [EntryDraft(ModelOutput(text="done"), metadata=usage)])
    session.refresh_from_db()
    money = money_of(session.live_tail.totals, session.model, price_list())
    assert money.micros > 0
    for address in ("/", reverse("session", args=[session.pk]), reverse("overview", args=[session.pk])):
        assert dollars(money.micros) in text(alice.get(address))


def test_the_time_of_a_row_is_from_its_first_to_its_newest_entry(alice: Client, project: Project) -> None:
    session = make(project, "a run")
    Session.objects.update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    append(project, session.pk, [EntryDraft(ModelOutput(text="on"), datetime(2026, 1, 1, 2, 5, tzinfo=UTC))])
    assert "2 h 5 min" in text(alice.get("/"))


def test_an_undated_run_has_no_time(alice: Client, project: Project) -> None:
    make(project, "no times")
    Session.objects.update(created_at=UNDATED, last_entry_at=UNDATED)
    page = text(alice.get("/"))
    assert "undated" in page
    assert "1 0 –" in page


def test_undated_runs_come_last_and_can_be_listed_alone(alice: Client, project: Project) -> None:
    undated = make(project, "no times")
    Session.objects.filter(pk=undated.pk).update(last_entry_at=UNDATED)
    make(project, "dated")
    assert titles(alice) == ["dated", "no times"]
    assert titles(alice, "?date=undated") == ["no times"]


def test_titles_and_tags_are_escaped(alice: Client, project: Project) -> None:
    evil = make(project, "<script>alert(1)</script>", agent='"><img src=x onerror=alert(1)>')
    change_session(project, evil.pk, {"tags": ["<b>bold</b>", 'a"b']})
    page = html(alice.get("/?q=%3Cscript%3E"))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>bold" not in page


def test_a_hostile_search_is_escaped(alice: Client) -> None:
    page = html(alice.get("/", {"q": '"><script>alert(1)</script>\x00'}))
    assert "<script>alert" not in page


def test_a_person_chooses_columns_and_their_order(
    alice: Client, bob: Client, project: Project, session: Session
) -> None:
    make(project, "flawless")
    chosen = {
        "column": ["model", "likely_failures", "nonsense"],
        "order": "-errors",
        "filters": "status=live",
    }
    response = alice.post("/list-columns", chosen)
    assert response["Location"] == "/?status=live"
    page = text(alice.get("/"))
    assert "Session Model Likely failures Repair the totals" in page
    assert "Cost" not in text(fragment(alice, "/", target="results"))
    assert "Tokens in Cost" in text(fragment(bob, "/", target="results"))


@pytest.mark.parametrize("sort", ["steps", "-steps", "model", "-money"])
def test_a_column_header_sorts_and_the_next_click_reverses(
    alice: Client, project: Project, sort: str
) -> None:
    alice.post("/list-columns", {"column": ["steps", "model", "money"], "order": "-last_entry"})
    make(project, "one")
    page = html(alice.get(f"/?sort={sort}"))
    reverse_order = sort[1:] if sort.startswith("-") else f"-{sort}"
    direction = "descending" if sort.startswith("-") else "ascending"
    assert page.count("aria-sort") == 1
    head = page[page.index("aria-sort") :][:200]
    assert head.startswith(f'aria-sort="{direction}"')
    assert f'href="/?sort={reverse_order}"' in head


def test_the_list_can_be_sorted_by_score_and_filtered_by_it(alice: Client, project: Project) -> None:
    for title, score in (("poor", -1.5), ("good", 2), ("unknown", None)):
        change_session(project, make(project, title).pk, {"score": score, "score_name": "<b>quality"})
    alice.post("/list-columns", {"column": ["steps", "score"], "order": "-score"})
    page = html(alice.get("/"))
    assert TITLE.findall(page) == ["good", "poor", "unknown"]
    cells = re.findall(r'<td data-label="score".*?>\s+(.*?)</td>', page, re.DOTALL)
    assert cells == ["2", "-1.5", "–"]
    assert page.count('title="&lt;b&gt;quality"') == 2
    assert titles(alice, "?sort=score") == ["poor", "good", "unknown"]


def test_the_next_page_continues_in_the_same_order(alice: Client, project: Project) -> None:
    Session.objects.bulk_create(Session(project=project, title=f"run {n}", steps=n) for n in range(40))
    page = html(alice.get("/?sort=steps"))
    older = re.search(r'href="(/[^"]*cursor=[^"]*)"', page)
    assert older
    seen = TITLE.findall(page) + titles(alice, older[1].replace("&amp;", "&")[1:])
    assert seen == [f"run {n}" for n in range(40)]


def test_a_row_has_a_strip_of_outcomes(alice: Client, session: Session) -> None:
    page = html(alice.get("/"))
    assert 'aria-label="5 steps, 1 with errors"' in page
    assert page.count('<path class="bad"') == 1


def test_a_bar_of_several_steps_is_coloured_by_the_share_of_those_that_failed() -> None:
    assert [*bar_parts(StripBar(1, 2, 1, 0, 1), 18)] == [("bad", 9), ("fine", 9)]
    both = StripBar(1, 2, errors=1, likely_failures=1, tokens=1)
    assert [*bar_parts(both, 3)] == [("bad", 2), ("likely", 1)]
    assert [*bar_parts(StripBar(1, 64, 1, 0, 1), 18)] == [("bad", 2), ("fine", 16)]


def test_titles_with_the_same_beginning_show_where_they_differ(alice: Client, project: Project) -> None:
    for what in ("crash", "typo", "<b>test"):
        parent = make(project, f"Solve the issue of this repository: {what}")
    Session.objects.create(project=project, forked_from=parent, title="Fork")
    for unfolded in ("", str(parent.pk)):
        page = html(alice.get("/", {"unfolded": unfolded}))
        assert page.count('<bdi class="alike">Solve the issu…</bdi>') == 3
    assert "<bdi>typo</bdi>" in page
    assert "<bdi>&lt;b&gt;test</bdi>" in page


@pytest.mark.parametrize(
    ("exit_status", "ended"),
    [
        ("Submitted", "submitted"),
        ("exit_forfeit", "gave up"),
        ("LimitsExceeded", "stopped"),
        ("", "not answered"),
    ],
)
def test_a_row_says_how_the_run_ended(alice: Client, project: Project, exit_status: str, ended: str) -> None:
    session = create_session(project, metadata={"exit_status": exit_status})
    append(project, session.pk, [act("submit"), ok()])
    for status, shown in (("finished", ended), ("archived", f"{ended} archived")):
        change_session(project, session.pk, {"status": status})
        page = html(alice.get("/", {"status": status}))
        row = page.partition('<td class="ended">')[2].partition("</td>")[0]
        assert re.sub(r"<[^>]*>", "", row).split() == shown.split()


def test_an_input_to_a_live_run_waits(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("go"), answer(), ask("now the tests")])
    for status, shown in (("live", "input waiting live"), ("finished", "not answered")):
        change_session(project, session.pk, {"status": status})
        row = (
            html(alice.get("/", {"status": status})).partition('<td class="ended">')[2].partition("</td>")[0]
        )
        assert re.sub(r"<[^>]*>", "", row).split() == shown.split()
        assert 'title=""' not in row


def test_the_choice_of_the_column_last_step_shows_how_runs_ended(alice: Client, session: Session) -> None:
    save_list_preference(User.objects.get(username="alice"), ["last_step"], Order())
    assert "column-ended" in html(alice.get("/"))


def test_likely_failures_are_beside_the_errors_of_a_row(alice: Client, session: Session) -> None:
    Session.objects.filter(pk=session.pk).update(likely_failures=2)
    assert "2 likely" in text(alice.get("/"))


def test_a_search_by_filters_of_sessions_ends_after_its_limit(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.search.results.SECONDS", 0)
    page = html(alice.get("/", {"q": "-title:other"}))
    assert "The search took longer than 0 seconds." in page


def test_a_search_by_filters_of_sessions_reads_no_ids_of_many_sessions(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would read them all, outside of its limit of time, although only the database needs them."""
    monkeypatch.setattr("historyapp.models.search.MAX_NAMED", 0)
    with CaptureQueriesContext(connection) as issued:
        assert session.title in html(alice.get("/", {"q": "-title:other"}))
    selected = [
        query["sql"] for query in issued if query["sql"].startswith('SELECT "historyapp_session"."id"')
    ]
    assert all("LIMIT" in sql for sql in selected if ", " not in sql.partition(" FROM ")[0])


def test_a_list_that_loaded_more_rows_says_that_it_is_not_updated(alice: Client, project: Project) -> None:
    """The style sheet shows the sentence beside a later row; such a row also stops the updates."""
    sentence, later = "this list is not updated", '<tr class="later">'
    assert sentence not in text(alice.get("/"))
    Session.objects.bulk_create(Session(project=project, title=f"run {n}", steps=n) for n in range(27))
    first = html(alice.get("/"))
    assert 'data-reload-unless="tr.later,' in first
    assert "this list is not" in first
    assert later not in first
    older = re.search(r'hx-get="(/[^"]*cursor=[^"]*)"', first)
    assert older is not None
    more = html(fragment(alice, older[1].replace("&amp;", "&"), target="more"))
    assert more.count(later) == 2


def test_estimated_tokens_are_marked_in_the_list(alice: Client, project: Project) -> None:
    estimated, reported = create_session(project), create_session(project)
    append(project, estimated.pk, [act("ls"), ok()])
    append(
        project, reported.pk, [draft(act("ls").body, usage={"input_tokens": 90, "output_tokens": 1}), ok()]
    )
    page = html(alice.get("/"))
    assert re.findall(r'data-label="tokens in">(≈ )?', page) == ["", "≈ "]

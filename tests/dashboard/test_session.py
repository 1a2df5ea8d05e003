"""The session page: the address has the position, takes are shown, and unusual sessions are readable."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse

from historyapp.core.entries import EntryDraft, ModelInput, ModelOutput, UseTool
from historyapp.models import Project, Session, StaleOutcomes
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, failed, ok


def page_of(session: Session, query: str = "") -> str:
    return reverse("session", args=[session.pk]) + query


def playhead_step(client: Client, address: str) -> int:
    """The step under the playhead."""
    match = re.search(r'class="step-view" data-at="(\d+)"', html(client.get(address)))
    assert match
    return int(match[1])


def test_a_session_opens_at_its_first_step(alice: Client, session: Session) -> None:
    assert playhead_step(alice, page_of(session)) == 1


@pytest.mark.parametrize(("query", "step"), [("?step=3", 3), ("?step=-1", 5), ("?step=-5", 1), ("?step=", 1)])
def test_the_address_has_the_position(alice: Client, session: Session, query: str, step: int) -> None:
    assert playhead_step(alice, page_of(session, query)) == step


@pytest.mark.parametrize("step", ["6", "0", "-6", "999999999"])
def test_a_step_beyond_the_history_is_a_404_that_names_the_range(
    alice: Client, session: Session, step: str
) -> None:
    response = alice.get(page_of(session, f"?step={step}"))
    assert response.status_code == 404
    assert "Use 1 to 5" in text(response)


@pytest.mark.parametrize(
    "query", ["?step=abc", "?step=1.5", "?step=²", "?as_of=999", "?as_of=-1", "?step=" + "9" * 99]
)
def test_an_invalid_position_is_a_422(alice: Client, session: Session, query: str) -> None:
    assert alice.get(page_of(session, query)).status_code == 422


def test_times_are_in_utc_until_scripts_put_them_into_the_readers_zone(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    night = datetime(2026, 1, 2, 20, 30, 5, tzinfo=UTC)
    append(project, session.pk, [draft._replace(created_at=night) for draft in (act(), ok())])
    page = html(alice.get(page_of(session)))
    time = f'<time datetime="{night.isoformat()}" data-shown='
    head = page[page.index('class="step-head"') :]
    assert f'{time}"full">2026-01-02 20:30:05 UTC</time>' in head
    clock = page[page.index("data-clock") : page.index('class="pace')]
    assert f'{time}"clock">20:30:05 UTC</time>' in clock


def test_the_playhead_is_marked_in_the_list(alice: Client, session: Session) -> None:
    page = html(alice.get(page_of(session, "?step=4")))
    assert re.findall(r'data-step="(\d+)" aria-current="step"', page) == ["4"]


def test_inputs_are_listed_between_the_steps(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [ask("now the discount"), act(), ok(), ask("thank you")])
    page = html(alice.get(page_of(session)))
    rows = page[page.index('id="rows"') : page.index('id="step"')]
    order = [
        rows.index(words) for words in ('data-step="5"', "now the discount", 'data-step="6"', "thank you")
    ]
    assert order == sorted(order)


def test_every_control_is_a_link(alice: Client, session: Session) -> None:
    page = html(alice.get(page_of(session, "?step=2")))
    targets = dict(re.findall(r'data-move="(\w+)"[^>]*href="[^"]*\?step=(\d+)"', page))
    assert targets == {"first": "1", "back": "1", "forward": "3", "last": "5"}
    assert f'href="/sessions/{session.pk}/jump?step=2&amp;to=next-error"' in page


def test_the_tabs_lead_to_the_shown_step(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=2"))
    assert f'href="/sessions/{session.pk}/ledger?step=2" data-keeps-step' in page
    assert f'href="/sessions/{session.pk}?step=2" data-keeps-step aria-current="page">Run' in page
    assert f'href="/sessions/{session.pk}/overview?step=2" data-keeps-step>Overview' in page
    assert f'href="/sessions/{session.pk}/overview?step=2#files" data-keeps-step>Files' in page
    overview = html(alice.get(f"/sessions/{session.pk}/overview?step=2"))
    assert f'href="/sessions/{session.pk}?step=2" data-keeps-step>Run' in overview


def test_without_a_further_error_the_link_is_disabled(alice: Client, session: Session) -> None:
    page = html(alice.get(page_of(session, "?step=3")))
    assert re.search(r'data-jump="next-error"[^>]*aria-disabled="true"', page)


def test_a_take_is_shown_where_it_was_cut_off(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2), reason="the wrong way")
    page = text(alice.get(page_of(session)))
    assert "Take: 3 steps cut off by the rewind at position 12 · the wrong way" in page
    assert "Rewound: 3 steps cut off and kept as a take." in page


def test_a_take_is_shown_as_of_its_position(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    page = html(alice.get(page_of(session)))
    look = re.search(r'href="([^"]*as_of[^"]*)">(?:<svg.*?</svg>)Open', page)
    assert look
    response = alice.get(look[1].replace("&amp;", "&"))
    assert "You are viewing the session as it was up to step 5 (position 11)." in text(response)
    assert playhead_step(alice, look[1].replace("&amp;", "&")) == 3


def test_the_steps_of_a_take_are_loaded_when_it_is_opened(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    rows = html(fragment(alice, reverse("take", args=[session.pk, 12])))
    assert re.findall(r'<span class="n">(\d)</span>', rows) == ["3", "4", "5"]
    assert "data-step=" not in rows


def test_undo_restores_the_steps_and_confirms_it(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    undo_rewind(project, session.pk, 12)
    page = text(alice.get(page_of(session)))
    assert "Rewind undone: its steps are restored. Undo" in page, "without the reason, which says the same"
    assert "Take:" not in page


def test_the_bar_disappears_once_the_session_continues(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [act()])
    page = text(alice.get(page_of(session)))
    assert "Rewound:" not in page
    assert "Take: 3 steps" in page


def test_an_earlier_position_can_be_forked_but_not_rewound(alice: Client, session: Session) -> None:
    page = html(alice.get(page_of(session, "?as_of=5")))
    assert f'href="{reverse("rewind", args=[session.pk])}' not in page
    assert f'action="{reverse("fork", args=[session.pk])}?step=1&amp;as_of=5"' in page


def test_the_link_to_the_newest_position_keeps_the_step(
    alice: Client, project: Project, session: Session
) -> None:
    head = session.head
    back = 'href="{}?step={}">Show the current session'
    assert back.format(page_of(session), 4) in html(alice.get(page_of(session, f"?as_of={head}&step=4")))
    rewind(project, session.pk, Target(to_step=2))
    assert back.format(page_of(session), 2) in html(alice.get(page_of(session, f"?as_of={head}&step=4")))


def test_a_session_without_steps_shows_its_inputs(alice: Client, project: Project) -> None:
    session = create_session(project)
    assert "No steps yet" in text(alice.get(page_of(session)))
    append(project, session.pk, [ask("hello there")])
    page = text(alice.get(page_of(session)))
    assert "Untitled session" in page
    assert "hello there" in page


def test_a_session_of_one_step_has_no_links_to_other_steps(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [answer("the end")])
    page = html(alice.get(page_of(session)))
    assert set(re.findall(r'data-move="\w+"[^>]*href="[^"]*\?step=(\d+)"', page)) == {"1"}


def test_a_step_in_flight_says_that_it_has_no_result(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [act("slow_tool")])
    page = text(alice.get(page_of(session, "?step=-1")))
    assert "in flight" in page
    assert "Proposed; no result yet." in page


def test_relatives_are_linked(alice: Client, project: Project, session: Session) -> None:
    child = fork(project, session.pk, at_step=2, title="another way")
    Session.objects.filter(pk=create_session(project, names={"title": "helper"}).pk).update(
        spawned_by=session
    )
    parent = text(alice.get(page_of(session)))
    assert "another way" in parent
    assert "helper" in parent
    untouched = text(alice.get(page_of(child)))
    assert "another way fork Rename" in untouched or "another way fork Title" in untouched
    assert "fork of Repair the totals after step 2" in untouched
    assert "nothing recorded since the fork" in untouched
    assert 'class="status status-live"' not in html(alice.get(page_of(child))), "nothing runs in it"
    append(project, child.pk, [act(), ok()])
    assert "nothing recorded" not in text(alice.get(page_of(child)))
    assert 'class="status status-live"' in html(alice.get(page_of(child)))


def test_a_title_of_300_characters_is_not_cut(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "wide " * 60})
    assert f'title="{("wide " * 60)}"' in html(alice.get(page_of(session)))


def test_renaming_keeps_the_step(alice: Client, session: Session) -> None:
    response = alice.post(reverse("rename", args=[session.pk]) + "?step=3", {"title": "  New\x01 \n title  "})
    assert response["Location"] == page_of(session, "?step=3")
    session.refresh_from_db()
    assert session.title == "New\x01 title"


def test_a_title_that_is_too_long_is_refused_and_not_cut(alice: Client, session: Session) -> None:
    assert re.search(r'<input name="title" [^>]*maxlength="300"', html(alice.get(page_of(session))))
    response = alice.post(reverse("rename", args=[session.pk]), {"title": "x" * 301})
    assert response.status_code == 422
    assert "A title has at most 300 characters; this one has 301." in text(response)
    session.refresh_from_db()
    assert session.title == "Repair the totals"
    assert alice.post(reverse("rename", args=[session.pk]), {"title": f" {'x' * 300} "}).status_code == 302


def test_an_archived_session_offers_no_rewind(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    alice.post(reverse("change-status", args=[session.pk]), {"status": "archived"})
    page = html(alice.get(page_of(session)))
    assert f'href="{reverse("rewind", args=[session.pk])}' not in page
    assert ">Undo" not in page
    assert "Unarchive" in page


def test_a_status_that_does_not_exist_is_refused(alice: Client, session: Session) -> None:
    assert alice.post(reverse("change-status", args=[session.pk]), {"status": "gone"}).status_code == 422


def test_scrolling_loads_25_more_rows(alice: Client, project: Project) -> None:
    session = long_session(project, 200)
    address = reverse("steps", args=[session.pk])
    numbers = re.compile(r'data-step="(\d+)"')
    later = [int(number) for number in numbers.findall(html(fragment(alice, f"{address}?after=100")))]
    earlier = [int(number) for number in numbers.findall(html(fragment(alice, f"{address}?before=20")))]
    assert later == list(range(101, 126))
    assert earlier == list(range(1, 20))


def test_only_the_ends_of_the_rows_link_to_more_rows(alice: Client, project: Project) -> None:
    address = reverse("steps", args=[long_session(project, 200).pk])
    ends = ("Earlier steps", "Later steps")
    offered = {
        query: [end for end in ends if end in text(fragment(alice, f"{address}?{query}"))]
        for query in ("around=100", "after=100", "before=100", "after=180", "before=20")
    }
    assert offered == {
        "around=100": ["Earlier steps", "Later steps"],
        "after=100": ["Later steps"],
        "before=100": ["Earlier steps"],
        "after=180": [],
        "before=20": [],
    }


def test_rows_without_htmx_lead_to_the_page(alice: Client, session: Session) -> None:
    response = alice.get(reverse("steps", args=[session.pk]) + "?after=3")
    assert response["Location"] == page_of(session, "?step=3")


def test_news_are_sent_only_after_a_change(alice: Client, project: Project, session: Session) -> None:
    address = reverse("news", args=[session.pk])
    known = f"?revision={session.revision}&steps=5&seen=5&step=2"
    assert fragment(alice, address + known).status_code == 204
    append(project, session.pk, [act(), ok()])
    news = fragment(alice, address + known)
    assert "1 new step." in text(news)
    assert page_of(session, "?step=6") in html(news)
    assert alice.get(address + known)["Location"] == page_of(session, "?step=6")


def test_news_have_every_changed_part_of_the_page(alice: Client, project: Project, session: Session) -> None:
    append(project, session.pk, [act("slow_tool")])
    session.refresh_from_db()
    known = f"?revision={session.revision}&steps=6&seen=6&step=6"
    append(project, session.pk, [failed(), ask("go on"), act(), ok()])
    session.refresh_from_db()
    page = html(fragment(alice, reverse("news", args=[session.pk]) + known))
    head, template = re.findall(r"<template data-(?:turn-head|new-rows)>(.*?)</template>", page, re.DOTALL)
    assert 'id="turn-1"' in head
    assert re.findall(r'data-step="(\d+)"', template) == ["6", "7"]
    assert "go on" in template
    assert f'data-revision="{session.revision}" data-head="{session.head}"' in page
    assert set(re.findall(r'id="(\w+)" hx-swap-oob', page)) == {"bars", "chips", "facts", "timeline"}


def test_news_of_many_steps_link_to_more_rows(alice: Client, project: Project) -> None:
    session = long_session(project, 200)
    news = fragment(alice, reverse("news", args=[session.pk]) + "?revision=0&steps=100&seen=90&step=3")
    page = html(news)
    assert len(re.findall('class="row"', page)) == 26
    assert "Later steps" in text(news)
    assert "110 new steps." in text(news)


def test_news_of_a_rewind_have_its_bar(alice: Client, project: Project, session: Session) -> None:
    rewind(project, session.pk, Target(to_step=2))
    news = text(fragment(alice, reverse("news", args=[session.pk]) + "?revision=0&steps=5&seen=5&step=4"))
    assert "Rewound: 3 steps cut off" in news
    assert "new step" not in news
    rewind(project, session.pk, Target(to_step=0))
    page = html(fragment(alice, reverse("news", args=[session.pk]) + "?revision=0&steps=2&seen=5&step=4"))
    assert 'data-steps="0"' in page


def test_a_session_is_followed_except_at_an_earlier_position(
    alice: Client, project: Project, session: Session
) -> None:
    change_session(project, session.pk, {"status": "finished"})
    now, past = html(alice.get(page_of(session))), html(alice.get(page_of(session, "?as_of=5")))
    for sign in ('id="news"', "data-events="):
        assert sign in now
        assert sign not in past


def test_unusual_names_do_not_break_a_page(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "\u202eevil\u202c עברית", "agent": "a\x07b"})
    tool = UseTool(name="x\ud800\x00", arguments={"\udfff": "\x00"})
    append(project, session.pk, [EntryDraft(ModelInput(content="\ud800\x00"))])
    append(project, session.pk, [EntryDraft(ModelOutput(thoughts="\udc00", use_tool=tool))])
    page = html(alice.get(page_of(session)))
    assert "\u202e" not in page
    assert "[U+202E]evil[U+202C]" in page
    assert "\x00" not in page


def test_a_take_of_only_results_links_to_the_step_that_it_ended(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_position=10))
    page = html(alice.get(page_of(session)))
    assert "Take: 1 entry cut off by the rewind at position 12" in text(alice.get(page_of(session)))
    assert f'href="{page_of(session)}?as_of=11&amp;step=-1"' in page
    response = alice.get(reverse("take", args=[session.pk, 12]))
    assert playhead_step(alice, response["Location"]) == 5


def test_the_page_shows_the_progress_of_computing_outcomes_of_an_earlier_version(
    alice: Client, session: Session
) -> None:
    notice = "targets and likely failures are being computed: 0 % done"
    assert notice not in text(alice.get(page_of(session)))
    StaleOutcomes.objects.create(session=session)
    assert notice in text(alice.get(page_of(session)))

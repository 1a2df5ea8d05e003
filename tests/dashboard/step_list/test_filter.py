"""Filtering the step list: by the address, without scripts, and with a message if no step matches."""

import re
from datetime import UTC, datetime
from html import unescape

import pytest
from django.test import Client

from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.models import Episode, Project, Session, StaleOutcomes
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, failed, ok


def listed(response: object) -> list[int]:
    """The steps in the list."""
    rows = html(response).partition('id="rows"')[2].partition("</ol>")[0]
    return [int(part.partition('"')[0]) for part in rows.split('data-step="')[1:]]


FILTERED: dict[str, list[int]] = {
    "status=error": [3],
    "tool=read_file&step=4": [1, 2, 3, 4, 5],
    "tool=read_file&as_of=5": [1, 2],
    "status=answered&tool=read_file": [],
    "since=2020-01-01T00:00": [1, 2, 3, 4, 5],
    "until=2020-01-01T00:00:00": [],
    "kind=read": [1, 2, 3, 4, 5],
    "kind=edit": [],
    "turn=1&status=error": [3],
    "turn=2": [],
    "file=FILE-3.txt": [3],
    "file=file-": [1, 2, 3, 4, 5],
    "file=le-3": [],
    "text=totals": [1],
    "text=not%20found": [3],
    "text=text&kind=read&step=3": [1, 2, 4, 5],
    "text=text&file=4.txt": [4],
    "text=text&file=4.txt&status=error": [],
}


def test_the_list_has_only_matching_steps(alice: Client, session: Session) -> None:
    found = {query: listed(alice.get(f"/sessions/{session.pk}?{query}")) for query in FILTERED}
    assert found == FILTERED


def test_the_number_of_errors_in_the_head_links_to_them(alice: Client, session: Session) -> None:
    head = html(alice.get(f"/sessions/{session.pk}?step=2")).partition('id="rows"')[0]
    assert '?status=error"><b>1</b> error</a>' in " ".join(head.split())


@pytest.mark.parametrize(
    ("query", "step"),
    [("status=error", 3), ("text=not%20found", 3), ("status=in_flight", 1), ("kind=read&step=2", 2)],
)
def test_a_filter_without_a_step_opens_the_first_step_that_it_shows(
    alice: Client, session: Session, query: str, step: int
) -> None:
    assert alice.get(f"/sessions/{session.pk}?{query}").context["location"].step == step


def test_likely_failures_are_listed_separately_and_marked_with_their_line(
    alice: Client, project: Project
) -> None:
    session = create_session(project)
    make = act("bash", command="make | tail")
    append(project, session.pk, [act(), ok(), make, ok(outputs="fine"), make, ok(outputs="error: <no> rule")])
    assert listed(alice.get(f"/sessions/{session.pk}?status=error")) == []
    page = alice.get(f"/sessions/{session.pk}?status=likely_failed&step=3")
    head = html(page).partition('id="rows"')[0]
    assert '?status=likely_failed"><b>1</b> likely failed</a>' in head, "counted apart from errors"
    assert '&amp;status=error"' not in head, "without errors there is no link to them"
    assert listed(page) == [3]
    assert '<option value="likely_failed" selected>likely failed</option>' in html(page)
    assert html(page).count('class="outcome outcome-likely_failed"') == 2, "the row and the step"
    assert "Command error: " in html(page)
    assert "error: &lt;no&gt; rule" in html(page)


@pytest.mark.parametrize(("query", "last"), [("", 5), ("&status=likely_failed", 5), ("&status=error", 4)])
def test_the_link_to_the_next_failure_works_before_the_last_one(
    alice: Client, project: Project, query: str, last: int
) -> None:
    session = create_session(project)
    make = act("bash", command="make | tail")
    likely = [make, ok(outputs="error: no rule")]
    append(project, session.pk, [act(), ok(), *likely, act(), ok(), act(), failed(), *likely, act(), ok()])
    for step in (1, last - 1, last, 6):
        page = html(alice.get(f"/sessions/{session.pk}?step={step}{query}"))
        link = page.partition('data-jump="next-error"')[2].partition(">")[0]
        assert f'data-later-failure="{"yes" if step < last else "no"}"' in page
        assert ("aria-disabled" in link) == (step >= last)


def test_every_link_keeps_the_filter_and_the_step(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?step=4&as_of=10&status=error"))
    assert f'href="/sessions/{session.pk}?step=5&amp;as_of=10&amp;status=error"' in page  # one step forward
    assert f'href="/sessions/{session.pk}?step=3&amp;as_of=10&amp;status=error"' in page  # the row
    assert f'href="/sessions/{session.pk}?step=4&amp;as_of=10" data-keeps-step' in page  # all steps
    assert '<input type="hidden" name="as_of" value="10">' in page
    assert '<option value="error" selected>' in page


def test_an_empty_list_says_that_no_step_matches(alice: Client, session: Session) -> None:
    page = alice.get(f"/sessions/{session.pk}?tool=nothing")
    assert "No step matches these filters." in text(page)
    assert "Show all steps" in text(page)


def chips(response: object) -> list[str]:
    """The labels of the chips. A chip that is on has its address too."""
    part = html(response).partition('class="chips"')[2].partition("</ul>")[0]
    shown = []
    for chip in part.split("<li>")[1:]:
        words = " ".join(re.sub(r"<[^>]*>", " ", chip).split())
        address = unescape(chip.partition('href="')[2].partition('"')[0]).partition("?")[2]
        shown.append(f"{words}: {address}" if "aria-current" in chip else words)
    return shown


def test_chips_add_and_remove_one_filter_and_keep_the_others(alice: Client, session: Session) -> None:
    page = f"/sessions/{session.pk}?step=3"
    assert chips(alice.get(page)) == ["all 5: step=3", "errors 1", "read 5"]
    both = alice.get(f"{page}&status=error&file=3.txt&noted=1")
    assert chips(both) == [
        "all 5",
        "errors 1: step=3&file=3.txt&noted=1",
        "read 5",
        "file 3.txt: step=3&status=error&noted=1",
        "edits only",
        "bookmarked: step=3&status=error&file=3.txt",
    ]
    assert (
        f'href="/sessions/{session.pk}?step=3&amp;status=error&amp;kind=read&amp;file=3.txt&amp;noted=1"'
        in (html(both))
    )


def test_the_chip_of_a_long_path_has_its_end(alice: Client, session: Session) -> None:
    page = alice.get(f"/sessions/{session.pk}?file=/home/alice/project/src/a.py")
    assert chips(page)[-2:] == ["file …/src/a.py: step=1", "edits only"]
    assert 'title="Remove the filter file /home/alice/project/src/a.py"' in html(page)


def test_the_steps_of_a_file_can_be_limited_to_its_edits(
    alice: Client, project: Project, session: Session
) -> None:
    diff = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n@@ -1 +1 @@\n-y\n+z"
    for name, arguments, result in (
        ("Read", {"file_path": "/w/src/a.py"}, "1→x"),
        ("Edit", {"file_path": "/w/src/a.py", "old_string": "y", "new_string": "z"}, "done"),
        ("Bash", {"command": "cat src/a.py && sed -i s/a/b/ src/b.py"}, "z"),
        ("Bash", {"command": "git diff"}, diff),
        ("Bash", {"command": "git rm src/a.py"}, "rm 'src/a.py'"),
    ):
        append(project, session.pk, [act(name, **arguments), ok(outputs=result)])
    page = f"/sessions/{session.pk}?step=7&file=src/a.py"
    assert listed(alice.get(page)) == [6, 7, 8, 9, 10]
    (offered,) = re.findall(r'class="chip chip-edited" href="([^"]*)"', html(alice.get(page)))
    assert unescape(offered) == f"{page.replace('src/', 'src%2F')}&edited=1"
    edits = alice.get(unescape(offered))
    assert listed(edits) == [7, 10]
    file, only = chips(edits)[-2:]
    assert file == "file src/a.py: step=7", "without the file, this is no filter"
    assert only == "edits only: step=7&file=src%2Fa.py"
    assert len(listed(alice.get(f"/sessions/{session.pk}?edited=1"))) == 10


def test_the_filter_ends_when_another_page_is_opened(alice: Client, session: Session) -> None:
    head = html(alice.get(f"/sessions/{session.pk}?step=3&file=3.txt")).partition('class="tabs"')[2]
    addresses = [unescape(address) for address in re.findall(r'href="([^"]*)"', head.partition("</nav>")[0])]
    assert f"/sessions/{session.pk}?step=3&file=3.txt" in addresses, "the page itself"
    assert f"/sessions/{session.pk}/ledger?step=3" in addresses
    assert sum("file=" in address for address in addresses) == 1


def test_rows_name_the_call_for_which_a_file_filter_found_them(
    alice: Client, project: Project, session: Session
) -> None:
    reads = [
        ToolCall(id=str(number), name="Read", arguments={"file_path": path})
        for number, path in enumerate(("/src/auth.ts", "/src/dto/create.ts"))
    ]
    append(project, session.pk, [draft(ModelOutput(tool_calls=tuple(reads))), ok("0", "1→x"), ok("1", "1→y")])
    diff = "diff --git a/src/dto/create.ts b/src/dto/create.ts\n--- a/src/dto/create.ts\n@@ -1 +1 @@\n-y\n+z"
    append(project, session.pk, [act("bash", command="git diff"), ok(outputs=diff)])
    shown = text(alice.get(f"/sessions/{session.pk}?file=src/dto/create.ts"))
    assert "6 …/dto/create.ts in one of several calls" in shown
    assert "7 git diff" in shown
    assert "6 /src/auth.ts ×2" in text(alice.get(f"/sessions/{session.pk}?file=auth.ts"))
    fix = ToolCall(id="1", name="bash", arguments={"command": "python fix.py && git diff"})
    append(project, session.pk, [draft(ModelOutput(tool_calls=(reads[0], fix))), ok("0", "x"), ok("1", diff)])
    shown = text(alice.get(f"/sessions/{session.pk}?file=src/dto/create.ts"))
    assert "8 src/dto/create.ts in one of several calls" in shown


def test_rows_name_the_open_file_that_an_edit_changed(
    alice: Client, project: Project, session: Session
) -> None:
    shown_file = "File updated. Review it.\n[File: /testbed/src/fields.py (9 lines total)]\n1:x"
    append(project, session.pk, [act("edit", replacement_text="x = 1"), ok(outputs=shown_file)])
    append(
        project, session.pk, [act("submit"), ok(outputs="\ndiff --git a/src/fields.py b/src/fields.py\n+x")]
    )
    shown = text(alice.get(f"/sessions/{session.pk}?file=src/fields.py"))
    assert "6 …/src/fields.py" in shown
    assert "7 submit" in shown
    assert "in one of several calls" not in shown


def test_chips_count_the_steps_of_each_kind_as_of_the_position(
    alice: Client, project: Project, session: Session
) -> None:
    append(project, session.pk, [act("bash", command="ls"), ok(), act("bash", command="ls"), ok()])
    assert chips(alice.get(f"/sessions/{session.pk}")) == [
        "all 7: step=1",
        "errors 1",
        "shell 2",
        "read 5",
    ]
    then = alice.get(f"/sessions/{session.pk}?as_of=13&kind=edit")
    assert chips(then) == ["all 6", "errors 1", "shell 1", "read 5", "edit 0: step=1&as_of=13"]
    StaleOutcomes.objects.create(session=session)
    assert "shell counting" in chips(alice.get(f"/sessions/{session.pk}"))


def shown(response: object) -> list[str]:
    """The rows of the list: heads of turns, steps and sub-agents."""
    rows = html(response).partition('id="rows"')[2].partition('<p class="visually-hidden" role="status"')[0]
    pattern = r'<b class="turn-number" title="(Turn \d+)|data-step="(\d+)"|/sessions/[^/]*/(subagent)-steps'
    return ["".join(groups) for groups in re.findall(pattern, rows)]


def test_a_filtered_list_has_headers_of_turns_and_sub_agents(alice: Client, project: Project) -> None:
    session, child = create_session(project), create_session(project, names={"title": "Explore"})
    append(project, session.pk, [act("ls"), ok(), ask("<b>first</b>"), act("ls"), ok(), act("task"), ok()])
    append(project, session.pk, [act("ls"), ok(), ask("second"), act("ls"), ok(), act("task"), ok()])
    position = Episode.objects.get(session=session, number=3).first_position
    Session.objects.filter(pk=child.pk).update(spawned_by=session, spawned_position=position)
    tasks = alice.get(f"/sessions/{session.pk}?tool=task&step=4")
    assert shown(tasks) == ["Turn 1", "3", "subagent", "Turn 2", "6"]
    assert "&lt;b&gt;first" in html(tasks)
    assert "data-turn=" not in html(tasks), "nothing is folded in it"
    lists = f"/sessions/{session.pk}?tool=ls"
    assert shown(alice.get(lists)) == ["1", "Turn 1", "2", "4", "Turn 2", "5"]
    later = fragment(alice, lists.replace("?", "/steps?after=2&"))
    assert "Turn 1" not in html(later), "its head is above"
    assert "3 steps" in html(alice.get(f"/sessions/{session.pk}?turn=1&tool=task"))
    earlier = html(fragment(alice, lists.replace("?", "/steps?before=4&")))
    assert '<li id="matches-of-1" hx-swap-oob="delete"></li>' in earlier, "its head moves up"
    assert "hx-swap-oob" not in html(fragment(alice, lists.replace("?", "/steps?before=5&")))


def test_matches_of_a_text_are_loaded_25_at_a_time_from_the_playhead(alice: Client, project: Project) -> None:
    session = long_session(project, 5_000)
    page = alice.get(f"/sessions/{session.pk}?step=2500&text=fine&file=notes.txt")
    assert listed(page) == list(range(2475, 2525))
    later = fragment(alice, f"/sessions/{session.pk}/steps?after=2524&text=fine")
    assert 'data-step="2525"' in html(later)
    assert 'data-step="2549"' in html(later)
    assert f"/sessions/{session.pk}/steps?after=2549&amp;text=fine" in html(later)


@pytest.mark.parametrize(
    "query",
    [
        "status=fine",
        "kind=fine",
        "turn=-1",
        "text=" + "x" * 201,
        "since=yesterday",
        "until=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_an_invalid_filter_is_refused(alice: Client, session: Session, query: str) -> None:
    assert alice.get(f"/sessions/{session.pk}?{query}").status_code == 422


def test_a_typed_text_is_escaped(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}?tool=%22%3E%3Cscript%3E"))
    assert '"><script>' not in page


def test_matches_are_loaded_25_at_a_time_from_the_playhead(alice: Client, project: Project) -> None:
    session = long_session(project, 5_000)  # every 50th step fails
    page = alice.get(f"/sessions/{session.pk}?step=2500&status=error")
    steps = listed(page)
    assert steps == list(range(1250, 3750, 50))
    assert f"/sessions/{session.pk}/steps?before=1250&amp;status=error" in html(page)
    later = fragment(alice, f"/sessions/{session.pk}/steps?after=3700&status=error")
    numbers = [int(part.partition('"')[0]) for part in html(later).split('data-step="')[1:]]
    assert numbers == list(range(3750, 5000, 50))
    earlier = fragment(alice, f"/sessions/{session.pk}/steps?before=100&status=error")
    assert 'data-step="50"' in html(earlier)
    assert "Earlier matches" not in text(earlier)


def test_a_search_that_stops_early_names_the_step(
    alice: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.models.step_filters.MAX_READ", 2)
    monkeypatch.setattr("historyapp.models.step_filters._PAGES", (2, 2))
    session = create_session(project)
    for _ in range(9):
        append(project, session.pk, [act("ls"), ok()])
    query = f"since={datetime(2000, 1, 1, tzinfo=UTC):%Y-%m-%dT%H:%M}&tool=nothing&status=success"
    monkeypatch.setattr("historyapp.models.step_filters.SEVERAL_TOOLS", "ls")
    page = alice.get(f"/sessions/{session.pk}?{query}")
    assert "Steps after 1 have not been searched." in text(page)
    assert f"/sessions/{session.pk}/steps?after=1&amp;" in html(page)


def test_without_htmx_the_list_redirects_to_the_page_with_its_filter(alice: Client, session: Session) -> None:
    response = alice.get(f"/sessions/{session.pk}/steps?after=2&status=error")
    assert (response.status_code, response["Location"]) == (
        302,
        f"/sessions/{session.pk}?step=2&status=error",
    )


def test_a_line_above_the_list_says_that_the_filter_hides_the_step(alice: Client, session: Session) -> None:
    page = f"/sessions/{session.pk}?status=error"
    line = re.compile(r'<li class="none" data-unlisted( hidden)?>This step is not among these matches.\s+<a')
    for step, hidden in ((2, None), (3, " hidden")):
        found = line.search(html(alice.get(f"{page}&step={step}")))
        assert found is not None
        assert found[1] == hidden


def test_the_cost_of_a_step_links_to_it_in_the_list_of_all_steps(alice: Client, session: Session) -> None:
    append(session.project, session.pk, [draft(ModelOutput(text="ok"), usage={"input_tokens": 9})])
    page = html(alice.get(f"/sessions/{session.pk}/ledger?step=3&status=error"))
    links = re.findall(r'href="([^"]*)" data-step=', page)
    assert links
    assert not any("status=error" in link for link in links)


@pytest.mark.parametrize("field", ["tool", "noted", "since", "file"])
def test_a_filter_that_would_fill_each_link_of_the_timeline_is_refused(
    alice: Client, project: Project, field: str
) -> None:
    session = create_session(project)
    append(project, session.pk, [act(), ok()])
    refused = alice.get(f"/sessions/{session.pk}?{field}={'x' * 201}")
    assert refused.status_code == 422
    assert f"{field} must have at most 200 characters." in html(refused)

"""A share link shows one session, links to no other page, changes nothing, and hides excluded parts."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from time import process_time
from typing import Any
from urllib.parse import urljoin

import pytest
from django.test import Client
from django.utils import timezone

from historyapp.core import entries as core
from historyapp.core.entries import EntryDraft
from historyapp.core.output_facts import MAX_NAMES
from historyapp.models import Episode, Project, Session, ShareLink, StepNote
from historyapp.services.append import append
from historyapp.services.notes import put_note
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import StartingToolCall, change_session, create_session
from historyapp.services.shares import ShareOptions, create_share, share_path
from tests.dashboard.pages import fragment, html, text
from tests.examples import thorough
from tests.services.drafts import act, ask, draft, failed, ok

PERSONS = "persons-words"
"""In everything that a person wrote."""
CUT = "cut-off-words"
"""In everything that was cut off."""
STOPPED = core.ToolResult(status="interrupted_by_human", feedback=f"{PERSONS} feedback")
READS = ("href", "src", "action", "hx-get", "data-page")
OTHERS = {"hx-target", "hx-swap", "hx-trigger", "hx-swap-oob", "hx-disabled-elt"}


@pytest.fixture
def full(project: Project) -> Session:
    """A session with everything that a page can show or lead to."""
    session = create_session(project, names={"title": f"{PERSONS} title", "agent": "demo"}, tags=["tagged"])
    append(project, session.pk, [
        draft(core.SystemInstruction(text=f"{PERSONS} instruction")),
        ask(f"{PERSONS} input one"), act("Task", prompt="look"), ok(outputs="fine needle"),
        draft(core.Review(analysis=f"{PERSONS} review", score=1.0, passed=True)),
        act("bash", command="ls"),
        draft(core.ToolResults(results=(STOPPED,))),
        ask(f"{PERSONS} input two"),
        act("AskUserQuestion", question="Which?"), ok(outputs=f"{PERSONS} answer"),
        act("edit", path="a.py", old_string="x", new_string="y"), failed(reason="no needle"),
        *[one for number in range(40) for one in (act("read", path=f"{number}.txt"), ok(outputs="x" * 5000))],
        act("read", path=CUT), ok(outputs=f"{CUT} needle"),
        ask(f"{PERSONS} last input"),
    ])  # fmt: skip
    rewind(project, session.pk, Target(to_step=44), reason=f"{PERSONS} reason")
    append(project, session.pk, [act("read", path="after.txt"), ok(outputs="after needle")])
    put_note(project, session.pk, 2, f"{PERSONS} note")
    fork(project, session.pk, at_step=3, title=f"{PERSONS} fork")
    create_session(project, names={"title": f"{PERSONS} child"}, starter=StartingToolCall(session, 3))
    session.refresh_from_db()
    return session


def linked(session: Session, **options: Any) -> str:
    return share_path(create_share(session.project, session.pk, ShareOptions(**options)).pk)


def addresses(page: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"""([a-z-]+)=(?:"([^"]*)"|'([^']*)')""", page):
        if match[1] in READS or match[1].startswith("hx-"):
            yield match[1], unescape(match[2] if match[2] is not None else match[3])


def walk(link: str, limit: int = 1) -> dict[str, str]:
    """Every kind of page and fragment that can be reached from a link; fails at what leads elsewhere.

    Of addresses that differ in numbers alone, and in the values of a parameter, ``limit`` are opened.
    """
    client, seen, waiting, alike = Client(), dict[str, str](), [link], Counter[tuple[str, str]]()
    while waiting:
        address = waiting.pop(0).partition("#")[0]
        path, _, query = re.sub(r"\d+", "9", address.removeprefix(link)).partition("?")
        sorts = {(path, name) for name in ("", *re.findall(r"(?:^|&)(\w+)=", query))}
        if address in seen or all(alike[sort] >= limit for sort in sorts):
            continue
        alike.update(sorts)
        seen[address] = ""
        for headers in ({}, {"hx-request": "true"}):
            response = client.get(address, headers=headers)
            is_end = "/jump?" in address and response.status_code == 404
            assert response.status_code in (200, 204, 302) or is_end, address
            assert "no-store" in response["Cache-Control"]
            assert "noindex" in response["X-Robots-Tag"]
            links = [("href", response["Location"])] if response.status_code == 302 else []
            if response["Content-Type"].startswith(("text/", "application/json")):
                page = html(response)
                seen[address] += page
                assert not re.search(r"""method=["']?post""", page, re.IGNORECASE), address
                links += addresses(page)
            for name, value in links:
                if name in OTHERS or value.startswith(("#", "/static/", "data:")):
                    continue
                assert name in READS, (address, name)
                target = urljoin(address, value)
                assert target.startswith(link), (address, name, value)
                waiting.append(target)
    return seen


FRAGMENTS = (
    "?step=2&find=needle",
    "?step=45",
    f"?step=3&find={PERSONS}",
    f"?text={PERSONS}",
    "/steps?around=1&turn=1",
    "/steps?around=5&kind=read",
    "/news",
    f"/find?find={PERSONS}",
    f"/find?find={CUT}",
    f"/steps?around=1&text={PERSONS}",
)
ECHOES = re.compile(f'(?:find|text)={PERSONS}|find={CUT}|value="(?:{PERSONS}|{CUT})"|text {PERSONS}')
"""The search text, which pages repeat."""


@pytest.mark.parametrize(
    ("with_takes", "with_inputs", "limit"),
    [(False, True, 1), (True, False, 1), thorough(False, True, 4), thorough(True, False, 4)],
)
def test_no_page_of_a_link_changes_anything_leads_outside_or_shows_what_it_leaves_out(
    full: Session, with_takes: bool, with_inputs: bool, limit: int
) -> None:
    link = linked(full, with_takes=with_takes, with_inputs=with_inputs)
    before = (full.revision, full.head, StepNote.objects.count(), Session.objects.count())
    pages, stranger = walk(link, limit), Client()
    for address in pages:
        assert stranger.post(address).status_code == 405, address
    full.refresh_from_db()
    assert before == (full.revision, full.head, StepNote.objects.count(), Session.objects.count())
    assert {"step", "to", "axis", "height", "zoom", "colour", "status", "kind", "turn", "after"} <= {
        name for address in pages for name in re.findall(r"[?&](\w+)=", address)
    }
    for rest in FRAGMENTS:
        address = f"{link}sessions/{full.pk}{rest}"
        response = fragment(stranger, address) if rest[0] == "/" else stranger.get(address)
        assert response.status_code == 200, rest
        pages[rest] = html(response)
    everything = ECHOES.sub("", "\n".join(pages.values()))
    shown = sorted(set(re.findall(f"{PERSONS}[ a-z]*", everything)))
    assert bool(shown) == with_inputs, shown
    assert (CUT in everything) == with_takes
    for others in ("note", "fork", "child"):
        assert f"{PERSONS} {others}" not in shown


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_link_answers_405_to_programs_without_a_cookie(session: Session, method: str) -> None:
    strict = Client(enforce_csrf_checks=True)
    for rest in ("", f"sessions/{session.pk}", "nothing"):
        response = strict.generic(method, f"{linked(session)}{rest}")
        assert response.status_code == 405
        assert response["Allow"] == "GET, HEAD"


def test_a_link_to_a_position_shows_nothing_after_it(project: Project, session: Session) -> None:
    link = linked(session, as_of=5, with_inputs=True, with_takes=True)
    append(
        project, session.pk, [ask("later words"), act("read", path="later words"), ok(outputs="later words")]
    )
    assert "later words" not in "\n".join(walk(link).values())
    page = f"{link}sessions/{session.pk}"
    assert "2 steps" in text(Client().get(page))
    assert Client().get(f"{page}?as_of=6").status_code == 404
    assert Client().get(f"{page}?as_of=3").status_code == 200
    assert Client().get(f"{page}/steps/3").status_code == 404


def test_a_link_without_takes_shows_no_other_position(session: Session) -> None:
    page = f"{linked(session)}sessions/{session.pk}"
    assert Client().get(f"{page}?as_of=3").status_code == 404


def test_a_link_grows_with_its_session(project: Project, session: Session) -> None:
    link = linked(session)
    append(project, session.pk, [act("read", path="new.txt")])
    news = fragment(Client(), f"{link}sessions/{session.pk}/news?step=1&steps=5&seen=5&revision=0")
    assert "new.txt" in html(news)


@pytest.mark.parametrize("rest", ["", "sessions/ID", "sessions/ID/steps/1", "x/y"])
def test_unknown_changed_expired_and_revoked_links_get_the_same_response(session: Session, rest: str) -> None:
    rest = rest.replace("ID", str(session.pk))
    expired, revoked, good = linked(session), linked(session), linked(session)
    one, two, _ = ShareLink.objects.order_by("pk")
    ShareLink.objects.filter(pk=one.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    ShareLink.objects.filter(pk=two.pk).update(revoked_at=timezone.now())
    changed = f"{good[:-3]}{'A' if good[-3] != 'A' else 'B'}{good[-2:]}"
    responses = [Client().get(f"{link}{rest}") for link in (expired, revoked, changed, "/s/x/")]
    assert {response.status_code for response in responses} == {404}
    assert len({html(response) for response in responses}) == 1
    assert "not valid, has expired or was revoked" in text(responses[0])


@pytest.mark.parametrize("rest", ["", "sessions/x/steps/1"])
@pytest.mark.parametrize(
    "token",
    [
        "A" * 8000,
        "=" * 64,
        "%00" * 16,
        "\u202e" * 64,
        "../" * 9 + "etc",
        "A" * 63,
        "A" * 64,
        "-_" * 32,
        "%25",
    ],
)
def test_edited_links_get_a_clear_response_immediately(db: None, token: str, rest: str) -> None:
    began = process_time()
    response = Client().get(f"/s/{token}/{rest}")
    assert process_time() - began < 1
    assert response.status_code == 404
    assert "Ask the person who sent it for a new one" in text(response)


@pytest.mark.parametrize(
    "name",
    ["settings", "shares", "overview", "context", "exports/markdown", "ledger", "continue", "annotation"],
)
def test_other_pages_of_the_session_are_not_found(alice: Client, session: Session, name: str) -> None:
    response = alice.get(f"{linked(session)}sessions/{session.pk}/{name}")
    assert response.status_code == 404
    assert 'href="/"' not in html(response)


def test_a_link_shows_no_tags_note_or_score(project: Project, session: Session) -> None:
    remarks = {"tags": ["secret tag"], "note": "secret note", "score": 0.123}
    change_session(project, session.pk, remarks)
    page = html(Client().get(f"{linked(session)}sessions/{session.pk}"))
    assert not any(word in page for word in ("secret", "0.123", "annotation"))


@pytest.mark.parametrize("rest", ["raw", "blocks/raw-{}", "blocks/raw-{}?start=5", "texts/raw-{}"])
def test_raw_entries_need_inputs(session: Session, rest: str) -> None:
    rest = rest.format(Episode.objects.filter(session=session, number=1).get().first_position)
    for with_inputs, status in ((False, 404), (True, 200)):
        page = f"{linked(session, with_inputs=with_inputs)}sessions/{session.pk}"
        assert fragment(Client(), f"{page}/steps/1/{rest}").status_code == status


QUESTION = draft(core.ModelOutput(tool_calls=(core.ToolCall(id="q", name="AskUserQuestion"),)))

WITHOUT_MARKS = re.compile("</?mark>")


def after_many(name: str) -> list[EntryDraft]:
    """An output with more calls than a row has names, and the results of all but the last one."""
    ids = [str(number) for number in range(MAX_NAMES)]
    calls = [core.ToolCall(id=id, name="bash") for id in ids]
    results = [core.ToolResult(status="success", tool_call_id=id) for id in ids]
    output = core.ModelOutput(tool_calls=(*calls, core.ToolCall(id="q", name=name)))
    return [draft(output), draft(core.ToolResults(results=tuple(results)))]


def result(status: core.ResultStatus, **fields: Any) -> EntryDraft:
    """A result with a person's words in every text that it can have."""
    error = core.ErrorDetails(message=PERSONS, exception_type="Refused", repr=f"{PERSONS} repr")
    texts = {
        "outputs": f"{PERSONS} outputs",
        "reason": f"{PERSONS} reason",
        "feedback": f"{PERSONS} feedback",
    }
    return draft(
        core.ToolResults(results=(core.ToolResult(status=status, **{**texts, **fields}, error=error),))
    )


def with_feedback(status: core.ResultStatus, feedback: str = PERSONS, outputs: Any = None) -> EntryDraft:
    return draft(
        core.ToolResults(results=(core.ToolResult(status=status, outputs=outputs, feedback=feedback),))
    )


@pytest.mark.parametrize(
    "entries",
    [
        [act("AskUserQuestion"), result("error")],
        [act("AskUserQuestion"), result("skipped")],
        [act("bash", command="ls"), result("interrupted_by_human")],
        [QUESTION, act("bash", command="ls"), ok(), result("success", tool_call_id="q")],
        [QUESTION, act("bash"), ok(), result("success", tool_call_id="q", tool_name="AskUserQuestion")],
        [*after_many("AskUserQuestion"), result("error", tool_call_id="q")],
        [act(f"mcp__{'server' * 15}__ask_user"), result("success")],
        [act("ask_user_question"), result("success")],
        [act("question"), result("success")],
        [act("ExitPlanMode"), result("success")],
        [act("bash"), with_feedback("success", outputs="fine")],
        [act("bash"), with_feedback("error")],
        [act("bash"), with_feedback("success", f"Error: {PERSONS}")],
    ],
    ids=[
        "refused", "skipped", "interrupted", "late", "late, with its tool", "after twenty calls", "long name",
        "other name", "short name", "plan", "feedback", "feedback to an error", "feedback like a failure",
    ],
)  # fmt: skip
def test_every_text_of_an_answer_is_hidden(project: Project, entries: list[EntryDraft]) -> None:
    session = create_session(project)
    append(project, session.pk, entries)
    for with_inputs in (False, True):
        page = f"{linked(session, with_inputs=with_inputs)}sessions/{session.pk}"
        paths = [page, *(f"{page}/steps/{number}" for number in range(1, session_steps(session) + 1))]
        paths.append(f"{page}/find?find={PERSONS[:-1]}")
        shown = "".join(html(fragment(Client(), path)) for path in paths)
        assert (PERSONS in WITHOUT_MARKS.sub("", shown)) == with_inputs


def session_steps(session: Session) -> int:
    session.refresh_from_db()
    return session.steps


def test_hidden_text_is_not_called_missing(project: Project) -> None:
    session = create_session(project, names={"title": PERSONS})
    append(project, session.pk, [act("ask_user"), ok(outputs=PERSONS), act("ask_user"), ok(outputs="")])
    page = text(Client().get(linked(session), follow=True))
    assert "Session with a hidden title" in page
    assert re.findall(r"ask_user (\([a-z ]+\))", page) == ["(hidden)", "(no output)"]
    assert "Untitled session" in text(Client().get(linked(create_session(project)), follow=True))


def test_a_late_result_of_a_tool_that_asks_nobody_is_shown(project: Project) -> None:
    session = create_session(project)
    late = result("success", tool_call_id="b", tool_name="bash", outputs="of a tool", feedback=None)
    append(project, session.pk, [act("bash"), ok(), late])
    page = f"{linked(session)}sessions/{session.pk}"
    assert "of a tool" in html(fragment(Client(), f"{page}/steps/1"))


def test_another_session_is_not_found_through_a_link(project: Project, session: Session) -> None:
    other = create_session(project)
    assert Client().get(f"{linked(session)}sessions/{other.pk}").status_code == 404


def test_a_member_sees_through_a_link_what_others_see(alice: Client, full: Session) -> None:
    link = linked(full)
    assert html(alice.get(f"{link}sessions/{full.pk}")) == html(Client().get(f"{link}sessions/{full.pk}"))


def test_opened_pages_are_counted_and_fragments_are_not(session: Session) -> None:
    link = linked(session)
    for _ in range(2):
        Client().get(f"{link}sessions/{session.pk}")
        fragment(Client(), f"{link}sessions/{session.pk}/steps/1")
    share = ShareLink.objects.get()
    assert share.opened == 2
    assert share.last_opened_at is not None


def test_after_a_link_other_pages_have_their_own_addresses(alice: Client, session: Session) -> None:
    alice.get(f"{linked(session)}sessions/{session.pk}")
    assert f'href="/sessions/{session.pk}' in html(alice.get(f"/sessions/{session.pk}"))

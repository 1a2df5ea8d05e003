"""A person's interruption of the model: a row of the step list, a mark of the timeline, and a jump."""

import json
import re
from io import BytesIO

import pytest
from django.test import Client

from historyapp.core import projection
from historyapp.core.entries import INTERRUPTION, DebugLog, EntryDraft, ModelInput, ToolResult, ToolResults
from historyapp.core.importers.base import Source
from historyapp.core.person_inputs import TURN_ABORTED
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.imports.files import import_file
from historyapp.services.overview import overview_of
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.core.importers.claude_lines import S, answer, assistant, says, tool_call, user
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, draft, ok

NOTE = "[Request interrupted by user]"
WORDS = "interrupted by the person"
ABORTED = draft(DebugLog(category=TURN_ABORTED, message="{}"))


def imported(project: Project) -> Session:
    lines = [
        user(1, None, "Fix it"),
        assistant(2, 1, tool_call("a", file_path="a.py")),
        answer(3, 2, "a"),
        user(4, 3, [{"type": "text", "text": NOTE}]),
        user(5, 4, "Only b.py"),
        assistant(6, 5, tool_call("b", file_path="b.py")),
        answer(7, 6, "b"),
        assistant(8, 7, says("Done.")),
        user(9, 8, [{"type": "text", "text": NOTE}]),
    ]
    for number, line in enumerate(lines):
        line["timestamp"] = f"2026-01-19T03:24:{number:02}Z"
    import_file(project, Source(f"{S}.jsonl", BytesIO("\n".join(map(json.dumps, lines)).encode())))
    session = Session.objects.get()
    assert rebuild(session, check_only=True).differences == []
    return session


def recorded(project: Project, *drafts: EntryDraft) -> Session:
    session = create_session(project)
    append(project, session.pk, drafts)
    session.refresh_from_db()
    assert rebuild(session, check_only=True).differences == []
    return session


def rows(alice: Client, session: Session) -> list[str]:
    """The numbers of the steps, and a word for each row of an interruption."""
    page = html(alice.get(f"/sessions/{session.pk}?step=1")).partition('id="rows"')[2]
    found = re.findall(r'class="interruption-row"|data-step="(\d+)"', page)
    return [number or "interrupted" for number in found]


def marks(alice: Client, session: Session) -> list[str]:
    page = html(alice.get(f"/sessions/{session.pk}?step=1"))
    return re.findall(r'class="mark mark-interruption"[^>]*>\s*<title>([^<]*)<', page)


def test_an_imported_interruption_has_a_row_and_a_mark_after_its_step(
    alice: Client, project: Project
) -> None:
    session = imported(project)
    assert rows(alice, session) == ["1", "interrupted", "2", "3", "interrupted"]
    assert marks(alice, session) == [f"Interrupted by the person after step {step}" for step in (1, 3)]
    page = html(alice.get(f"/sessions/{session.pk}?step=1"))
    assert '<li class="mark-interruption">' in page, "the legend has it"
    assert NOTE not in page.partition('id="rows"')[2].partition("</ol>")[0], "the row says it in words"
    copy = fork(project, session.pk, at_step=2)
    assert rows(alice, copy) == ["1", "interrupted", "2"]
    rewind(project, session.pk, Target(to_step=1))
    assert rows(alice, session) == ["1"]


def test_inputs_of_interruptions_that_an_earlier_version_did_not_count_are_shown(
    alice: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(projection, "is_interruption", lambda body: False)
        session = imported(project)
    note = draft(ModelInput(content=NOTE, channel=INTERRUPTION))

    def notes() -> int:
        page = (
            html(alice.get(f"/sessions/{session.pk}?step=1")).partition('id="rows"')[2].partition("</ol>")[0]
        )
        return len(re.findall(rf"<span[^>]*>{re.escape(NOTE)}</span>", page))

    assert (rows(alice, session), notes()) == (["1", "2", "3"], 1)
    append(project, session.pk, [act(), ok(), note, act(), ok()])
    assert (rows(alice, session), notes()) == (["1", "2", "3", "4", "interrupted", "5"], 1)


def test_a_result_that_says_it_has_no_further_row(alice: Client, project: Project) -> None:
    result = ToolResult(status="interrupted_by_human", feedback="Not that.")
    refused, note = (
        draft(ToolResults(results=(result,))),
        draft(ModelInput(content=NOTE, channel=INTERRUPTION)),
    )
    session = recorded(project, ask("go"), act(), refused, note, act(), ok())
    assert rows(alice, session) == ["1", "2"]


def test_the_event_of_codex_counts_once(alice: Client, project: Project) -> None:
    session = recorded(project, ask("go"), act(), ok(), ABORTED, ABORTED, ask("on"), act(), ok())
    assert session.live_tail.totals.interruptions == 1
    assert rows(alice, session) == ["1", "interrupted", "2"]
    assert overview_of(History(session)).figures.interrupted == [1]


def test_long_sessions_have_the_marks_too(alice: Client, project: Project) -> None:
    session = long_session(project, 450)
    append(project, session.pk, [ABORTED, act(), ok(), act(), ok()])
    assert marks(alice, session) == ["1 interruption by the person, steps 451–452"]


@pytest.mark.parametrize(
    ("query", "step"),
    [("step=1&to=next-interruption", 3), ("step=3&to=previous-interruption", 1)],
)
def test_keys_lead_to_interrupted_steps(alice: Client, project: Project, query: str, step: int) -> None:
    session = imported(project)
    assert fragment(alice, f"/sessions/{session.pk}/jump?{query}").json()["step"] == step
    assert step in overview_of(History(session)).figures.interrupted, "the overview links to the same step"
    nothing = fragment(alice, f"/sessions/{session.pk}/jump?step=3&to=next-interruption").json()
    assert nothing["reason"] == "There is no later interruption by the person."
    assert WORDS in text(alice.get(f"/sessions/{session.pk}?step=1"))

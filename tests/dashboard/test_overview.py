"""The overview page of a session."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import DebugLog, EntryDraft, ModelOutput
from historyapp.models import Episode, FiguresCheckpoint, Project, Session
from historyapp.models.history import History
from historyapp.models.step_filters import StepFilter, StepSearch
from historyapp.services.append import append
from historyapp.services.figures import run_figures
from historyapp.services.overview import overview_of
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, answer, ask, draft, failed, ok

MAX_QUERIES = 15
HOSTILE = '"><script>alert(1)</script>\x1b[31m'


def address(session: Session, query: str = "") -> str:
    return f"/sessions/{session.pk}/overview{query}"


def test_the_page_shows_the_figures_of_the_run(alice: Client, session: Session) -> None:
    page = alice.get(address(session))
    words = text(page)
    for expected in ("Time", "Tokens", "Cost", "Size of the context", "Worth a look", "Tools", "Files"):
        assert expected in words
    assert "First failure: read_file not found" in words
    assert "file-1.txt" in words
    assert f'href="/sessions/{session.pk}?step=3"' in html(page)


def test_a_file_links_to_the_steps_that_name_it(alice: Client, session: Session) -> None:
    link = f"/sessions/{session.pk}?step=1&file=file-1.txt"
    assert f'href="{link.replace("&", "&amp;")}"><bdi>file-1.txt' in html(alice.get(address(session)))
    assert text(alice.get(link)).count("read_file") > 0


def test_a_file_of_many_edits_leads_to_all_of_them(alice: Client, project: Project) -> None:
    session = create_session(project)
    edits = [act("edit_file", path="a.py", old_string="x", new_string="y") for _ in range(5)]
    calls = [act("read_file", path="b.py"), *edits]
    append(project, session.pk, [each for call in calls for each in (call, ok())])
    page = alice.get(address(session))
    assert "1 edited · 2 named in tool calls or commands" in text(page)
    link = re.search(r'href="([^"]+)" aria-label="all steps">…</a>', html(page))
    assert link
    assert link[1] == f"/sessions/{session.pk}?step=2&amp;file=a.py"


def test_the_cost_is_split_by_kind_of_token(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "claude-opus-4-5"})
    usage = {"input_tokens": 1_000_000, "cache_read_input_tokens": 2_000_000, "output_tokens": 100_000}
    append(project, session.pk, [ask("go"), draft(ModelOutput(text="Done."), usage=usage)])
    words = text(alice.get(address(session)))
    assert "read from cache $1.00 written to cache $0 uncached input $5.00 output $2.50" in words
    reported = create_session(project, names={"model": "claude-opus-4-5"})
    append(project, reported.pk, [ask("go"), draft(ModelOutput(text="Done."), usage=usage, cost=4)])
    assert "read from cache $" not in text(alice.get(address(reported)))


def test_reported_costs_show_the_most_expensive_steps(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "model-without-a-price"})
    usage = {"input_tokens": 1_000_000, "output_tokens": 10}
    cheap = draft(ModelOutput(text="One."), usage=usage, cost=0.25)
    append(project, session.pk, [ask("go"), cheap, ask("on"), draft(ModelOutput(text="Two."), cost=4)])
    words = text(alice.get(address(session)))
    assert "most expensive steps: 2 answer $4.00 1 answer $0.25" in words
    assert "by the price list" not in text(alice.get(f"/sessions/{session.pk}/ledger"))


def test_expired_caches_have_their_steps_and_cost(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "claude-opus-4-5"})
    creation = {"ephemeral_5m_input_tokens": 1_000_000}
    usage = {"input_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": creation}
    facts = {"usage": usage, "usage_convention": "anthropic"}
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes) for minutes in (0, 8)]
    drafts = [EntryDraft(ModelOutput(text="Done."), moment, facts) for moment in moments]
    append(project, session.pk, [ask("go"), drafts[0], ask("on"), drafts[1]])
    words = text(alice.get(address(session)))
    assert (
        "the cache lives 5 minutes and had expired before step 2 : 1.0M tokens written again $5.75 more"
        in words
    )


def test_a_run_recorded_at_one_time_is_not_undated(alice: Client, project: Project) -> None:
    session = create_session(project)
    moment = datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
    append(project, session.pk, [each._replace(created_at=moment) for each in (ask("go"), act("ls"), ok())])
    words = text(alice.get(address(session)))
    assert "All entries were recorded at the same time, 2026-01-01 09:30:00 UTC" in words
    assert "undated" not in words


def test_a_call_that_waits_for_a_command_says_so(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [act("write_stdin", session_id=7, chars=""), ok()])
    words = text(alice.get(address(session)))
    assert "(waits for a running command) 1 1 0" in words


def test_all_commands_can_be_listed(alice: Client, project: Project) -> None:
    session = create_session(project)
    calls = [act("bash", command=f"make target-{n}") for n in range(45)]
    append(project, session.pk, [each for call in calls for each in (call, ok())])
    assert "33 more commands" in text(alice.get(address(session)))
    assert '<a class="button" href="?rows=all#commands">Load 5 more</a>' in html(alice.get(address(session)))
    words = text(alice.get(f"{address(session)}?rows=all"))
    assert "33 more commands" in words
    assert all(f"make target-{n} " in words for n in range(45))


def test_files_written_by_commands_lead_to_their_steps(alice: Client, project: Project) -> None:
    session = create_session(project)
    diff = "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1,2 +1 @@\n-a\n-b\n+c\n"
    drafts = [act("bash", command="ls"), ok(), act("bash", command="cat > a.py << X\n1\nX"), ok()]
    append(project, session.pk, [*drafts, act("bash", command="git diff"), ok(outputs=diff)])
    page = alice.get(address(session))
    assert "b.py 0 in a diff +1 −2 3 a.py 0 1 by command – 2" in text(page)
    filtered = f"/sessions/{session.pk}?step=2&file=a.py"
    assert f'href="{filtered.replace("&", "&amp;")}"><bdi>a.py' in html(page)
    assert f'href="/sessions/{session.pk}?step=3&amp;file=b.py"><bdi>b.py' in html(page)
    assert "cat &gt; a.py" in html(alice.get(filtered))
    assert "No step matches" not in text(alice.get(filtered))


def found_steps(session: Session, file: str) -> list[Episode]:
    session.refresh_from_db()
    history = History(session)
    return StepSearch(history, StepFilter(file=file), range(1, history.steps + 1)).find(25)[0]


def test_each_file_leads_to_the_step_whose_command_ran_in_its_folder(alice: Client, project: Project) -> None:
    session = create_session(project)
    commands = (("cat b.ts", "/w"), ("cat b.ts", "/other"), ("cat ../c.ts", "/w"), ("cat d.ts", "src"))
    for command, folder in commands:
        append(project, session.pk, [act("exec", cmd=command, workdir=folder), ok()])
    page = html(alice.get(address(session)))
    for step, file in ((2, "/other/b.ts"), (3, "/c.ts"), (4, "src/d.ts")):
        assert f'href="/sessions/{session.pk}?step={step}&amp;file={quote(file, safe="")}"' in page
        assert [row.number for row in found_steps(session, file)] == [step]


def test_the_link_of_a_file_that_was_only_deleted_finds_its_step(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("go"), act("shell", command="rm gone.py"), ok()])
    filtered = f"/sessions/{session.pk}?step=1&file=gone.py"
    assert f'href="{filtered.replace("&", "&amp;")}"' in html(alice.get(address(session)))
    assert "No step matches" not in text(alice.get(filtered))


def test_the_cost_tab_names_the_most_expensive_steps(alice: Client, project: Project) -> None:
    session = create_session(project, names={"model": "claude-opus-4-5"})
    usage = {"input_tokens": 90_000, "output_tokens": 10}
    call = draft(act("shell", command="make").body, model="claude-opus-4-5", usage=usage)
    append(project, session.pk, [ask("go"), call, ok(), act("shell", command="ls"), ok()])
    words = text(alice.get(f"/sessions/{session.pk}/ledger?step=1"))
    assert re.search(r"Most expensive steps .* step 1 shell make 90,000 0 \$0\.45", words)
    assert "claude-opus-4-5 1 90k 0 10 $0.45" in words, "a single model has a row, too"


def test_a_run_that_was_forked_or_rewound_did_not_end_as_its_transcript_says(
    alice: Client, project: Project
) -> None:
    session = create_session(project, names={"title": "Undone"}, metadata={"exit_status": "Submitted"})
    append(project, session.pk, [ask("go"), act("shell", command="ls"), ok(), act("submit"), ok()])
    change_session(project, session.pk, {"status": "finished"})
    assert '<a class="ending good"' in html(alice.get(address(session)))
    assert "Time submitted" in text(alice.get(address(session)))
    child = fork(project, session.pk)
    Session.objects.filter(pk=child.pk).update(metadata=session.metadata)
    change_session(project, child.pk, {"status": "finished"})
    assert "submitted" not in text(alice.get(address(child)))
    assert html(alice.get("/?parent=" + str(session.pk))).count('<td class="ended">') == 1
    assert "submitted" not in text(alice.get("/?parent=" + str(session.pk)))
    rewound = rewind(project, session.pk, Target(to_step=1))
    assert "submitted" not in text(alice.get(address(session)))
    assert "submitted" not in text(alice.get("/?status=finished&q=Undone"))
    undo_rewind(project, session.pk, rewound.position)
    assert '<a class="ending good"' in html(alice.get(address(session)))
    assert "submitted" in text(alice.get("/?status=finished&q=Undone"))


def test_the_overview_is_the_first_tab(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}"))
    tabs = page.partition('<nav class="tabs"')[2]
    assert re.findall(r'href="(.*?)"', tabs)[0] == address(session, "?step=1")
    assert 'aria-current="page">Overview</a>' in html(alice.get(address(session)))


def test_links_keep_the_position(alice: Client, session: Session) -> None:
    page = html(alice.get(address(session, "?as_of=7")))
    assert f"/sessions/{session.pk}?step=3&amp;as_of=7" in page
    assert "step=4" not in page


def test_htmx_gets_only_the_fragment(alice: Client, session: Session) -> None:
    part = fragment(alice, address(session))
    assert "<html" not in html(part)
    assert "Worth a look" in text(part)


def test_a_member_sees_the_overview_and_a_stranger_gets_404(
    bob: Client, charlie: Client, session: Session
) -> None:
    assert bob.get(address(session)).status_code == 200
    assert charlie.get(address(session)).status_code == 404


def test_the_overview_of_a_session_without_steps_is_readable(alice: Client, project: Project) -> None:
    words = text(alice.get(address(create_session(project))))
    assert "nothing recorded yet" in words
    assert "– There are no steps yet." in words
    assert "No tool was called." in words


def test_a_dated_run_that_was_rewound_completely_is_not_called_undated(
    alice: Client, session: Session
) -> None:
    rewind(session.project, session.pk, Target(to_position=0))
    words = text(alice.get(address(session)))
    assert "– A rewind cut off all steps." in words
    assert "undated" not in words
    append(session.project, session.pk, [ask("Again."), act(), ok()])
    assert "cut off all steps" not in text(alice.get(address(session)))


def test_the_time_of_a_rewound_run_is_that_of_lists_and_the_pause_is_named(
    alice: Client, project: Project
) -> None:
    start, part = datetime(2026, 1, 31, tzinfo=UTC), "5 h 0 min until it was continued after a rewind"
    session = create_session(project)
    append(project, session.pk, [each._replace(created_at=start) for each in (act(), ok(), act(), ok())])
    rewind(project, session.pk, Target(to_step=1))
    assert part not in text(alice.get(address(session)))
    later = [start + timedelta(hours=5, seconds=seconds) for seconds in (0, 10)]
    append(project, session.pk, [act()._replace(created_at=later[0]), ok()._replace(created_at=later[1])])
    assert part in text(alice.get(address(session)))
    child = fork(project, session.pk)
    session.refresh_from_db()
    assert session.duration == 10_000
    for one in (session, child):
        overview = overview_of(History(one))
        assert overview.active_time == timedelta(seconds=10)
        assert overview.total_time == timedelta(hours=5, seconds=10)
    assert part in text(alice.get(address(child)))


def test_a_fork_took_as_long_as_its_parent_until_then_and_its_own_entries_after_that(
    project: Project,
) -> None:
    """Also if the shared entries begin and end with some that no part of the time ends with."""
    note = draft(DebugLog(category="hook", message="…"))
    session, start = create_session(project), datetime(2026, 1, 31, tzinfo=UTC)
    seconds = zip([note, ask("Go."), act(), ok(), note, act()], (0, 14, 20, 25, 30, 31), strict=True)
    append(
        project, session.pk, [each._replace(created_at=start + timedelta(seconds=s)) for each, s in seconds]
    )
    child = fork(project, session.pk, at_position=5)
    session.refresh_from_db()
    totals = [overview_of(history).total_time for history in (History(session, 5), History(child))]
    assert totals == 2 * [timedelta(seconds=30)]
    later = start + timedelta(days=400)
    append(
        project,
        child.pk,
        [act()._replace(created_at=later), ok()._replace(created_at=later + timedelta(0, 3))],
    )
    child.refresh_from_db()
    assert overview_of(History(child)).total_time == timedelta(seconds=33)


def test_the_overview_of_a_single_answer_is_readable(alice: Client, project: Project) -> None:
    session = create_session(project)
    append(project, session.pk, [answer()])
    words = text(alice.get(address(session)))
    assert "ended with an answer" in words
    assert "What the model saw was not recorded." in words
    assert "No step has been recorded yet." not in words


def test_text_of_agents_is_inert(alice: Client, project: Project) -> None:
    session = create_session(project)
    usage = {"input_tokens": 10, "output_tokens": 5}
    for _ in range(3):
        drafts = [act(HOSTILE, command=HOSTILE), failed(reason=HOSTILE), act("Read", path=HOSTILE), ok()]
        append(project, session.pk, drafts)
    append(project, session.pk, [draft(ModelOutput(text="x"), model=HOSTILE, usage=usage)])
    page = html(alice.get(address(session)))
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_rewinds_and_compactions_are_in_the_chart_and_its_table(
    alice: Client, project: Project, session: Session
) -> None:
    rewind(project, session.pk, Target(to_step=2))
    append(project, session.pk, [ask("again"), act("ls"), ok()])
    page = alice.get(address(session))
    assert 'class="context-rewind"' in html(page)
    assert 'class="context-turn"' in html(page)
    assert "rewound to step 2" in text(page)


def test_a_page_takes_few_queries_for_a_run_of_any_length(alice: Client, project: Project) -> None:
    counts = []
    for steps in (60, 3000):
        session = long_session(project, steps)
        run_figures.count_run(History(session))
        assert (
            FiguresCheckpoint.objects.filter(session=session).count() == (steps - 1) // run_figures.INTERVAL
        )
        with CaptureQueriesContext(connection) as queries:
            assert alice.get(address(session)).status_code == 200
        counts.append(len(queries))
    assert max(counts) <= MAX_QUERIES


def test_the_page_loads_again_until_the_run_is_counted(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_figures, "SECONDS", 0.0)
    page = alice.get(f"{address(session)}?step=2")
    assert "The figures cover 1 of 5 steps so far." in text(page)
    assert 'hx-trigger="load delay:50ms"' in html(page)
    assert f'href="{address(session)}?step=2">Continue counting' in html(page)
    for _ in range(4):
        part = fragment(alice, address(session))
    assert "so far" not in text(part)


def test_the_page_is_small(alice: Client, project: Project) -> None:
    session = create_session(project)
    for n in range(150):
        read, ran = act(f"tool-{n}", path=f"/src/file-{n}.py"), act("bash", command=f"run {n}")
        append(project, session.pk, [read, ok(), ran, ok()])
    assert len(html(alice.get(address(session)))) < 110_000


def figures_in(page: str) -> set[str]:
    return {word for word in page.split() if word in ("3.2k", "$0.0070", "$1.25")}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"model": "gpt-5", "usage": {"input_tokens": 3200, "output_tokens": 300}}, {"3.2k", "$0.0070"}),
        (
            {"model": "gpt-5", "usage": {"input_tokens": 3200, "output_tokens": 9}, "cost": 1.25},
            {"3.2k", "$1.25"},
        ),
    ],
    ids=["priced", "reported"],
)
def test_list_header_ledger_and_overview_agree(
    alice: Client, project: Project, metadata: dict[str, Any], expected: set[str]
) -> None:
    session = create_session(project)
    append(project, session.pk, [draft(ModelOutput(text="done"), **metadata)])
    shown = {path: text(alice.get(path)) for path in ("/", f"/sessions/{session.pk}", address(session))}
    ledger = text(fragment(alice, f"/sessions/{session.pk}/ledger?step=1"))
    assert figures_in(shown["/"]) == expected
    assert figures_in(shown[f"/sessions/{session.pk}"]) == expected
    assert figures_in(shown[address(session)]) == expected
    assert f"Cost {max(expected & {'$0.0070', '$1.25'})}" in ledger
    assert "Input tokens 3,200" in ledger


def test_shares_of_time_and_tokens_link_to_steps(alice: Client, project: Project) -> None:
    session = create_session(project)
    moments = [datetime(2026, 1, 31, 9, minute, tzinfo=UTC) for minute in (0, 1, 3, 30, 31)]
    bodies = [ask("go"), act("bash", command="make"), ok(), ask("more"), answer()]
    drafts = [one._replace(created_at=at) for one, at in zip(bodies, moments, strict=True)]
    append(project, session.pk, drafts)
    page = html(alice.get(address(session)))
    assert f'href="/sessions/{session.pk}?step=2">waiting for a person</a>' in page
    assert 'href="#slowest">tools</a>' in page
    assert 'id="slowest"' in page


def test_a_tool_that_only_waited_for_a_person_has_no_time(alice: Client, project: Project) -> None:
    session = create_session(project)
    moments = [datetime(2026, 7, 21, 9, minute, tzinfo=UTC) for minute in (0, 5)]
    drafts = [act("AskUserQuestion"), ok()]
    append(project, session.pk, [EntryDraft(one.body, at) for one, at in zip(drafts, moments, strict=True)])
    page = text(alice.get(f"/sessions/{session.pk}/overview"))
    assert "waiting for a person 5 min 0 s" in page
    assert re.search(r"AskUserQuestion 1 – – ", page)

"""Pages of compression runs: figures and sentences say what was done, and failed items can be retried."""

from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.templatetags import compression
from dashboard.views import compressions
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import cancel_run, start_run
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from historyapp.services.strategy_comparisons import start_comparison
from tests.api.compressing import carry_out
from tests.dashboard.pages import fragment, html, text

EXTRACT = RunRequest("simple_extract", 1, 5, again=True)


def run_of(session: Session, run_request: RunRequest = EXTRACT) -> CompressionRun:
    return start_run(session.project, session.pk, run_request, actor="user:bob").run


def ended(session: Session, failing: tuple[int, ...] = ()) -> CompressionRun:
    run = run_of(session)
    carry_out(run.pk, failing=failing)
    return CompressionRun.objects.get(pk=run.pk)


def page_of(run: CompressionRun, query: str = "") -> str:
    return reverse("compression", args=[run.session_id, run.pk]) + query


def test_the_list_is_empty_at_first(alice: Client, session: Session) -> None:
    assert "No compressions yet" in text(alice.get("/compressions"))


def test_a_session_without_runs_names_the_fork_that_summarised_its_steps(
    alice: Client, session: Session
) -> None:
    twin = fork(session.project, session.pk, at_step=5, title="the fork")
    ended(twin)
    page = alice.get(f"/compressions?session={session.pk}")
    assert "No compressions of this session Some of its steps have summaries." in text(page)
    assert f'<a href="/compressions?session={twin.pk}"><bdi>the fork</bdi></a>.' in html(page)
    assert "succeeded" in text(alice.get(f"/compressions?session={twin.pk}"))


def test_a_run_is_listed_with_its_figures(alice: Client, session: Session) -> None:
    run = ended(session)
    page = text(alice.get("/compressions"))
    for shown in ("Simple extract", "Repair the totals", "steps 1–5", "by bob", "succeeded", "5 of 5"):
        assert shown in page
    assert f"Tokens before {run.tokens_before} After 15 Saved {run.tokens_before - 15}" in page
    assert page_of(run) in html(alice.get("/compressions"))


def test_a_run_keeps_the_date_of_its_prices(alice: Client, session: Session) -> None:
    run = ended(session)
    assert "At the prices of" not in text(alice.get(page_of(run)))
    figures = {"calls": 5, "cost": 2_100, "prices_as_of": "2024-02-29"}
    CompressionRun.objects.filter(pk=run.pk).update(**figures)
    page = text(alice.get(page_of(run)))
    assert "Cost $0.0021" in page
    assert "Prices as of 2024-02-29." in page


def test_runs_are_listed_newest_first_a_page_at_a_time(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressions, "PAGE", 2)
    first, second, third = (ended(session) for _ in range(3))
    page = html(alice.get("/compressions"))
    assert page.index(page_of(third)) < page.index(page_of(second))
    assert page_of(first) not in page
    older = f"/compressions?cursor={second.pk}"
    assert older in page
    assert page_of(first) in html(alice.get(older))
    rows = html(fragment(alice, older, target="more"))
    assert page_of(first) in rows
    assert "<html" not in rows


def test_automatic_runs_of_a_session_are_one_card_with_the_hint_once(
    alice: Client, project: Project, session: Session
) -> None:
    other = create_session(project)
    hint, runs = "Set OPENAI_API_KEY to use it.", [ended(session) for _ in range(4)]
    for run in runs[:3]:
        CompressionRun.objects.filter(pk=run.pk).update(
            automatic=True, note=hint, tokens_before=80, tokens_after=80, done=2
        )
    CompressionRun.objects.filter(pk=runs[0].pk).update(to_step=2)
    response = alice.get("/compressions")
    assert [len(fold.runs) for fold in response.context["folds"]] == [1, 3]
    page = text(response)
    assert "3 automatic runs within steps 1–5" in page
    assert "Summaries 6 Tokens before 240 After 240 Saved 0" in page
    assert "their summaries save nothing" in page
    assert page.count(hint) == 1
    assert all(page_of(run) in html(response) for run in runs)
    CompressionRun.objects.filter(pk=runs[1].pk).update(session=other)
    assert text(alice.get("/compressions")).count(hint) == 1
    CompressionRun.objects.filter(pk=runs[2].pk).update(state="failed")
    folds = alice.get("/compressions").context["folds"]
    assert [len(fold.runs) for fold in folds] == [1, 1, 1, 1], "of another session, and one that failed"


def test_an_invalid_cursor_or_session_is_refused(alice: Client, charlie: Client, session: Session) -> None:
    assert alice.get("/compressions?cursor=zzz").status_code == 422
    assert alice.get("/compressions?session=zzz").status_code == 422
    assert charlie.get(f"/compressions?session={session.pk}").status_code == 404


def test_the_list_of_one_session_has_the_header_of_the_session(
    alice: Client, project: Project, session: Session
) -> None:
    run = ended(session)
    other = create_session(project, names={"title": "Another"})
    assert page_of(run) in html(alice.get(f"/compressions?session={session.pk}"))
    page = html(alice.get(f"/compressions?session={other.pk}"))
    assert page_of(run) not in page
    assert '<h1 dir="auto" title="Another">Another</h1>' in page


def test_a_stranger_sees_no_run(charlie: Client, session: Session) -> None:
    run = ended(session)
    assert "No compressions yet" in text(charlie.get("/compressions"))
    assert str(run.pk) not in html(fragment(charlie, f"/compressions/progress?run={run.pk}"))


def test_a_long_list_issues_the_queries_of_a_short_one(alice: Client, session: Session) -> None:
    counts = []
    for _ in range(2):
        ended(session)
        with CaptureQueriesContext(connection) as captured:
            alice.get("/compressions")
        counts.append(len(captured))
        ended(session)
    assert counts[0] == counts[1]


def test_the_page_polls_for_progress_only_while_a_run_is_in_progress(alice: Client, session: Session) -> None:
    run = run_of(session)
    watching = f"/compressions/progress?run={run.pk}"
    for address in ("/compressions", page_of(run)):
        page = html(alice.get(address))
        assert watching in page
        assert '<noscript><meta http-equiv="refresh"' in page
    carry_out(run.pk)
    for address in ("/compressions", page_of(run)):
        page = html(alice.get(address))
        assert watching not in page
        assert "http-equiv" not in page


def test_the_progress_is_updated_until_the_run_ends(alice: Client, session: Session) -> None:
    run = run_of(session)
    progress_address = f"/compressions/progress?run={run.pk}&run={uuid4()}&run=zzz"
    assert "selecting steps" in text(fragment(alice, progress_address))
    carry_out(run.pk, limit=2)
    moving = fragment(alice, progress_address)
    assert 'max="5" value="2"' in html(moving)
    assert "HX-Trigger" not in moving
    assert "Cancel" not in html(moving)
    carry_out(run.pk)
    last = fragment(alice, progress_address)
    assert "succeeded" in text(last)
    assert last["HX-Trigger"] == '{"run-ended": {}}'
    assert "hx-trigger" not in html(last)
    assert len(last.content) < 4_000
    assert alice.get(progress_address)["Location"] == "/compressions"


def test_errors_are_shown_for_each_step_and_retried(alice: Client, session: Session) -> None:
    run = ended(session, failing=(2, 4))
    page = text(alice.get(page_of(run)))
    assert "partly failed" in page
    assert "2 of 5 failed. Retry them." in page
    assert page.count("The model refused: no.") == 3
    assert "Retry 2 failed" in page
    failed = html(alice.get(page_of(run, "?only=failed")))
    assert failed.count("state-failed") == 2
    assert "state-done" not in failed
    response = alice.post(reverse("retry-compression", args=[session.pk, run.pk]))
    assert response["Location"] == page_of(run)
    carry_out(run.pk)
    page = text(alice.get(page_of(run)))
    assert "succeeded" in page
    assert "The model refused" not in page


def test_the_page_of_a_failed_run_says_what_to_do(alice: Client, session: Session) -> None:
    run = ended(session, failing=(1, 2, 3, 4, 5))
    page = text(alice.get(page_of(run)))
    assert "Nothing could be summarised: The model refused: no. Fix this, then retry, or" in page


def test_a_run_is_cancelled_once_and_can_be_resumed(alice: Client, session: Session) -> None:
    run = run_of(session)
    carry_out(run.pk, limit=2)
    address = reverse("cancel-compression", args=[session.pk, run.pk])
    assert address in html(alice.get(page_of(run)))
    assert alice.post(address)["Location"] == page_of(run)
    page = text(alice.get(page_of(run)))
    assert "Cancelled with 2 of 5 summaries made. They are kept." in page
    assert "Resume" in page
    again = alice.post(address)
    assert again.status_code == 409
    assert "The compression has already ended: it was cancelled." in text(again)
    alice.post(reverse("retry-compression", args=[session.pk, run.pk]))
    carry_out(run.pk)
    assert "5 of 5" in text(alice.get(page_of(run)))


def test_a_run_without_failures_is_not_retried(alice: Client, session: Session) -> None:
    response = alice.post(reverse("retry-compression", args=[session.pk, ended(session).pk]))
    assert response.status_code == 409


def test_summaries_of_a_run_are_listed_in_pages(
    alice: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressions, "ITEMS", 2)
    run = ended(session)
    first = html(alice.get(page_of(run)))
    assert first.count("step=1&amp;shown=summary") == 1
    assert "step=3&amp;" not in first
    assert "?after=2" in first
    assert "step=3&amp;shown=summary" in html(alice.get(page_of(run, "?after=2")))
    assert html(fragment(alice, page_of(run))).count("<tr>") == 3
    assert alice.get(page_of(run, "?only=nonsense")).status_code == 422


def test_a_run_without_work_says_so(alice: Client, project: Project) -> None:
    empty = create_session(project)
    run = start_run(project, empty.pk, RunRequest("simple_extract")).run
    page = text(alice.get(page_of(run)))
    assert "no steps" in page
    assert "There is nothing to compress: the session has no steps yet." in page


def test_a_run_of_another_session_is_not_found(alice: Client, project: Project, session: Session) -> None:
    run, other = ended(session), create_session(project)
    for name in ("compression", "cancel-compression", "retry-compression"):
        address = reverse(name, args=[other.pk, run.pk])
        response = alice.get(address) if name == "compression" else alice.post(address)
        assert response.status_code == 404


def test_text_of_a_run_is_inert(alice: Client, session: Session) -> None:
    attack = "<script>alert(1)</script>\u202e"
    run = ended(session, failing=(1,))
    CompressionRun.objects.filter(pk=run.pk).update(note=attack, model=attack, strategy=attack, actor=attack)
    CompressionItem.objects.filter(run=run, number=1).update(error=attack)
    for address in ("/compressions", page_of(run)):
        page = html(alice.get(address))
        assert "<script>alert" not in page
        assert "\u202e" not in page


def test_every_state_has_an_icon_and_a_label() -> None:
    for state in {*CompressionRun.State.values, *CompressionItem.State.values}:
        assert compression.STATES[state][1] in compression.state(state)


def test_a_comparison_is_listed_as_one(alice: Client, session: Session) -> None:
    runs = start_comparison(session.project, session.pk, [EXTRACT, EXTRACT])
    page = html(alice.get("/compressions"))
    assert reverse("comparison", args=[session.pk, runs[0].comparison]) in page
    cancel_run(runs[0])
    assert "comparison" in text(alice.get("/compressions"))

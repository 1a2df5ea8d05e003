"""Comparing two strategies on the same steps: contexts use neither until a person chooses one."""

import re

from django.test import Client
from django.urls import reverse

from historyapp.models import CompressionItem, CompressionRun, Project, Session, Summary
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.sessions import create_session
from historyapp.services.strategy_comparisons import start_comparison
from tests.api.compressing import carry_out
from tests.dashboard.long_sessions import long_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ok

REQUESTS = [RunRequest("simple_extract", 1, 4, options={"max_tokens": 50}), RunRequest("structured", 1, 4)]


def compared(session: Session) -> list[CompressionRun]:
    runs = start_comparison(session.project, session.pk, REQUESTS)
    for run in runs:
        carry_out(run.pk)
    return list(CompressionRun.objects.filter(comparison=runs[0].comparison).order_by("pk"))


def page_of(runs: list[CompressionRun]) -> str:
    return reverse("comparison", args=[runs[0].session_id, runs[0].comparison])


def test_the_form_shows_the_cost_of_both_sides(alice: Client, session: Session) -> None:
    page = alice.get(reverse("compare", args=[session.pk]) + "?from_step=1&to_step=4&a-strategy=structured")
    assert text(page).count("Steps 1–4") == 2
    assert 'name="b-simple_extract.max_tokens"' in html(page)


def test_sending_the_form_starts_both_sides(alice: Client, session: Session) -> None:
    fields = {
        "from_step": "1",
        "to_step": "4",
        "a-strategy": "simple_extract",
        "a-simple_extract.max_tokens": "50",
        "b-strategy": "structured",
    }
    response = alice.post(reverse("compare", args=[session.pk]), fields)
    runs = list(CompressionRun.objects.order_by("pk"))
    assert response["Location"] == page_of(runs)
    assert [(run.strategy, run.options, run.trial) for run in runs] == [
        ("simple_extract", {"max_tokens": 50}, True),
        ("structured", {}, True),
    ]


def test_more_steps_than_can_be_compared_are_refused(alice: Client, session: Session) -> None:
    long = long_session(session.project, 510)
    fields = {"from_step": "1", "to_step": "510", "a-strategy": "structured", "b-strategy": "structured"}
    response = alice.post(reverse("compare", args=[long.pk]), fields)
    assert response.status_code == 422
    assert "A comparison takes at most 500 steps; this one has 510." in text(response)
    assert not CompressionRun.objects.exists()


def test_the_form_begins_with_a_few_steps(alice: Client, session: Session) -> None:
    long = long_session(session.project, 60)
    assert text(alice.get(reverse("compare", args=[long.pk]))).count("Steps 49–56") == 2


def test_both_sides_are_shown_with_their_summaries(alice: Client, session: Session) -> None:
    runs = compared(session)
    page = text(alice.get(page_of(runs)))
    assert "Simple extract" in page
    assert "Table of steps" in page
    assert "did step 3" in page
    assert page.count("Use this strategy") == 2
    assert not Summary.objects.exists()
    sides = html(fragment(alice, page_of(runs)))
    assert sides.count('<section class="side">') == 2
    assert "<html" not in sides


def test_strategies_are_scored_by_the_names_that_later_steps_needed(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "a run"})
    reads = [("ls", "see src/app.py and src/old.py"), ("src/app.py", "fine"), ("src/app.py", "fine")]
    for path, outputs in reads:
        append(project, session.pk, [act("read", path=path), ok(outputs=outputs)])
    requests = [RunRequest(name, 1, 1) for name in ("simple_extract", "structured")]
    runs = start_comparison(project, session.pk, requests)
    for run, written in zip(runs, ("It is in src/app.py.", "A listing."), strict=True):
        carry_out(run.pk)
        CompressionItem.objects.filter(run=run).update(text=written)
    page = text(alice.get(page_of(runs)))
    assert "The next 2 steps used 1 name from the original results." in page
    assert "A keeps 1 (100 %)" in page
    assert "B keeps 0 (0 %)" in page
    assert "Originals" in page
    assert "keeps 1 of 2 names, 1 of 1 needed" in page
    assert "src/app.py 1 2 kept lost" in page
    assert "Lost: src/app.py needed at step 2" in page
    marked = '<mark class="needed kept">src/app.py<b> A</b></mark>'
    assert html(alice.get(page_of(runs))).count(marked) == 2  # in the original and in the summary of A


def test_a_name_that_both_lose_is_marked_in_the_original(alice: Client, project: Project) -> None:
    session = create_session(project, names={"title": "a run"})
    rest = "long line\n" * 300
    for path, outputs in (("ls", f"{rest}see src/app.py"), ("src/app.py", "fine")):
        append(project, session.pk, [act("read", path=path), ok(outputs=outputs)])
    runs = start_comparison(project, session.pk, [RunRequest(name, 1, 1) for name in ("structured",) * 2])
    for run in runs:
        carry_out(run.pk)
        CompressionItem.objects.filter(run=run).update(text="A listing.")
    assert 'see <mark class="needed lost">src/app.py<b> lost</b></mark> …' in html(alice.get(page_of(runs)))


def test_rows_are_paginated(alice: Client, session: Session) -> None:
    long = long_session(session.project, 30)
    runs = start_comparison(long.project, long.pk, [RunRequest("simple_extract", 1, 30)] * 2)
    for run in runs:
        carry_out(run.pk)
    first = html(alice.get(page_of(runs)))
    assert first.count('<li class="strategy-row"') == 20
    further = html(fragment(alice, f"{page_of(runs)}?row=21"))
    assert (further.count('<li class="strategy-row"'), "Use this strategy" in further) == (10, False)
    assert "Further rows" in first
    assert "Further rows" not in further
    assert "First rows" in html(alice.get(f"{page_of(runs)}?row=21"))


def test_the_page_polls_while_a_side_is_in_progress(alice: Client, session: Session) -> None:
    runs = start_comparison(session.project, session.pk, REQUESTS)
    carry_out(runs[0].pk)
    page = html(alice.get(page_of(runs)))
    assert f"/compressions/progress?run={runs[1].pk}" in page
    assert page.count("Use this strategy") == 1


def test_one_button_uses_a_side(alice: Client, session: Session) -> None:
    runs = compared(session)
    page = html(alice.get(page_of(runs)))
    one = page[page.index('method="post" action="' + reverse("compress", args=[session.pk])) :]
    fields = dict(re.findall(r'type="hidden" name="([\w.]+)" value="([^"]*)"', one[: one.index("</form>")]))
    response = alice.post(reverse("compress", args=[session.pk]), fields)
    run = CompressionRun.objects.get(trial=False)
    assert response["Location"] == reverse("compression", args=[session.pk, run.pk])
    assert (run.strategy, run.options, run.again) == ("simple_extract", {"max_tokens": 50}, True)
    assert (run.from_step, run.to_step) == (1, 4)


def test_a_side_that_called_a_providers_model_is_used_after_its_estimate(
    alice: Client, session: Session
) -> None:
    runs = compared(session)
    CompressionRun.objects.filter(pk=runs[0].pk).update(calls=1)
    page, address = html(alice.get(page_of(runs))), reverse("compress", args=[session.pk])
    methods = re.findall(rf'<form method="(\w+)" action="{address}">(<input[^>]*csrf)?', page)
    assert [(method, bool(token)) for method, token in methods] == [("get", False), ("post", True)]


def test_text_of_a_model_is_inert_and_cut_if_it_is_very_long(alice: Client, session: Session) -> None:
    runs = compared(session)
    CompressionItem.objects.filter(run=runs[0]).update(text="<script>alert(1)</script>" + "x" * 100_000)
    response = alice.get(page_of(runs))
    assert "<script>alert" not in html(response)
    assert "Showing the first 8,000 of 100,025 characters." in text(response)
    assert len(response.content) < 60_000


def test_a_comparison_of_another_session_is_not_found(alice: Client, session: Session) -> None:
    runs, other = compared(session), long_session(session.project, 5)
    assert alice.get(reverse("comparison", args=[other.pk, runs[0].comparison])).status_code == 404

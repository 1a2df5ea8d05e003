"""Two runs side by side: where they diverge, and how a person reaches the page."""

import re
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.run_comparison import PAGE
from historyapp.models import Episode, Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text
from tests.services.drafts import act, ask, ok


def page_of(a: object, b: object, more: str = "") -> str:
    return f"{reverse('compare-runs')}?a={a}&b={b}{more}"


def recorded_run(project: Project, *names: str) -> Session:
    session = create_session(project, names={"title": "another run"})
    append(project, session.pk, [draft for name in names for draft in (act(name), ok())])
    session.refresh_from_db()
    return session


def forked(project: Project, session: Session) -> Session:
    """A fork after the second of five steps. Its fourth step differs."""
    other = fork(project, session.pk, at_step=2)
    append(
        project, other.pk, [act("read_file", path="file-3.txt"), ok(outputs="found"), act("write_file"), ok()]
    )
    return other


def test_a_comparison_of_fork_and_parent_names_the_step_where_they_diverge(
    alice: Client, project: Project, session: Session
) -> None:
    response = alice.get(page_of(session.pk, forked(project, session).pk))
    different = html(response).partition("only A · only B")[2].partition("</li>")[0]
    assert "pair-delta" not in different, "these steps have nothing to do with each other"
    page = text(response)
    assert "Both runs share steps 1–2." in page
    assert "The first difference is at step 3 of both (the same call with another input or result)." in page
    assert "They diverge at step 4 of both." in page
    assert "result, status" in page
    assert "write_file" in page.partition("only A · only B")[2]
    assert [step in page for step in ("read_file · file-4.txt", "read_file · file-5.txt")] == [True, True]
    assert "read_file · file-3.txt" not in page, "the icon suffices for two calls of one tool"
    assert page.count("only A") == 2, "with the last step of A"
    assert "2 only in A · 1 only in B" in page
    assert "A · parent B · fork" in page
    assert "After the common part: 0 equal" in page


def test_the_input_that_makes_the_difference_is_shown(
    alice: Client, project: Project, session: Session
) -> None:
    other = fork(project, session.pk, at_step=2)
    append(project, other.pk, [ask("Do it differently."), act("write_file", path="b"), ok()])
    assert "Do it differently." in text(alice.get(page_of(session.pk, other.pk)))
    runs = [fork(project, session.pk, at_step=2) for _ in "ab"]
    for run, name in zip(runs, ("ls", "write_file"), strict=True):
        append(project, run.pk, [ask("The same input."), act(name), ok()])
    assert "The same input." not in text(alice.get(page_of(runs[0].pk, runs[1].pk)))


def test_totals_are_shown_for_the_runs_and_for_the_part_after_the_shared_steps(
    alice: Client, project: Project, session: Session
) -> None:
    page = text(alice.get(page_of(session.pk, forked(project, session).pk)))
    assert page.count("after the common part") == 2
    assert "Steps Errors Likely failures Tokens in Cost Time" in page


def test_runs_of_equal_steps_are_folded(alice: Client, project: Project) -> None:
    names = [f"tool_{number}" for number in range(8)]
    a, b = recorded_run(project, *names, "end"), recorded_run(project, *names, "other")
    page = html(alice.get(page_of(a.pk, b.pk)))
    assert "8 equal pairs" in page
    assert page.index("8 equal pairs") < page.index('id="divergence"')


def test_a_long_comparison_begins_shortly_before_the_difference(alice: Client, project: Project) -> None:
    a, b = recorded_run(project, *["ls"] * PAGE, "end"), recorded_run(project, *["ls"] * PAGE, "other")
    address = page_of(a.pk, b.pk)
    page = alice.get(address)
    assert f"{PAGE - 3} earlier pairs, all equal" in text(page)
    assert 'id="divergence"' in html(page)
    first = alice.get(f"{address}&at=start")
    assert 'id="divergence"' not in html(first)
    assert f"at={PAGE + 1}-{PAGE + 1}#divergence" in html(first)
    further = fragment(alice, f"{address}&at={PAGE + 1}-{PAGE + 1}")
    assert "<html" not in html(further)
    assert 'id="divergence"' in html(further)


def test_equal_runs_are_reported_as_equal(alice: Client, project: Project) -> None:
    assert "No step differs." in text(
        alice.get(page_of(recorded_run(project, "a").pk, recorded_run(project, "a").pk))
    )


def test_the_form_suggests_sessions_to_compare_with(
    alice: Client, project: Project, session: Session
) -> None:
    other = forked(project, session)
    position = rewind(project, session.pk, Target(to_step=4)).position
    newer = recorded_run(project, "a")
    page = html(alice.get(f"{reverse('compare-runs')}?a={session.pk}"))
    for kind in ("Take: ", "Fork: "):
        assert kind in page
    assert f"takes%2F{position}&amp;b={session.pk}" in page, "the take came first"
    for later in (other, newer):
        assert page_of(session.pk, later.pk).replace("&", "&amp;") in page, "run A stays run A"
    page = html(alice.get(f"{reverse('compare-runs')}?a={other.pk}"))
    assert "Parent: " in page
    assert page_of(session.pk, other.pk).replace("&", "&amp;") in page


def test_without_a_run_both_are_chosen_by_title(alice: Client, project: Project, session: Session) -> None:
    other, page = recorded_run(project, "look"), reverse("compare-runs")
    first = html(alice.get(page))
    assert first.index("Choose the first run") < first.index(f'href="{page}?a={other.pk}"')
    assert f'href="{page}?a={session.pk}"' in first
    assert first.index("another run") < first.index("Enter IDs instead")
    found = html(alice.get(f"{page}?words=Another"))
    assert f"?a={other.pk}" in found
    assert f"?a={session.pk}" not in found
    second = html(alice.get(f"{page}?a={session.pk}&words=another"))
    assert page_of(session.pk, other.pk).replace("&", "&amp;") in second
    assert "No session has these words." in text(alice.get(f"{page}?a={other.pk}&words=another"))


def test_the_head_leads_to_both_comparisons(alice: Client, session: Session) -> None:
    head = text(alice.get(reverse("session", args=[session.pk])))
    menu = head[head.index("Compare With another run…") :]
    assert "Two compression strategies…" in menu[: menu.index("Share…")]
    palette = text(alice.get(f"{reverse('palette')}?q=compare&session={session.pk}"))
    assert "Compare with another run…" in palette
    assert "Compare two compression strategies…" in palette


def test_an_impossible_comparison_is_explained_above_the_form(alice: Client, session: Session) -> None:
    same = alice.get(page_of(session.pk, session.pk))
    assert (same.status_code, "`a` and `b` are the same run" in text(same)) == (422, True)
    assert "Use the id of a session" in text(alice.get(page_of("x", session.pk)))
    assert alice.get(page_of(uuid4(), session.pk)).status_code == 404
    assert alice.get(page_of(f"{session.pk}/takes/3", session.pk)).status_code == 404


@pytest.mark.parametrize("at", ["99-99", "0-1"])
def test_a_pair_that_does_not_exist_is_refused(
    alice: Client, project: Project, session: Session, at: str
) -> None:
    other = recorded_run(project, "a")
    assert alice.get(page_of(session.pk, other.pk, f"&at={at}")).status_code == 422


@pytest.mark.parametrize("at", ["x", "1"])
def test_an_unreadable_pair_is_ignored(alice: Client, project: Project, session: Session, at: str) -> None:
    other = recorded_run(project, "a")
    page = alice.get(page_of(session.pk, other.pk, f"&at={at}"))
    assert page.status_code == 200
    assert 'id="divergence"' in html(page)


def test_a_stranger_sees_no_comparison(charlie: Client, project: Project, session: Session) -> None:
    other = recorded_run(project, "a")
    assert charlie.get(page_of(session.pk, other.pk)).status_code == 404
    assert charlie.get(f"{reverse('compare-runs')}?a={session.pk}").status_code == 404


def test_text_of_agents_is_inert(alice: Client, project: Project, session: Session) -> None:
    other = recorded_run(project, "<script>alert(1)</script>")
    assert "<script>alert" not in html(alice.get(page_of(session.pk, other.pk)))


def test_several_pages_link_to_the_comparison(alice: Client, project: Project, session: Session) -> None:
    other = forked(project, session)
    assert page_of(session.pk, other.pk).replace("&", "&amp;") in html(
        alice.get(reverse("session", args=[other.pk]))
    )
    head = html(alice.get(reverse("session", args=[session.pk])))
    assert page_of(session.pk, other.pk).replace("&", "&amp;") in head, "the menu of its forks"
    position = rewind(project, session.pk, Target(to_step=2)).position
    page = html(alice.get(reverse("session", args=[session.pk])))
    assert page.count(f"{session.pk}/takes/{position}&amp;b={session.pk}") == 2, "the take and the notice"
    palette = alice.get(f"{reverse('palette')}?q=compare&session={other.pk}")
    assert "Compare with the parent" in text(palette)


def test_an_earlier_position_of_a_session_is_compared_with_the_session(
    alice: Client, session: Session
) -> None:
    form = html(alice.get(f"{reverse('compare-runs')}?a={session.pk}&step=2"))
    assert 'name="after_step" type="number" inputmode="numeric" min="1" max="4" value="2"' in form
    response = alice.get(f"{reverse('compare-runs')}?a={session.pk}&after_step=2")
    page = text(alice.get(response["Location"]))
    assert "Both runs share steps 1–2." in page
    assert "A ends after step 2; B continues with step 3." in page
    refused = alice.get(f"{reverse('compare-runs')}?a={session.pk}&after_step=5")
    assert refused.status_code == 422
    assert "Choose a step from 1 to 4." in text(refused)


def test_pairs_show_how_much_more_b_took(alice: Client, project: Project) -> None:
    a, b = recorded_run(project, "look"), create_session(project)
    append(project, b.pk, [act("look"), ok(outputs="word " * 90)])
    page = text(alice.get(page_of(a.pk, b.pk)))
    rows = Episode.objects.filter(session__in=(a, b)).values_list("session_id", "tokens")
    tokens = dict(rows)
    assert f"result +{tokens[b.pk] - tokens[a.pk]} tokens" in page


def test_contexts_are_compared_where_the_runs_diverge(
    alice: Client, project: Project, session: Session
) -> None:
    other = forked(project, session)
    address = f"{reverse('compare-contexts')}?a={session.pk}&b={other.pk}&at=4-4"
    assert address.replace("&", "&amp;") in html(alice.get(page_of(session.pk, other.pk)))
    shown = text(fragment(alice, address))
    assert "before step 4 of A and step 4 of B" in shown
    assert "not found" in shown, "the result of step 3 in A"
    assert "step 3" in shown
    same = text(fragment(alice, address.replace("at=4-4", "at=3-3")))
    assert "Both contexts are the same, byte for byte." in same
    assert alice.get(address)["Location"] == page_of(session.pk, other.pk, "&at=4-4")


def test_a_stranger_sees_no_contexts(charlie: Client, project: Project, session: Session) -> None:
    address = f"{reverse('compare-contexts')}?a={session.pk}&b={recorded_run(project, 'a').pk}&at=1-1"
    assert fragment(charlie, address).status_code == 404


def test_likely_failures_are_counted_and_marked_in_both_parts(alice: Client, project: Project) -> None:
    session = create_session(project)
    failing = [act("bash", command="go test"), ok(outputs="--- FAIL: TestHooks (0.01s)\nFAIL\nexit status 1")]
    append(project, session.pk, [*failing, act("look"), ok(), *failing])
    other = fork(project, session.pk, at_step=1)
    append(project, other.pk, [act("look"), ok()])
    page = alice.get(page_of(session.pk, other.pk))
    figures = [int(number) for number in re.findall(r'data-label="likely failures">(\d+)', html(page))]
    assert figures == [2, 1, 1, 0]
    assert html(page).count('class="outcome outcome-likely_failed"') == 1


def test_estimated_tokens_are_marked(alice: Client, project: Project, session: Session) -> None:
    page = text(alice.get(page_of(session.pk, forked(project, session).pk)))
    assert page.count("estimated") == 4


def test_an_unknown_cost_says_why(alice: Client, project: Project, session: Session) -> None:
    priceless = create_session(project, names={"title": "priceless"})
    usage = {"model": "no-such-model", "usage": {"input_tokens": 10, "output_tokens": 1}}
    append(project, priceless.pk, [act()._replace(metadata=usage), ok()])
    page = html(alice.get(page_of(priceless.pk, session.pk)))
    assert re.search(r'title="Unknown: the price list of [^"]* none of the models\.">\s*unknown</td>', page)

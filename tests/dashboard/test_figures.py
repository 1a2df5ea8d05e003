"""The page of a project's figures: a span of days, running sessions, and recent failures."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from dashboard.figures.project import FiguresPage, change_text, cost_trend, read_span
from dashboard.figures.tables import FiguresTable, figures_cells, names_table
from historyapp.core.day_figures import NO_FIGURES
from historyapp.core.entries import ModelOutput
from historyapp.models import Episode, Project, Session
from historyapp.services.append import append
from historyapp.services.figures.feed import follow_changes
from historyapp.services.figures.group_figures import GroupFigures, GroupOrder
from historyapp.services.figures.project_figures import Grouping, NamedGroups, grouped, grouped_by_names
from historyapp.services.rewinds import Target, rewind
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html, text
from tests.services.drafts import act, draft, failed


@pytest.fixture
def counted(session: Session, settled: None) -> Session:
    follow_changes(lambda: False)
    return session


def test_the_page_shows_the_span_by_day_agent_model_and_tool(alice: Client, counted: Session) -> None:
    page = text(alice.get("/figures?days=7"))
    for shown in (
        "By agent",
        "demo",
        "By model",
        "gpt-5",
        "By tool",
        "read_file",
        "none in the previous 7 days",
    ):
        assert shown in page
    assert timezone.now().date().isoformat() in page
    assert 'class="figures-bar"' in html(alice.get("/figures"))


def test_a_name_filters_the_page_and_the_filter_can_be_removed(alice: Client, counted: Session) -> None:
    page = html(alice.get("/figures?agent=nobody"))
    assert "Nothing was recorded on these days." in page
    assert "Remove the filter" in page
    assert "tool=read_file" in html(alice.get("/figures"))


def test_lists_that_the_filter_does_not_reach_say_so(alice: Client, counted: Session) -> None:
    assert "Of all models" not in text(alice.get("/figures?agent=demo"))
    filtered = text(alice.get("/figures?model=gpt-5&tool=read_file"))
    assert filtered.count("not filtered by model and tool.") == 2


def test_live_sessions_and_failures_are_those_of_the_chosen_agent(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash"), failed(reason="a late fault")])
    for query, is_listed in (("", True), ("?agent=demo", True), ("?agent=nobody", False)):
        page = text(alice.get(f"/figures{query}"))
        assert ("a late fault" in page) is is_listed
        assert ("last entry" in page) is is_listed
    page = unescape(html(alice.get("/figures?agent=demo")))
    assert 'href="/?status=live&agent=demo"' in page


def test_the_list_of_failed_sessions_has_the_days_and_the_agent_of_the_page(
    alice: Client, counted: Session
) -> None:
    page = unescape(html(alice.get("/figures?from=2026-01-01&to=2026-01-06&agent=demo&model=gpt-5")))
    for end in ("errors=with", "failures=with", "sort=-money"):
        assert f'href="/?from=2026-01-01&to=2026-01-06&agent=demo&{end}"' in page


def test_the_tables_say_when_they_were_counted_if_more_may_come(alice: Client, counted: Session) -> None:
    assert "The tables are as of" in text(alice.get("/figures"))
    assert "The tables are as of" not in text(alice.get("/figures?from=2020-01-01&to=2020-01-02"))


def test_a_model_has_no_number_of_sessions_because_a_session_may_use_several(counted: Session) -> None:
    """A session counts for one of them, so a model that most of its steps used had 0 sessions."""

    def with_sessions(query: str) -> list[str]:
        page = FiguresPage(counted.project_id, read_span(QueryDict(query)))
        heads = {table.name: [head.title for head in table.heads] for table in page.tables}
        heads |= {"day": page.day_heads, "trends": [trend.name.capitalize() for trend in page.trends]}
        return [name for name, titles in heads.items() if "Sessions" in titles]

    assert with_sessions("agent=demo") == ["agent", "day", "trends"]
    assert with_sessions("model=gpt-5") == with_sessions("tool=read_file") == []


def test_a_span_without_records_says_so(alice: Client, counted: Session) -> None:
    assert "Nothing was recorded on these days." in text(alice.get("/figures?from=2020-01-01&to=2020-01-02"))


def test_a_long_span_has_a_bar_for_several_days(alice: Client, counted: Session) -> None:
    first = timezone.now().date() - timedelta(days=3000)
    assert "days after it: 5 steps" in html(alice.get(f"/figures?from={first}"))


def test_a_running_session_is_shown_with_its_step_in_flight(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash", command="make test")])
    now = text(alice.get("/figures"))
    assert "step 6 is running" in now
    assert "make test" in now
    Session.objects.update(last_entry_at=timezone.now() - timedelta(hours=1))
    assert "step 6 is running" in text(alice.get("/figures"))
    Session.objects.update(last_entry_at=timezone.now() - timedelta(hours=25))
    assert "Nothing has been recorded in the last 15 minutes, and no tool call" in text(alice.get("/figures"))


def test_a_failing_step_is_shown_with_its_line_unless_it_was_rewound(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash"), failed(reason="a late fault")])
    page = html(alice.get("/figures"))
    assert "a late fault" in page
    assert f"/sessions/{counted.pk}?step=6" in page
    rewind(counted.project, counted.pk, Target(to_step=5))
    assert "a late fault" not in text(alice.get("/figures"))


def test_a_run_is_listed_once_with_its_newest_failure_on_these_days(alice: Client, counted: Session) -> None:
    append(
        counted.project,
        counted.pk,
        [act("bash"), failed(reason="a fault"), act("bash"), failed(reason="a later fault")],
    )
    page = text(alice.get("/figures"))
    assert "a later fault" in page
    assert "a fault" not in page
    assert "3 errors in the run" in page
    assert "later fault" not in text(alice.get("/figures?from=2020-01-01&to=2020-01-02"))


def test_a_failure_before_these_days_is_not_listed(alice: Client, counted: Session) -> None:
    append(counted.project, counted.pk, [act("bash"), failed(reason="a late fault")])
    Episode.objects.update(started_at=timezone.now() - timedelta(days=3))
    Episode.objects.filter(number=6).update(started_at=timezone.now() - timedelta(days=2))
    for days, is_listed in ((7, True), (1, False)):
        first = timezone.now().date() - timedelta(days=days)
        assert ("a late fault" in text(alice.get(f"/figures?from={first}"))) is is_listed


def test_the_cost_of_steps_that_a_rewind_cut_off_is_shown_apart(alice: Client, counted: Session) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 9}
    append(counted.project, counted.pk, [draft(ModelOutput(text="hi"), model="gpt-5", usage=usage, cost=0.5)])
    follow_changes(lambda: False)
    assert "cut off" not in text(alice.get("/figures"))
    rewind(counted.project, counted.pk, Target(to_step=5))
    follow_changes(lambda: False)
    shown = text(alice.get("/figures"))
    assert "rewinds cut off are not counted: 1 step with 1,000,009 tokens, cost $0.50." in shown


def test_htmx_gets_all_but_the_tables(alice: Client, counted: Session) -> None:
    part = html(alice.get("/figures", headers={"HX-Request": "true"}))
    assert "Live now" in part
    assert "the same as in the previous 30 days" in part
    assert "<main" not in part
    assert "<table" not in part


def test_totals_include_new_entries_once_they_are_counted(alice: Client, counted: Session) -> None:
    live = {"HX-Request": "true"}
    assert "5 none in the previous 30 days" in text(alice.get("/figures", headers=live))
    append(counted.project, counted.pk, [act("bash"), failed(reason="a late fault")])
    waiting = html(alice.get("/figures", headers=live))
    assert "still being counted" in waiting
    assert 'hx-trigger="load delay:2s"' in waiting
    follow_changes(lambda: False)
    shown = alice.get("/figures", headers=live)
    assert "steps 6 none in the previous 30 days" in text(shown)
    assert "still being counted" not in html(shown)


def test_each_figure_has_a_chart(alice: Client, counted: Session) -> None:
    shown = FiguresPage(counted.project_id, read_span(QueryDict("days=7")))
    assert [picture.name for picture in shown.pictures] == ["steps", "errors", "tokens", "money"]
    steps, errors, _, _ = shown.pictures
    total = shown.total.figures
    assert [len(picture.bars) for picture in (steps, errors)] == [1, 1]
    assert steps.maximum == f"{total.steps:,}"
    assert 'class="figures-bar" x="87.14%"' in steps.bars[0]
    assert f'y="0.0" height="{steps.height:.1f}"' in steps.bars[0]
    assert f": {total.errors:,} errors" in errors.bars[0]


def test_the_chart_of_an_unknown_cost_says_so(alice: Client, counted: Session) -> None:
    usage = {"input_tokens": 90, "output_tokens": 9}
    append(counted.project, counted.pk, [draft(ModelOutput(text="hi"), model="our-model", usage=usage)])
    follow_changes(lambda: False)
    page = alice.get("/figures?model=our-model")
    assert "Cost unknown" in text(page)
    assert "no known price for 1 model" in text(page)


def test_totals_of_all_agents_models_and_tools_equal_the_sum_of_each(counted: Session) -> None:
    query = read_span(QueryDict("days=7"))
    together = grouped_by_names(counted.project_id, query)
    names: tuple[Grouping, ...] = ("agent", "model", "tool")
    for name in names:
        alone = grouped(counted.project_id, query, name)
        assert together[name] == alone


GROUPS = {
    "cheap": GroupFigures(NO_FIGURES._replace(steps=9, errors=2, model_calls=9, output=10), 1_000_000),
    "dear": GroupFigures(NO_FIGURES._replace(steps=3, errors=1, likely_failures=1, model_calls=1), 4_000_000),
    "free": GroupFigures(NO_FIGURES._replace(steps=5, model_calls=5, output=90)),
    "silent": GroupFigures(NO_FIGURES._replace(steps=8)),
    "unknown": GroupFigures(NO_FIGURES._replace(steps=7, model_calls=7), unpriced={"our-model"}),
}


def table_of(kind: str, order: GroupOrder) -> FiguresTable:
    return names_table(kind, NamedGroups(order.of(kind).apply(GROUPS), len(GROUPS)), order)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("-steps", ["cheap", "silent", "unknown", "free", "dear"]),
        ("-money", ["dear", "cheap", "free", "silent", "unknown"]),
        ("money", ["free", "cheap", "dear", "silent", "unknown"]),
        ("-failure_rate", ["dear", "cheap", "silent", "unknown", "free"]),
        ("-tokens", ["free", "cheap", "unknown", "dear", "silent"]),
    ],
)
def test_a_table_is_sorted_by_any_figure_and_unknown_ones_come_last(sort: str, names: list[str]) -> None:
    table = table_of("agent", GroupOrder.parse(sort))
    assert [row.name for row in table.rows] == names
    assert [head.order for head in table.heads if head.sorted] == [sort[1:] if sort[0] == "-" else f"-{sort}"]


def test_the_bar_of_a_row_stands_in_the_sorted_column() -> None:
    table = table_of("agent", GroupOrder("money"))
    cells = {row.name: row.cells for row in table.rows}
    assert cells["cheap"].count("<svg") == 1
    assert cells["cheap"].endswith('<rect width="25.00%" height="8" rx="4"/></svg>$1.00</td>')
    assert 'width="0.00%"' in cells["unknown"]
    steps = table_of("tool", GroupOrder("sessions"))
    assert [head.title for head in steps.heads if head.sorted] == ["Steps"]


def test_a_row_shows_its_tokens_and_the_share_of_failed_steps() -> None:
    assert "<td" in (cells := figures_cells(GROUPS["dear"], "tool"))
    assert [cell.partition("<")[0] for cell in cells.split(">")[1::2]][:5] == ["3", "1", "1", "67 %", "0"]
    silent = figures_cells(GROUPS["silent"], "tool")
    assert [cell.partition("<")[0] for cell in silent.split(">")[1::2]][3:] == ["0 %", *"––––––"]


def test_the_order_of_the_tables_is_part_of_the_address(alice: Client, counted: Session) -> None:
    page = html(alice.get("/figures?days=7&sort=-money"))
    assert page.count('aria-sort="descending"') == 3
    assert "sort=money#by-tool" in page
    assert "sort=-money&amp;tool=read_file" in page or "tool=read_file&amp;sort=-money" in page
    assert '<input type="hidden" name="sort" value="-money">' in page
    assert alice.get("/figures?sort=colour").status_code == 422


def test_a_long_table_says_how_many_names_it_leaves_out(
    alice: Client, counted: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.services.figures.project_figures.MAX_GROUPS", 1)
    assert "The first 1 of" in text(alice.get("/figures"))


def test_a_stranger_sees_no_figures(charlie: Client, counted: Session) -> None:
    page = text(charlie.get("/figures"))
    assert "Repair the totals" not in page
    assert "read_file" not in page


@pytest.mark.parametrize("query", ["days=3", "from=x", "from=2026-03-02&to=2026-03-01", "from=0001-01-01"])
def test_an_impossible_span_is_explained(alice: Client, counted: Session, query: str) -> None:
    assert alice.get(f"/figures?{query}").status_code == 422


def test_the_page_takes_a_fixed_number_of_queries(
    alice: Client, counted: Session, django_assert_max_num_queries: Any
) -> None:
    for_time_limits = 6 if connection.vendor == "postgresql" else 0
    with django_assert_max_num_queries(16 + for_time_limits):
        alice.get("/figures")


def test_a_trend_is_described_in_words() -> None:
    assert change_text(12, 10, 7) == "20 % more than in the previous 7 days"
    assert change_text(5, 10, 1) == "50 % less than in the day before"
    assert change_text(3, 0, 7) == "none in the previous 7 days"
    assert change_text(2, 2, 7) == "the same as in the previous 7 days"


@pytest.mark.parametrize(
    ("group", "cost"),
    [
        (GroupFigures(NO_FIGURES._replace(model_calls=2), unpriced={"our-model"}), "unknown"),
        (
            GroupFigures(
                NO_FIGURES._replace(model_calls=2, output=300),
                micros=2_500_000,
                unpriced={"our-model"},
                unpriced_tokens=1,
            ),
            '<span title="no known price for 1 model, &lt;1 % of the tokens">≥ $2.50</span>',
        ),
        (GroupFigures(NO_FIGURES._replace(model_calls=2)), "$0"),
        (GroupFigures(NO_FIGURES), "–"),
    ],
)
def test_a_cost_is_shown_as_far_as_it_is_known(group: GroupFigures, cost: str) -> None:
    assert figures_cells(group, "model").endswith(f'<td class="number">{cost}</td>')


def test_an_unknown_cost_is_not_shown_as_zero() -> None:
    known, unknown = GroupFigures(micros=2_500_000), GroupFigures(unpriced={"our-model"})
    unknown.figures, unknown.unpriced_tokens = NO_FIGURES._replace(output=300), 300
    left_out = "no known price for 1 model, 100 % of the tokens"
    assert cost_trend(unknown, known, 7)[1:] == ("unknown", left_out)
    assert cost_trend(known, unknown, 7)[1:] == ("$2.50", "unknown in the previous 7 days")
    assert cost_trend(GroupFigures(), GroupFigures(), 7).shown == "$0.00"
    assert cost_trend(GroupFigures(micros=1_200), GroupFigures(), 7).shown == "$0.0012"


def test_a_cost_without_some_models_is_not_shown_as_the_whole() -> None:
    known = GroupFigures(micros=2_500_000)
    partial = GroupFigures(NO_FIGURES._replace(uncached=2, output=6), 5_000_000, {"our-model"}, 5)
    left_out = "no known price for 1 model, 62 % of the tokens"
    more = "100 % more than in the previous 7 days"
    assert cost_trend(partial, known, 7)[1:] == ("≥ $5.00", f"{left_out}; the rest: {more}")
    less = "50 % less than in the previous 7 days"
    assert cost_trend(known, partial, 7)[1:] == ("$2.50", f"{less} ({left_out} there)")


def test_a_cost_without_some_output_is_not_shown_as_the_whole() -> None:
    exact = GroupFigures(NO_FIGURES._replace(output=500), 2_500_000)
    lacking = GroupFigures(NO_FIGURES._replace(output=500, missing_output=5), 5_000_000)
    assert not GroupFigures(NO_FIGURES._replace(output=500, missing_output=4), 5_000_000).is_minimum
    few = "too few output tokens were reported"
    more = "100 % more than in the previous 7 days"
    assert cost_trend(lacking, exact, 7)[1:] == ("≥ $5.00", f"{few}; as reported: {more}")
    less = "50 % less than in the previous 7 days"
    assert cost_trend(exact, lacking, 7)[1:] == ("$2.50", f"{less} ({few} there)")
    assert f'<span title="{few}">≥ $5.00</span>' in figures_cells(lacking, "model")


def test_the_number_of_steps_without_usage_is_a_lower_bound(
    alice: Client, project: Project, settled: None
) -> None:
    session = create_session(project)
    usage = {"input_tokens": 9_000, "output_tokens": 10}
    append(project, session.pk, [draft(ModelOutput(text="a"), usage=usage), draft(ModelOutput(text="b"))])
    follow_changes(lambda: False)
    assert "At least 1 step has no reported usage: tokens" in text(alice.get("/figures"))
    append(project, session.pk, [draft(ModelOutput(text="c"))])
    follow_changes(lambda: False)
    assert "At least 2 steps have no reported usage: tokens" in text(alice.get("/figures"))

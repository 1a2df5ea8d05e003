"""``playhead sessions``, and the session that a command means."""

from typing import Any
from uuid import UUID

import pytest

from historyapp.core.entries import ModelOutput
from historyapp.core.search_query import FACETS
from historyapp.models import Project, Session
from historyapp.models.session_lists import SORTS as SORT_KEYS
from historyapp.services.append import append
from historyapp.services.keys import create_key
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from historyapp.terminal.command_line import run
from historyapp.terminal.output import short_ids
from historyapp.terminal.sessions import FILTERS, SORTS
from tests.api.agent import Agent
from tests.services.drafts import ask, draft
from tests.terminal.conftest import TITLE, Playhead

ALIKE = [UUID(f"0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2c{n:02x}") for n in range(3)]


@pytest.fixture
def alike(project: Project) -> list[UUID]:
    """Sessions whose ids differ in the last digit."""
    for number, id in enumerate(ALIKE):
        create_session(project, id=id, names={"title": f"run {number}"})
    return ALIKE


def test_a_session_has_one_line_of_figures(playhead: Playhead, session_id: UUID) -> None:
    head, line = playhead("sessions").out.splitlines()
    assert head.split()[:4] == ["Session", "Title", "Agent", "Status"]
    assert line.split()[0] == short_ids([str(session_id)])[0]
    assert line.split()[1:8] == [*TITLE.split(), "fixer", "live", "3", "1"]


def test_json_is_the_answer_of_the_api(playhead: Playhead, project: Project, session_id: UUID) -> None:
    several, one = playhead("sessions", "--json").answer, playhead("show", session_id, "--json").answer
    agent = Agent(create_key(project, "x")[1])
    assert several == agent.get("/sessions").body
    assert one == agent.get(f"/sessions/{session_id}").body


def titles(printed: Any) -> set[str]:
    return {item["title"] for item in printed.answer["items"]}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["parser"], {TITLE}),
        (["--agent", "fixer"], {TITLE}),
        (["--tag", "parser"], {TITLE}),
        (["--errors"], {TITLE}),
        (["--likely-failures"], set()),
        (["--undated"], set()),
        (["--model", "none"], set()),
        (["--to", "2001-01-01"], set()),
        (["--status", "live"], {TITLE, "run 0", "run 1", "run 2"}),
        (["--status", "archived"], set()),
        (["run", "1"], {"run 1"}),
    ],
)
def test_filters_are_those_of_the_api(
    playhead: Playhead, session_id: UUID, alike: list[UUID], arguments: list[str], found: set[str]
) -> None:
    assert titles(playhead("sessions", "--json", *arguments)) == found


def test_sessions_are_sorted_by_a_key_of_the_api(
    playhead: Playhead, session_id: UUID, alike: list[UUID]
) -> None:
    by_steps = playhead("sessions", "--json", "--sort", "steps").answer["items"]
    reverse = playhead("sessions", "--json", "--sort", "steps", "--reverse").answer["items"]
    assert by_steps[0]["title"] == reverse[-1]["title"] == TITLE
    assert playhead("sessions", "--sort", "steps", "--limit", 1).err == (
        "These are the first 1. --limit shows more.\n"
    )
    assert SORTS == SORT_KEYS


def test_an_unknown_option_is_explained_by_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["tail", "--limit", "3"], None)
    printed = capsys.readouterr().err
    assert "usage: playhead tail" in printed
    assert "playhead tail: error: unknown: --limit" in printed


def test_more_sessions_than_one_page_has_are_one_list(
    playhead: Playhead, alike: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("historyapp.terminal.server.MAX_ITEMS", 2)
    assert titles(playhead("sessions", "--json")) == {"run 0", "run 1", "run 2"}
    printed = playhead("sessions", "--limit", 1)
    assert len(printed.out.splitlines()) == 2
    assert printed.err == "These are the newest 1. --limit shows more.\n"


def test_an_empty_list_is_reported(playhead: Playhead, project: Project) -> None:
    assert playhead("sessions").err == "There are no sessions yet.\n"
    assert playhead("sessions", "nothing").err == "No session matches.\n"


def test_filters_of_steps_are_refused_with_what_to_write(playhead: Playhead, session_id: UUID) -> None:
    refused = playhead("sessions", "parser", "agent:fixer", "status:error")
    assert refused.code == 2
    assert "no filters such as agent:fixer. For agent: use --agent." in refused.err
    assert "`playhead search 'parser agent:fixer status:error'`" in refused.err
    assert titles(playhead("sessions", "--json", "--sort", "cost")) == {TITLE}
    assert set(FILTERS) == set(FACETS)
    excluding = playhead("sessions", "--", "-agent:fixer")
    assert (excluding.code, excluding.err.count("`playhead search -- -agent:fixer`")) == (2, 1)
    for words in (("shell:", "profile:x"), ("Model: retry on 429",), ("Status: done, steps > 3",)):
        assert playhead("sessions", *words).err == "No session matches.\n"


def test_a_session_is_found_by_the_beginning_of_its_id(playhead: Playhead, alike: list[UUID]) -> None:
    whole = str(alike[1])
    for name in (whole, whole.upper(), whole[:-1] + "1", whole):
        assert playhead("show", name, "--json").answer["id"] == whole
    refused = playhead("show", whole[:-1])
    assert refused.code == 1
    assert all(str(id) in refused.err for id in alike)
    assert playhead("show", "ffff").err == "playhead: No session begins with ffff.\n"


def test_the_last_session_is_the_one_with_the_newest_entry(
    playhead: Playhead, project: Project, alike: list[UUID]
) -> None:
    append(project, alike[1], [ask("hello")])
    assert playhead("show", "last", "--json").answer["id"] == str(alike[1])


@pytest.mark.parametrize("name", ["abc", "../keys", "last one", "x" * 500, "0197c7d4%"])
def test_an_invalid_id_is_wrong_usage(playhead: Playhead, project: Project, name: str) -> None:
    printed = playhead("show", name)
    assert (printed.code, printed.out) == (2, "")
    assert "is not a session" in printed.err


def test_sessions_of_another_project_are_reported_as_missing(playhead: Playhead, session_id: UUID) -> None:
    Project.objects.create(name="Other")
    missing = "0197c7d4-5a3e-7c11-9d3b-2f6f0a1b2cff"
    assert playhead("sessions", "--project", "Other", "--json").answer["items"] == []
    strange, none = (playhead("show", id, "--project", "Other") for id in (session_id, missing))
    assert (strange.code, none.code) == (1, 1)
    assert strange.err.replace(str(session_id), missing) == none.err
    assert playhead("show", str(session_id)[:8], "--project", "Other").code == 1
    assert playhead("sessions", "--project", "Nobody's").code == 1


def test_ids_are_shortened_to_unique_beginnings() -> None:
    ids = ["12345678-0000", "12345678-1000", "abcdefab-0000"]
    assert short_ids(ids) == ["12345678-0", "12345678-1", "abcdefab"]
    assert short_ids([*ids, ids[0]])[0] == "12345678-0"
    assert short_ids(ids[1:]) == ["12345678", "abcdefab"]
    assert short_ids([]) == []
    assert short_ids(["01a2278a-1234-7000-8000-000000000000"]) == ["01a2278a-1234"]


def test_tokens_and_cost_are_those_of_the_pages(playhead: Playhead, project: Project) -> None:
    """The provider billed more than the entries have; Playhead's own count is in ``tokens``."""
    usage = {"input_tokens": 40_000, "output_tokens": 100}
    metadata: Any = {"model": "claude-sonnet-4-5", "usage": usage, "usage_convention": "anthropic"}
    session = create_session(project, names={"title": "billed", "model": "claude-sonnet-4-5"})
    append(project, session.pk, [ask("go"), draft(ModelOutput(text="done"), **metadata)])
    line = playhead("sessions", "billed").out.splitlines()[1]
    assert " 40,000  $0.12 " in line
    assert "40,000 tokens in, $0.12" in playhead("show", session.pk).out
    (item,) = playhead("sessions", "billed", "--json").answer["items"]
    shown = playhead("show", session.pk, "--json").answer
    assert item["shown_tokens"] == shown["shown_tokens"] == 40_000
    assert item["shown_cost"] == shown["shown_cost"] == pytest.approx(0.1215)
    assert item["token_source"] == shown["token_source"] == "reported"
    assert (item["tokens"] < 50, item["cost"]) == (True, 0)


def test_a_fork_has_only_the_tokens_and_the_cost_of_its_own_steps(
    playhead: Playhead, project: Project
) -> None:
    """Whoever adds up the column counts no model call twice."""
    usage = {"input_tokens": 40_000, "output_tokens": 100}
    step: Any = draft(ModelOutput(text="done"), model="claude-sonnet-4-5", usage=usage)
    session = create_session(project, names={"title": "billed", "model": "claude-sonnet-4-5"})
    append(project, session.pk, [ask("go"), step, step])
    child = fork(project, session.pk, at_step=2)
    items = playhead("sessions", "--json").answer["items"]
    assert [(item["shown_tokens"], item["shown_cost"]) for item in items] == [(0, 0), (80_000, 0.243)]
    append(project, child.pk, [step])
    items = playhead("sessions", "--json").answer["items"]
    assert [item["shown_tokens"] for item in items] == [40_000, 80_000]
    assert {item["token_source"] for item in items} == {"reported"}
    assert "120,000 tokens in, $0.36" in playhead("show", child.pk).out


def test_a_cost_that_is_too_low_is_marked(playhead: Playhead, project: Project) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    steps = [
        draft(ModelOutput(text="many words " * 1_000), model="claude-haiku-4-5", usage=usage),
        draft(ModelOutput(text="done"), model="claude-haiku-4-5", usage=usage),
    ]
    session = create_session(project)
    append(project, session.pk, steps)
    assert " ≥ $2.00 " in playhead("sessions").out
    assert ", ≥ $2.00\n" in playhead("show", session.pk).out
    assert " ≥ $1.00 " in playhead("compare", session.pk, f"{session.pk}@1").out
    child = fork(project, session.pk, at_step=1)
    append(project, child.pk, [steps[1]])
    items = playhead("sessions", "--json").answer["items"]
    assert [item["cost_is_minimum"] for item in items] == [False, True], "the fork's own cost is right"
    Session.objects.update(money=0)  # as with a price list that had no price at the newest append
    assert playhead("sessions", "--json").answer["items"] == items
    assert rebuild(Session.objects.get(pk=child.pk)).differences == []


def test_estimated_tokens_are_marked(playhead: Playhead, session_id: UUID) -> None:
    """They are far fewer than the provider would have billed."""
    item = playhead("show", session_id, "--json").answer
    assert item["token_source"] == "estimated"
    assert f" ≈ {item['shown_tokens']} " in playhead("sessions").out
    assert f", ≈ {item['shown_tokens']} tokens\n" in playhead("show", session_id).out
    assert f" ≈ {item['shown_tokens']} " in playhead("compare", session_id, f"{session_id}@3").out

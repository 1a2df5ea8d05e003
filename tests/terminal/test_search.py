"""``playhead search``: steps of all sessions that match."""

from uuid import UUID

import pytest

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.search.index import catch_up
from historyapp.services.sessions import create_session
from historyapp.terminal.output import short_ids
from historyapp.terminal.search import marked_parts
from tests.services.drafts import act, ok
from tests.terminal.conftest import TITLE, Playhead

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture
def indexed(project: Project, session_id: UUID) -> UUID:
    append(
        project, session_id, [act("grep", pattern="EnsureSetup"), ok(outputs="hooks_test.go: EnsureSetup()")]
    )
    catch_up(project.pk, lambda: False)
    return session_id


def test_a_hit_names_its_session_step_and_tool_and_shows_the_match(playhead: Playhead, indexed: UUID) -> None:
    printed = playhead("search", "EnsureSetup")
    head, snippet = printed.out.splitlines()
    assert head.split()[:4] == [*short_ids([str(indexed)]), "step", "4", "success"]
    assert "grep" in head
    assert TITLE in head
    assert "EnsureSetup" in snippet


def test_a_printed_id_names_one_session(playhead: Playhead, project: Project, indexed: UUID) -> None:
    millisecond = int(str(indexed)[9:13], 16) ^ 1
    create_session(project, id=UUID(f"{str(indexed)[:8]}-{millisecond:04x}-7000-8000-000000000000"))
    printed = playhead("search", "EnsureSetup").out.split()[0]
    assert playhead("show", printed).code == 0
    assert "begin with" in playhead("show", str(indexed)[:8]).err


def test_hints_are_printed_beside_the_steps(playhead: Playhead, indexed: UUID) -> None:
    printed = playhead("search", "EnsureSetup", "OR", "grep")
    assert "OR is searched as a word" in printed.err


def test_the_conditions_that_a_step_matches_are_printed(
    playhead: Playhead, project: Project, indexed: UUID
) -> None:
    append(project, indexed, [act("open"), ok()])
    catch_up(project.pk, lambda: False)
    query = ("EnsureSetup", "AND", "tool:open")
    items = playhead("search", "--json", *query).answer["items"]
    assert [item["conditions"] for item in items] == [["EnsureSetup"], ["tool:open"]]
    printed = playhead("search", *query).out.splitlines()
    assert [line for line in printed if line.startswith("    for ")] == [
        "    for EnsureSetup",
        "    for tool:open",
    ]
    assert "    for " not in playhead("search", "EnsureSetup").out


def test_a_query_that_only_several_steps_match_is_printed_with_them(
    playhead: Playhead, project: Project, indexed: UUID
) -> None:
    append(project, indexed, [act("open"), ok(outputs="zebra")])
    catch_up(project.pk, lambda: False)
    printed = playhead("search", "EnsureSetup", "zebra")
    assert "In these sessions, different steps match: EnsureSetup AND zebra" in printed.err
    assert len([line for line in printed.out.splitlines() if line.startswith("    for ")]) == 2
    assert playhead("search", "--json", "EnsureSetup", "zebra").answer["wider"] == "EnsureSetup AND zebra"


def test_words_are_one_query_with_filters(playhead: Playhead, indexed: UUID) -> None:
    hits = playhead("search", "--json", "hooks_test.go", "tool:grep").answer["items"]
    assert [hit["episode"] for hit in hits] == [4]
    assert playhead("search", "--json", "--", "hooks_test.go", "-tool:grep").answer["items"] == []
    answer = playhead("search", "--json", "hooks_test.go", "tool:ls").answer
    assert answer["wider"] == "hooks_test.go AND tool:ls"
    assert all(len(hit["conditions"]) == 1 for hit in answer["items"])


def test_a_search_without_matches_says_so(playhead: Playhead, indexed: UUID) -> None:
    printed = playhead("search", "nowhere")
    assert (printed.code, printed.out) == (0, "")
    assert "No step matches." in printed.err


def test_pages_follow_each_other(playhead: Playhead, indexed: UUID) -> None:
    first = playhead("search", "let me see", "--limit", 1)
    assert len(first.out.splitlines()) == 2
    cursor = first.err.split("--cursor ")[1].strip()
    second = playhead("search", "let me see", "--limit", 1, "--cursor", cursor)
    assert second.out.splitlines()[0] != first.out.splitlines()[0]


def test_more_hits_than_one_page_of_the_api_has_are_listed(playhead: Playhead, project: Project) -> None:
    session = create_session(project)
    append(
        project, session.pk, [draft for n in range(60) for draft in (act("look", n=n), ok(outputs="zebra"))]
    )
    catch_up(project.pk, lambda: False)
    assert len(playhead("search", "zebra", "--json", "--limit", 55).answer["items"]) == 55


def test_an_invalid_query_is_refused(playhead: Playhead, indexed: UUID) -> None:
    printed = playhead("search", "word " * 10_000)
    assert printed.code == 2
    assert printed.err.startswith("playhead: ")


def test_hostile_text_between_matches_stays_harmless() -> None:
    snippet = "a \x1b[2Jb \x1b]0;t\x07needle\n c"
    first = snippet.index("needle")
    parts = marked_parts(snippet, [[first, first + 6]])
    text = "".join(part if isinstance(part, str) else part[0] for part in parts)
    assert ("needle", "bold yellow") in parts
    assert set(text) & set("\x1b\x07\n") == set()
    assert text.endswith("needle c")

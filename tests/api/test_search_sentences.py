"""Sentences are searched as words of one step, or read as a query that several steps match together."""

from urllib.parse import urlencode

import pytest
from django.utils import timezone

from historyapp.core.search_query import parse_query
from historyapp.models.search_text_index import match_without_order
from tests.api.agent import Agent
from tests.api.test_search import assert_found, edit, search_hits

SENTENCE = "edited NavUser.tsx and then failed its tests"
QUERY = "has:edit file:NavUser.tsx AND has:failure test*"


@pytest.fixture
def recorded(run: Agent, session_id: str) -> str:
    edit(run, "src/NavUser.tsx", "changed")
    run.act("bash", command="npm test")
    run.fail("1 test failed")
    run.act("bash", command="cp src/NavUser.tsx src/NavUser.tsx.backup")
    run.succeed()
    return session_id


def test_names_of_files_are_found_in_any_case(alice: Agent, recorded: str) -> None:
    names = ("NavUser.tsx", "navuser.tsx", "NAVUSER.TSX", "Navuser.tsx", "src/navuser.tsx")
    assert_found(
        alice,
        recorded,
        [
            *[(f"file:{name}", [1]) for name in names],
            *[(name, [3, 1]) for name in names],
            *[(f"-{name}", [2]) for name in names],
            *[(f"-file:{name}", [3, 2]) for name in names],
            ("file:navuser", [3, 1]),
            ("file:navuse*", [3, 1]),
            ("file:user.tsx", [1]),
            ("file:avuser.tsx", []),
            ("tool:bash navuser.tsx", [3]),
        ],
    )


def test_an_ending_in_the_query_is_that_of_the_file(alice: Agent, recorded: str) -> None:
    """A copy is not an edit of the file that was copied."""
    assert_found(
        alice,
        recorded,
        [
            ("file:NavUser.tsx has:edit", [1]),
            ("file:NavUser.tsx.backup has:edit", [3]),
            ("file:NavUser.tsx*", [3, 1]),
            ('file:"src/NavUser.tsx"', [1]),
        ],
    )


def test_endings_before_another_one_are_parts_of_names(alice: Agent, run: Agent, session_id: str) -> None:
    edit(run, "src/cart.test.ts", "changed")
    assert_found(alice, session_id, [("file:cart.test", [1]), ("file:cart", [1]), ("file:cart.ts", [])])


def test_a_snippet_marks_a_name_in_another_case(alice: Agent, recorded: str) -> None:
    item = alice.get("/search?q=navuser.tsx+tool:edit_file")["items"][0]
    assert [item["snippet"][start:end] for start, end in item["marks"]] == ["NavUser.tsx"]


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="FTS5 reads positions with the words")
def test_the_index_is_asked_for_alternatives_without_gaps() -> None:
    terms = parse_query("NavUser.tsx -a.py file:b.py", timezone.now()).terms
    assert match_without_order(terms, ["p"]) == (
        "('p') & ('nav' & 'user' & 'tsx' | 'navuser' & 'tsx' | '\ue002navuser' & '\ue002tsx')"
        " & ('\ue002b' & '\ue002py')"
    )


def test_a_sentence_that_no_step_matches_finds_several_steps(alice: Agent, recorded: str) -> None:
    page = alice.get(f"/search?{urlencode({'q': SENTENCE})}")
    assert page["wider"] == QUERY
    found = [(item["session"], item["episode"]) for item in page["items"]]
    assert found == [(recorded, 1), (recorded, 2)]
    assert search_hits(alice, QUERY) == found
    assert alice.get("/search?q=NavUser.tsx")["wider"] == ""


def test_the_pages_of_a_wider_query_follow_each_other(alice: Agent, run: Agent, recorded: str) -> None:
    for number in range(2):
        created = alice.post("/sessions", {"title": f"run {number}"})
        other = alice.within(f"/sessions/{created['id']}")
        edit(other, "NavUser.tsx", "changed")
        other.act("bash", command="npm test")
        other.fail("1 test failed")
    found, cursor = list[str](), ""
    for _ in range(3):
        page = alice.get(f"/search?{urlencode({'q': SENTENCE})}&limit=1{cursor}")
        assert page["wider"] == QUERY
        found += [item["session"] for item in page["items"]]
        cursor = f"&cursor={page['next']}"
    assert len(found) == 6
    assert len(set(found)) == 3
    assert alice.get(f"/search?q=other+words{cursor}").status == 422


def test_a_sentence_of_which_a_step_has_all_words_offers_several_steps(alice: Agent, recorded: str) -> None:
    page = alice.get("/search?q=1+test+failed")
    assert [item["episode"] for item in page["items"]] == [2]
    assert page["hints"] == [
        "Different steps of one session can match too. Search for: 1 AND test* has:failure"
    ]
    assert alice.get("/search?q=npm+test")["hints"] == []

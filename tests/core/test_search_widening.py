"""A query that no step matches is rewritten so that several steps of one session may match it."""

import pytest

from historyapp.core.search_widening import widen_query


@pytest.mark.parametrize(
    ("text", "wider"),
    [
        ("parser zebra", "parser AND zebra"),
        ("file:a.py status:failed", "file:a.py AND status:failed"),
        ("file:a.py has:edit has:failure", "file:a.py has:edit AND has:failure"),
        ('"no such file" zebra since:7d cost>0.5', '"no such file" AND zebra cost>0.5 since:7d'),
        ("parser zebra -tool:bash", "parser -tool:bash AND zebra -tool:bash"),
        (
            "the run that edited a_test.go and failed its tests",
            "has:edit file:a_test.go AND has:failure test*",
        ),
        ("which sessions changed src/a.py, then failed?", "has:edit file:src/a.py AND has:failure"),
        ("edited NavUser.tsx and then failed its tests", "has:edit file:NavUser.tsx AND has:failure test*"),
        ("after that, NavUser.tsx failed tests", "NavUser.tsx AND has:failure test*"),
        ("parser zebra has:note", "parser AND zebra has:note"),
        ("parser zebra kind:note", "parser AND zebra kind:note"),
        ("parser", ""),
        ("the parser", ""),
        ("parser AND zebra", ""),
        ("a1 b1 c1 d1 e1 f1 g1 h1 i1", ""),
        ("", ""),
    ],
)
def test_parts_that_different_steps_can_match_are_joined_by_and(text: str, wider: str) -> None:
    assert widen_query(text) == wider


@pytest.mark.parametrize(
    ("text", "wider"),
    [("parser zebra", ""), ("a.py failed tests", "a.py AND has:failure test*"), ("a.py has:edit zebra", "")],
)
def test_only_words_that_are_read_as_filters_make_a_sentence(text: str, wider: str) -> None:
    assert widen_query(text, only_sentences=True) == wider

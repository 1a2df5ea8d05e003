"""A query is parsed as the user means it, or refused with what to change."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.errors import Invalid
from historyapp.core.search_hints import hints_of
from historyapp.core.search_query import FACETS, MAX_CHARACTERS, SessionCondition, Term, parse_query

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("parser", [Term("", ("parser",))]),
        ('"no such file"', [Term("", ("no", "such", "file"))]),
        ("Ensur*", [Term("", ("ensur",), is_prefix=True)]),
        ("hooks_test.go", [Term("", ("hooks", "test", "go"), lower=("hooks", "test", "go"))]),
        ('"a.py"', [Term("", ("a", "py"))]),
        ("file:NavUser", [Term("file", ("nav", "user"), lower=("navuser",))]),
        ("file:NavUser.tsx", [Term("file", ("nav", "user", "tsx"), lower=("navuser", "tsx"), is_end=True)]),
        ("file:index.d", [Term("file", ("index", "d"), lower=("index", "d"))]),
        ("-tool:bash", [Term("tool", ("bash",), is_excluded=True)]),
        ('command:"go test"', [Term("command", ("go", "test"))]),
        ("status:failed", [Term("status", ("likely_failed",))]),
        ("http://a.b", [Term("", ("http", "a", "b"))]),
        ("中文*", [Term("", ("中", "文"))]),
        ("./... - %", []),
    ],
)
def test_words_phrases_prefixes_and_facets_are_parsed(text: str, terms: list[Term]) -> None:
    assert parse_query(text, NOW).terms == terms


def test_conditions_on_sessions_and_times_are_parsed() -> None:
    query = parse_query("cost>0.5 tokens>20k -tag:x since:7d until:2026-11-20 takes:all", NOW)
    assert query.conditions == [
        SessionCondition("cost", "0.5", ">"),
        SessionCondition("tokens", "20000.0", ">"),
        SessionCondition("tag", "x", is_excluded=True),
    ]
    assert query.since == NOW - timedelta(days=7)
    assert query.until == datetime(2026, 11, 20, tzinfo=UTC)
    assert query.with_takes


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("cost>abc", "cost>abc needs a number to compare with. Write for example cost>100, or put it into"),
        ("x" * (MAX_CHARACTERS + 1), f"at most {MAX_CHARACTERS}"),
        ('say "no', "character 5 is not closed"),
        ("a*", "at least 3 letters"),
        ("*", "no letters before"),
        ("tool:", "has no value"),
        ("status:bad", "Use one of"),
        ("since:soon", "is not a time"),
        ("since:0001-01-01", "Use a year"),
        ("cost:5", "cost>100"),
        ("cost>..", "is not a number"),
        ("takes:some", "takes:all"),
        ("a " * 30, "Use fewer"),
    ],
)
def test_an_invalid_query_is_refused_with_advice(text: str, advice: str) -> None:
    with pytest.raises(Invalid, match=advice.replace("*", ".")):
        parse_query(text, NOW)


@given(
    st.lists(st.sampled_from([*[f"{name}:" for name in FACETS], '"', "*", "-", " ", ">9", "a", "中", "%"]))
)
def test_any_text_is_read_or_refused(parts: list[str]) -> None:
    with suppress(Invalid):
        parse_query("".join(parts), NOW)


def test_a_total_is_compared_with_or_without_equality() -> None:
    conditions = parse_query("steps>=3 cost<=0.5 errors>1 tokens<2k score>=-0.5", NOW).conditions
    assert [f"{each.name}{each.operator}{each.value}" for each in conditions] == [
        "steps>=3.0", "cost<=0.5", "errors>1.0", "tokens<2000.0", "score>=-0.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("agent:codex statsu:error", "statsu: is not a filter .* Did you mean status:?"),
        ("tol:bash", "Did you mean tool:"),
        ("error:Cannot", "Did you mean has:"),
        ("before:2026-11-01", "Did you mean until:"),
        ("folder:/tmp", "The list of sessions can be filtered by folder"),
        ("rating>5", "rating> is not a filter .* Filters: tool:, file:"),
        ("note:blue", "Filters: tool:"),
        ("-cost>1", "Reverse the comparison"),
        ("panic OR fatal", "OR is searched as a word"),
        ("panic NOT fatal", "To exclude a word, write -"),
        ("a AND (b c)", "Parentheses are ignored"),
    ],
)
def test_a_part_that_looks_like_a_filter_or_an_operator_gets_a_hint(text: str, advice: str) -> None:
    (hint,) = hints_of(text)
    assert re.search(advice, hint)


@pytest.mark.parametrize(
    "text",
    [
        "tool:bash cost>1", "http://a.b std::vector C:\\x", "localhost:8000 main.py:12 a->b List<T>",
        "error: not found", "TypeError:x", "GET:/x", "one or two (three)", '"statsu:error" "OR"', 'no "end',
    ],
)  # fmt: skip
def test_known_filters_and_texts_of_programs_get_no_hint(text: str) -> None:
    assert hints_of(text) == []


def test_a_word_that_is_repeated_counts_once() -> None:
    assert len(parse_query("parser Parser parser tool:bash tool:bash", NOW).terms) == 2

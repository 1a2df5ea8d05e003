"""Any text can be written as JSON and read again, as with Python's own module."""

import gc
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from historyapp.core import json_parts
from historyapp.core.entries import DebugLog, dump_body, load_body
from historyapp.core.json import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_RECORD_DEPTH,
    MAX_VALUES,
    TooDeep,
    TooManyValues,
    compact_json,
    depth_exceeds,
    dump_json,
    dump_plain,
    is_longer,
    json_text,
    listing,
    load_dumped,
    load_fields,
    mapping,
    nested_deeper,
    parse_embedded,
    parse_lenient,
    parse_next,
    parse_object,
    parse_strict,
    text,
    text_or_json,
)
from historyapp.core.json_counts import holds_more_values
from historyapp.core.standard_json import InvalidNumber

ANYTHING = st.text(st.characters())
"""Lone surrogates and NUL included."""


def nested(levels: int, wrap: Callable[[object], object]) -> object:
    value: object = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@given(ANYTHING)
def test_any_text_survives_json_in_ascii(text: str) -> None:
    dumped = dump_json({"text": text})
    assert dumped.isascii()
    assert json.loads(dumped) == {"text": text}
    body = DebugLog(category=text, message=text)
    assert load_body("debug_log", json.loads(dump_json(dump_body(body)))) == body


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_numbers_not_representable_in_json_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump_json(value)


@pytest.mark.parametrize("value", [uuid4(), datetime.now(UTC), b"bytes", {1, 2}, Decimal(1), object()])
def test_values_not_representable_in_json_are_refused(value: object) -> None:
    for place in (value, [value], {"a": value}):
        with pytest.raises(TypeError):
            dump_json(place)


KEYS = ANYTHING | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    KEYS,
    lambda values: (
        st.lists(values, max_size=3) | st.tuples(values) | st.dictionaries(KEYS, values, max_size=3)
    ),
    max_leaves=8,
)


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@given(NUMBERS)
@example("18446744073709551616")
@example("-9223372036854775809")
@example("1.7976931348623159e308")
@example("2.2250738585072011e-308")
@example("-0")
def test_numbers_are_read_as_python_itself_reads_them(number: str) -> None:
    expected = json.loads(number)
    if isinstance(expected, float) and not isfinite(expected):
        with pytest.raises(InvalidNumber):
            parse_strict(number)
    else:
        assert repr(parse_strict(number)) == repr(expected)


@given(st.text('{}[]",:\\u0019dfaetrnlsi .-+\x7f\x00\n\t\ufeff\u00e4\ud800', max_size=12))
@example('{"b":1,"a":2,"b":3}')
@example('"\\ud83d\\ude00\\ud800"')
@example(" [1]\n")
@example("\x0b1")
def test_texts_are_read_or_refused_as_python_itself_does(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011  as of json.loads
            parse_strict(text)
    else:
        assert repr(parse_strict(text)) == repr(expected)


@given(VALUES)
def test_json_is_written_as_python_itself_writes_it(value: object) -> None:
    assert dump_json(value) == json.dumps(value, separators=(",", ":"))


def test_long_compact_json_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing a text of 31 MB at once takes a quarter of a gigabyte more, and stops all other threads."""
    value, written = (
        {"é" * 9: ["\U0001f600" + 'a"\n' * 200_000, 1.5, None, {"b": "c" * 300_000}]},
        list[int](),
    )

    def write(part: object) -> str:
        dumped = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        written.append(len(dumped))
        return dumped

    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    monkeypatch.setattr("historyapp.core.json._write_compact", write)
    assert compact_json(value) == expected
    assert max(written) < 3 * json_parts.PART


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers() | st.none())))
def test_plain_values_are_written_like_all_others(value: object) -> None:
    assert dump_plain(value) == dump_json(value)


@pytest.mark.parametrize(
    "value",
    [
        *(10**400, 2**64, -(2**63) - 1),
        *(0.0, -0.0, 1e16, 9999999999999998.0, -1e16, 1e-4, 9.999999999999999e-05, 1.2e-05, 5e-324),
        *(nested(500, lambda x: [x]), "\x7f", '\x1f\n"\\/', "é", "…", {"…a": "…\x7f…"}, "é…\ud800"),
    ],
)
def test_odd_values_are_written_as_python_itself_writes_them(value: object) -> None:
    assert dump_json(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: [[1], {"b": x}]])
def test_depth_is_found_without_recursion(wrap: Callable[[object], object]) -> None:
    per_wrap = 2 if isinstance(wrap(0), list) and wrap(0) != [0] else 1
    assert not depth_exceeds(nested(MAX_DEPTH // per_wrap, wrap))
    assert depth_exceeds(nested(MAX_DEPTH // per_wrap + 1, wrap))
    assert depth_exceeds(nested(50_000, wrap))


@given(VALUES)
def test_dumped_values_are_read_as_python_itself_reads_them(value: object) -> None:
    dumped = dump_json(value)
    assert repr(load_dumped(dumped)) == repr(json.loads(dumped))


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        load_dumped("{")


def test_json_that_is_too_deep_is_a_value_error() -> None:
    for depth in (MAX_RECORD_DEPTH + 2, 100_000):
        with pytest.raises(ValueError, match="too deep"):
            parse_embedded("[" * depth + "]" * depth)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_strict_json_has_the_depth_limit_of_records(depth: int) -> None:
    assert parse_strict("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(TooDeep):
        parse_strict("[" * depth + "]" * depth)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "9" * 5000])
def test_a_number_that_no_database_holds_is_refused_by_the_strict_parser_and_null_in_the_lenient_one(
    text: str,
) -> None:
    for parse in (parse_strict, parse_embedded):
        with pytest.raises(InvalidNumber):
            parse(text)
    if not text.startswith("9"):
        assert parse_lenient(text) is None


def test_control_characters_pass_except_in_strict_json() -> None:
    assert parse_embedded('"\x1b"') == parse_lenient('"\x1b"') == "\x1b"
    with pytest.raises(json.JSONDecodeError):
        parse_strict('"\x1b"')


def test_values_are_read_one_after_the_other() -> None:
    assert parse_next('{"a": 1} [2]', 0) == ({"a": 1}, 8)
    assert parse_next('{"a": 1} [2]', 9) == ([2], 12)


@pytest.mark.parametrize("line", [b"[1]", b"{", b'{"a": 1e999}', b'{"a": "\xff"}', b'{"a": "\\ud800"}'])
def test_the_fast_parser_leaves_odd_lines_to_the_lenient_one(line: bytes) -> None:
    assert parse_object(line) is None
    assert parse_object(b'{"a": 1}') == {"a": 1}


def test_brackets_in_a_text_do_not_count_as_nesting() -> None:
    for source in ('["' + "[" * 300 + '"]', b'["' + b"[" * 300 + b'"]'):
        assert not nested_deeper(json.loads(source), source, 10)
        assert not nested_deeper(json.loads(source), source, 1)


def test_letters_are_not_escaped_for_people_and_models() -> None:
    assert json_text({"a": "é\x00"}) == '{"a":"é\ufffd"}'
    assert [text_or_json("é"), text_or_json({"é": [1, 2]})] == ["é", '{"é": [1, 2]}']


def test_values_of_another_type_count_as_empty() -> None:
    values: list[Any] = [None, "x", [1], {"a": 1}, 7]
    assert list(map(mapping, values)) == [{}, {}, {}, {"a": 1}, {}]
    assert list(map(listing, values)) == [[], [], [1], [], []]
    assert list(map(text, values)) == ["", "x", "", "", ""]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("[1,2,3,4]", False),
        ("[1,2,3,4,5]", True),
        ('["a,b,[c","{,,,,"]', False),
        (r'["\\",1,2,"\",,,,,"]', False),
        (r'["\\",1,2,"\\",3]', True),
        ('{"a":{"b":[{}]}}', False),
        ('{"a":{"b":[[],{}]}}', True),
        ('["a,,,,,', False),
    ],
)
def test_values_are_counted_outside_of_strings(text: str, more: bool) -> None:
    assert holds_more_values(text, 4) is more


def test_a_text_of_too_many_values_is_refused_before_it_is_read() -> None:
    assert len(parse_strict("[" + "0," * (MAX_VALUES - 2) + "0]")) == MAX_VALUES - 1
    with pytest.raises(TooManyValues):
        parse_strict("[" + "0," * MAX_VALUES + "0]")


def test_a_text_of_too_many_lists_and_objects_is_refused_before_it_is_read() -> None:
    """The garbage collector would visit each of them, while no other thread runs."""
    inside = '["' + "[{" * MAX_CONTAINERS + '"]'
    assert parse_strict(inside) == [inside[2:-2]]
    assert len(parse_strict("[" + "[]," * (MAX_CONTAINERS - 2) + "{}]")) == MAX_CONTAINERS - 1
    with pytest.raises(TooManyValues, match="200,000 lists and objects"):
        parse_strict("[" + "[]," * (MAX_CONTAINERS - 1) + "{}]")


def test_a_long_text_is_read_without_the_garbage_collector() -> None:
    """It would visit the new lists again and again, while no other thread runs."""
    collections = list[int]()

    def count(phase: str, info: dict[str, int]) -> None:
        collections.append(info["generation"])

    gc.collect()
    gc.callbacks.append(count)
    try:
        for read in (parse_strict, load_dumped):
            read("[" + "[]," * 150_000 + "0]")
            assert gc.isenabled()
            gc.collect()
    finally:
        gc.callbacks.remove(count)
    assert len(collections) < 20


def test_threads_that_read_long_texts_leave_the_garbage_collector_on() -> None:
    """A thread that found it off, because another one was reading, could turn it off again after the other
    had turned it on: for ever."""
    gc.disable()  # as the other thread does
    try:
        json_parts.without_collections(load_dumped, "[]")
        assert gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "value",
    [
        'é😀\ud800"\\' * 60_000,
        [1.5e-7, "a"] * 100_000,
        {f"k{n}": [n, {"x": "é"}] for n in range(30_000)},
        {1: "é" * 300_000, None: [], "e": {}, "t": (1, "é" * 70_000)},
        [["é" * 70_000], {"a": "é" * 70_000, "b": []}, [[["é"] * 600] * 60] * 20],
        {"results": [{"outputs": [{"type": "text", "text": "é" * 300_000}]}]},
        ["é" * 60_000] * 100,
        {f"{n}" + "é" * 60_000: n for n in range(100)},
        {"é" * 3_000_000: {None: 1, 2: "é" * 70_000, True: []}},
        [[[[["é" * 30] * 10] * 10] * 10] * 10] * 10,
    ],
)
def test_long_json_is_written_in_parts_with_the_same_result(value: object) -> None:
    assert dump_json(value) == json_parts.encode(value)
    assert max(map(len, json_parts.encoded_parts(value))) < 1_000_000


def test_deeply_nested_json_is_written_in_linear_time() -> None:
    """A search for long texts began again at each level: 100,000 values took seconds."""
    value: list[object] = [0] * 10
    for _ in range(5):
        value = [value] * 10
    value = [value, "é" * 70_000]
    for _ in range(185):
        value = [value]
    started = time.process_time()
    parts = list(json_parts.encoded_parts(value))
    assert time.process_time() - started < 3
    assert "".join(parts) == json_parts.encode(value)


def test_a_long_value_that_contains_itself_is_refused() -> None:
    value: list[object] = ["é" * 70_000]
    value.append(value)
    with pytest.raises(RecursionError):
        dump_json(value)


@pytest.mark.parametrize("unit", ['"', '"",', r"\"", "\\", ",", '",', "[", '["\\'])
def test_values_are_counted_in_linear_time(unit: str) -> None:
    # A text shorter than MAX_VALUES is not scanned.
    text = '["' + unit * (2_000_000 // len(unit))
    started = time.process_time()
    holds_more_values(text, MAX_VALUES)
    assert time.process_time() - started < 1


@given(VALUES, st.integers(0, 60))
def test_the_length_of_json_is_compared_exactly(value: object, limit: int) -> None:
    assert is_longer(value, limit) == (len(dump_json(value)) > limit)


@pytest.mark.parametrize(
    "make_value",
    [
        lambda: ["x"] * 900_000,
        lambda: {"a": "\x7f" * 30_000_000},
        lambda: {str(n): n for n in range(400_000)},
    ],
)
def test_a_limit_is_checked_without_writing_a_large_value(make_value: Callable[[], object]) -> None:
    value = make_value()
    started = time.process_time()
    assert is_longer(value, 65_536)
    assert time.process_time() - started < 0.05


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"source": {"id": "a"}, "other": [[]] * 100, "model": None},
        {"other": "\ud800", "source": "\ud800", "nested": {"source": 1}},
        {"model": 10**30, "x": {"a": {"b": [1.5, True]}}},
    ],
)
def test_some_fields_of_an_object_are_read(value: dict[str, Any]) -> None:
    names = ("model", "source")
    expected = {name: value[name] for name in names if name in value}
    assert load_fields(dump_json(value), names) == expected


def test_a_text_that_is_not_json_has_no_fields() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        load_fields('{"source": ', ("source",))

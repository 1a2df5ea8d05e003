import io
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import records as records_module
from historyapp.core.importers.base import Skipped
from historyapp.core.importers.records import (
    SourceRecord,
    head_of,
    present_fields,
    read_document,
    read_lines,
    records,
)
from historyapp.core.json import MAX_RECORD_DEPTH, depth_exceeds, dump_json
from tests.core.importers.reading import source


def read(*lines: bytes | str) -> list[SourceRecord | Skipped]:
    raw = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return list(read_lines(io.BytesIO(raw)))


def objects(items: Iterable[SourceRecord | Skipped]) -> list[dict[str, Any]]:
    return [item.data for item in items if isinstance(item, SourceRecord)]


def skipped(items: Iterable[SourceRecord | Skipped]) -> list[Skipped]:
    return [item for item in items if isinstance(item, Skipped)]


def test_each_object_comes_with_its_line() -> None:
    assert read('{"a": 1}', '{"b": 2}') == [SourceRecord(1, {"a": 1}), SourceRecord(2, {"b": 2})]


def test_blank_lines_are_counted_and_give_no_record() -> None:
    assert read("", '{"a": 1}', "  \t\r", '{"b": 2}\r', "") == [
        SourceRecord(2, {"a": 1}),
        SourceRecord(4, {"b": 2}),
    ]


def test_a_stream_is_read_from_its_start() -> None:
    stream = io.BytesIO(b'{"a": 1}\n')
    stream.read()
    assert list(read_lines(stream)) == [SourceRecord(1, {"a": 1})]


def test_a_byte_order_mark_is_not_damage() -> None:
    assert read(b'\xef\xbb\xbf{"a": 1}') == [SourceRecord(1, {"a": 1})]


def test_two_records_glued_on_one_line_are_both_read() -> None:
    assert read('{"a": 1}{"b": 2} {"c": 3}') == [
        SourceRecord(1, {"a": 1}),
        SourceRecord(1, {"b": 2}),
        SourceRecord(1, {"c": 3}),
    ]


@pytest.mark.parametrize(
    "torn", ['{"type": "user", "mess', '{"type": "user", "message": ', '{"a": {"b": [{"c": 1}, ']
)
def test_a_record_appended_to_a_torn_one_is_read(torn: str) -> None:
    items = read(torn + '{"type": "assistant", "n": {"m": 1}}', '{"next": 1}')
    assert objects(items) == [{"type": "assistant", "n": {"m": 1}}, {"next": 1}]
    assert [(item.line, item.damaged) for item in skipped(items)] == [(1, True)]


def test_a_part_of_a_damaged_record_is_not_taken_for_a_record() -> None:
    items = read('{"type": "user",, "message": {"role": "user"}}')
    assert objects(items) == []
    assert len(skipped(items)) == 1


def test_a_torn_last_line_is_named() -> None:
    items = read('{"a": 1}', '{"b": "half of a')
    assert objects(items) == [{"a": 1}]
    assert skipped(items) == [Skipped(2, "truncated")]


@pytest.mark.parametrize("line", ["[1, 2]", '"text"', "7", "null", "true"])
def test_a_line_that_is_not_an_object_is_named(line: str) -> None:
    assert read(line, '{"a": 1}') == [Skipped(1, "not a JSON object"), SourceRecord(2, {"a": 1})]


def test_rubbish_after_a_record_does_not_lose_it() -> None:
    items = read('{"a": 1}\x00\x00\x00')
    assert objects(items) == [{"a": 1}]
    assert len(skipped(items)) == 1


def test_bytes_that_are_not_utf8_can_be_restored() -> None:
    (record,) = objects(read(b'{"path": "caf\xe9\xff"}'))
    assert record["path"].encode("utf-8", "surrogateescape") == b"caf\xe9\xff"


def test_lone_surrogates_and_nul_are_kept() -> None:
    assert objects(read(r'{"a": "\ud800 \u0000"}')) == [{"a": "\ud800 \x00"}]


def test_bare_control_characters_in_a_string_are_kept() -> None:
    assert objects(read(b'{"a": "\x1b[31m\tred"}')) == [{"a": "\x1b[31m\tred"}]


def test_numbers_not_representable_in_json_become_null() -> None:
    assert objects(read('{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}')) == [
        {"a": None, "b": None, "c": None, "d": 1.5}
    ]


def test_a_number_of_thousands_of_digits_is_damage() -> None:
    assert len(skipped(read('{"a": ' + "9" * 5000 + "}"))) == 1


@pytest.mark.parametrize("depth", [MAX_RECORD_DEPTH, 100_000])
def test_nesting_that_is_too_deep_is_damage(depth: int) -> None:
    items = read('{"a": ' + "[" * depth + "]" * depth + "}", '{"b": 2}')
    assert items == [Skipped(1, f"nested deeper than {MAX_RECORD_DEPTH} levels"), SourceRecord(2, {"b": 2})]


def test_a_caller_can_allow_deeper_nesting() -> None:
    depth = MAX_RECORD_DEPTH  # and the record itself around it
    deep = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
    assert [type(item) for item in read_lines(io.BytesIO(deep))] == [Skipped]
    assert [type(item) for item in read_lines(io.BytesIO(deep), max_depth=MAX_RECORD_DEPTH + 1)] == [
        SourceRecord
    ]


def test_many_adjacent_brackets_are_not_nesting() -> None:
    assert len(objects(read('{"a": [' + ",".join(["[]"] * 1000) + "]}"))) == 1


def test_a_line_beyond_the_limit_is_skipped_without_being_read_completely() -> None:
    class Watched(io.BytesIO):
        longest_read = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            raw = super().readline(size)
            self.longest_read = max(self.longest_read, len(raw))
            return raw

    stream = Watched(b'{"a": "' + b"x" * 5_000_000 + b'"}\n{"b": 2}\n')
    assert list(read_lines(stream, max_length=2_000_000)) == [
        Skipped(1, "longer than 2000000 bytes"),
        SourceRecord(2, {"b": 2}),
    ]
    assert stream.longest_read <= 2_000_001


def test_a_line_of_exactly_the_limit_is_read() -> None:
    line = b'{"a": 1}'
    assert list(read_lines(io.BytesIO(line + b"\n" + line), max_length=len(line))) == [
        SourceRecord(1, {"a": 1}),
        SourceRecord(2, {"a": 1}),
    ]


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans(), min_size=1)), st.data())
def test_damage_to_one_line_loses_only_that_line(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    lines = [json.dumps(item).encode() for item in objects]
    if not lines:
        return
    broken = data.draw(st.integers(0, len(lines) - 1))
    lines[broken] = lines[broken][: data.draw(st.integers(1, len(lines[broken]) - 1))]
    items = read(*lines)
    assert [item.number for item in items if isinstance(item, SourceRecord)] == [
        number for number in range(1, len(lines) + 1) if number != broken + 1
    ]
    assert [item.line for item in skipped(items)] == [broken + 1]


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    for item in read_lines(io.BytesIO(raw)):
        if isinstance(item, SourceRecord):
            assert not depth_exceeds(item.data)
            dump_json(item.data)


_ODD_NUMBERS = (
    "1e400", "-1e400", "1e-400", "1.7976931348623159e308", "-0", "-0.0", "1E5", "01", "1.", "NaN", "Infinity",
    "9007199254740993", "18446744073709551616", "-9223372036854775809", "1" + "0" * 400, "9" * 5000,
)  # fmt: skip
_ODD_TEXTS = (
    '"\\ud800"', '"\\ud83d\\ude00"', '"\\ud83dA"', '"\\u0000"', '"\\/"', '"\\x"', '"\x7f"', '"\x01"', '"é"',
    "true", "null", "tru", "[1,]",
)  # fmt: skip
_SCALARS = st.one_of(
    st.sampled_from(_ODD_NUMBERS),
    st.sampled_from(_ODD_TEXTS),
    st.one_of(st.floats(), st.integers(), st.text()).map(json.dumps),
)
_KEYS = st.text(max_size=3).map(json.dumps) | st.sampled_from(['"a"', '"\\ud800"', '"\x02"', "a"])


def _as_text(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.builds("{}: {}".format, _KEYS, values), max_size=3)
    return st.lists(values, max_size=3).map(",".join).map("[{}]".format) | pairs.map(
        lambda pair: f"{{{','.join(pair)}}}"
    )


@given(
    st.recursive(_SCALARS, _as_text, max_leaves=6),
    st.sampled_from(
        ["{}", ' {{"a": {}}} ', '{{"a": {}', '\x0b{{"a": {}}}', '{{"a": {}}}{{}}', '\ufeff{{"a": {}}}']
    ),
    st.sampled_from([b"", b"\xff", b"\xed\xa0\x80"]),
)
def test_the_fast_parser_gives_the_results_of_the_lenient_one(text: str, frame: str, junk: bytes) -> None:
    line = frame.format(text).encode("utf-8", "surrogatepass").replace(b'"a"', b'"a' + junk + b'"')
    fast = read(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_module, "parse_object", lambda _: None)
        assert repr(fast) == repr(read(line))


@pytest.mark.parametrize("depth", [MAX_RECORD_DEPTH, MAX_RECORD_DEPTH + 1])
def test_brackets_in_a_text_are_not_nesting(depth: int) -> None:
    levels = depth - 1
    line = f'{{"code": "{"{[" * 1000}", "value": {"[" * levels}1{"]" * levels}}}'
    assert bool(objects(read(line))) == (depth <= MAX_RECORD_DEPTH)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"in": value}
    return value


def test_a_document_is_read_from_its_start() -> None:
    item = source({"a": [1]})
    item.stream.read()
    assert read_document(item) == {"a": [1]}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'["\xff"]', ["\udcff"]),
        (b'["\\ud800\\u0000"]', ["\ud800\x00"]),
        (b"[NaN, Infinity, -Infinity, 1e999]", [None] * 4),
        (b'["line\nbreak\x1b"]', ["line\nbreak\x1b"]),
    ],
)
def test_a_document_with_invalid_characters_and_numbers_is_read(raw: bytes, value: Any) -> None:
    read = read_document(source(raw))
    assert read == value
    dump_json(read)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[1,]", b"\x00", b"[" * 100_000, b"[" + b"9" * 5000 + b"]", b"{} {}"]
)
def test_a_file_that_is_not_a_document_is_refused_with_its_name(raw: bytes) -> None:
    with pytest.raises(UnreadableTranscript, match=r"run\.json"):
        read_document(source(raw))


def test_records_that_cannot_be_stored_are_named_by_their_place() -> None:
    items = list(records([{"a": 1}, 7, nested(300), {"b": 2}]))
    assert [items[0], items[3]] == [SourceRecord(1, {"a": 1}), SourceRecord(4, {"b": 2})]
    assert [item.line for item in items if isinstance(item, Skipped)] == [2, 3]


def test_metadata_holds_only_storable_values_that_are_not_empty() -> None:
    assert present_fields(a=1, b=None, c="", d=[], e={}, f=0, g=False, h=nested(300)) == {
        "a": 1,
        "f": 0,
        "g": False,
    }


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_the_lines_of_a_pretty_printed_value_are_not_parsed_one_by_one(
    start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"messages": [{"role": "user", "content": "Hello"}] * 9}
    monkeypatch.setattr(records_module, "parse_next", None)
    head = head_of(source(start + json.dumps(value, indent=2).encode()))
    assert (head.lines, head.document) == ((), value)


def test_a_damaged_pretty_printed_value_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, parsed = records_module.parse_document, []

    def counted(data: bytes) -> Any:
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(records_module, "parse_document", counted)
    data = json.dumps({"messages": ["Hello"] * 9}, indent=2).removesuffix("}")
    assert head_of(source(data)).document is None
    assert parsed == [data.encode()]


def test_the_records_after_a_line_with_only_a_bracket_are_read() -> None:
    head = head_of(source('{\n{"a": 1}\n{"b": 2}'))
    assert (head.lines, head.document) == (({"a": 1}, {"b": 2}), None)

"""The searched texts of entries, and signatures that quickly exclude texts without a match.

A search finds the typed text anywhere, in any case: there is no query language. A signature holds
the trigrams of about 64 KB of text in about 8 KB, so most of a long session is ruled out without being read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import unpack_from
from typing import Any, NamedTuple

from historyapp.core.content import are_parts, plain_text
from historyapp.core.json import dump_json

FIELDS = ("instruction", "notebook", "input", "thought", "answer", "call", "result", "review", "note")
"""Kinds of passages. Stored by index, so new kinds must go at the end."""
_CODE = {field: code for code, field in enumerate(FIELDS)}
_AROUND = 60
"""Characters of a snippet on each side of the match."""
_MIN_BITS, _MAX_BITS = 1 << 10, 1 << 20
_BITS_PER_TRIGRAM = 5
_MULTIPLIER = 0x9E3779B1
"""Spreads the trigrams over the bits (Knuth, multiplicative hashing)."""
_PART = 1 << 16
"""The characters whose trigrams are read together. No other thread runs during one call, which would take
seconds for a long text."""


class Passage(NamedTuple):
    """One text of an entry."""

    position: int
    step: int
    """The step that shows it. An input belongs to the next step, which may not exist yet."""
    field: str
    text: str


class Match(NamedTuple):
    """The first match in an entry, with the text around it on one line."""

    position: int
    step: int
    field: str
    before: str
    match: str
    after: str
    times: int
    """How often the texts of the entry contain it."""


def lowered(text: str) -> str:
    """The text in lower case, with as many characters as before, so that places in both agree."""
    if text.isascii():
        return text.lower()
    return text.replace("\u0130", "i").lower().replace("\u03c2", "\u03c3")


def passages(position: int, steps: int, kind: str, body: Mapping[str, Any]) -> Iterator[Passage]:
    """The texts of an entry.

    Args:
        steps: the number of steps up to the entry.
        body: as stored.
    """
    texts = _TEXTS.get(kind)
    if texts is None:
        return
    step = steps if kind in _IN_STEP else steps + 1
    for field, text in texts(body):
        if text:
            yield Passage(position, step, field, text)


def _lines(value: Any) -> str:
    """The texts of a JSON value, a line for each with its name; texts keep their line breaks."""
    if isinstance(value, str):
        return value
    lines: list[str] = []
    level = [("", value)]
    while level:
        name, item = level.pop()
        if isinstance(item, dict):
            level.extend((str(key), child) for key, child in reversed(item.items()))
        elif isinstance(item, list):
            level.extend((name, child) for child in reversed(item))
        elif item is not None:
            text = item if isinstance(item, str) else dump_json(item)
            lines.append(f"{name}: {text}" if name else text)
    return "\n".join(lines)


def _content(value: Any) -> str:
    """Like :func:`_lines`, but images and other parts that are not text are only named."""
    return plain_text(value) if are_parts(value) else _lines(value)


def _output_texts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "thought", _lines(body.get("thoughts"))
    yield "answer", body.get("text", "")
    action = body.get("use_tool")
    for tool_call in body.get("tool_calls") or ([action] if action else ()):
        yield "call", f"{tool_call['name']}\n{_lines(tool_call.get('arguments'))}"


def _result_texts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "result", body.get("overall") or ""
    for result in body.get("results", ()):
        error = result.get("error") or {}
        texts = (
            _content(result.get("outputs")),
            result.get("reason"),
            error.get("message"),
            error.get("repr"),
        )
        yield "result", "\n".join(dict.fromkeys(filter(None, texts)))
        yield "review", result.get("feedback") or ""  # a person's text, which share links may hide


_IN_STEP = {"model_output", "tool_results", "review"}
_TEXTS: dict[str, Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]] = {
    "system_instruction": lambda body: [("instruction", body["text"])],
    "memory_notebook": lambda body: [("notebook", body["content"])],
    "model_input": lambda body: [("input", _content(body["content"]))],
    "model_output": _output_texts,
    "tool_results": _result_texts,
    "review": lambda body: [("review", _lines([body.get("analysis"), body.get("supervision")]))],
    "debug_log": lambda body: [("note", body["message"])],
}


def dump_passages(chosen: Iterable[Passage]) -> str:
    """Passages in one text: a line of JSON with the position of each, then their texts."""
    headers, texts = [], []
    for position, step, field, text in chosen:
        headers.append((position, step, _CODE[field], len(text)))
        texts.append(text)
    return f"{dump_json(headers)}\n{''.join(texts)}"


def load_passages(stored: str, needle: str = "") -> list[Passage]:
    """The passages in a text of :func:`dump_passages`.

    Args:
        needle: a text in lower case. Passages without it are left out.
    """
    headers, _, joined = stored.partition("\n")
    folded = lowered(joined)
    if needle not in folded:
        return []
    loaded, start = list[Passage](), 0
    for position, step, code, length in json.loads(headers):
        if needle in folded[start : start + length]:
            loaded.append(Passage(position, step, FIELDS[code], joined[start : start + length]))
        start += length
    return loaded


def matches(searched: Iterable[Passage], needle: str) -> Iterator[Match]:
    """One match for each entry that has the text, in the order of the passages.

    Args:
        needle: in lower case.
    """
    first: Match | None = None
    for passage in searched:
        folded = lowered(passage.text)
        start = folded.find(needle)
        if start < 0:
            continue
        times = folded.count(needle)
        if first is not None and first.position == passage.position:
            first = first._replace(times=first.times + times)
            continue
        if first is not None:
            yield first
        first = _match(passage, start, start + len(needle), times)
    if first is not None:
        yield first


def _match(passage: Passage, start: int, end: int, times: int) -> Match:
    text = passage.text
    before = text[max(0, start - _AROUND) : start]
    after = text[end : end + _AROUND]
    return Match(
        passage.position,
        passage.step,
        passage.field,
        ("…" if start > _AROUND else "") + _one_line(before),
        text[start:end],
        _one_line(after) + ("…" if end + _AROUND < len(text) else ""),
        times,
    )


def _one_line(text: str) -> str:
    """The text with each run of white space as one space."""
    inner = " ".join(text.split())
    return (" " if text[:1].isspace() else "") + inner + (" " if inner and text[-1:].isspace() else "")


def trigrams(text: str) -> set[int]:
    """The trigrams of a text's bytes in UTF-8, as numbers. Empty for a text of one or two bytes."""
    data = text.encode("utf-8", "surrogatepass") + b"\0"
    codes: set[int] = set()
    for start in range(min(4, len(data))):  # four bytes at once, which is many times quicker than slices
        codes.update(unpack_from(f"<{(len(data) - start) // 4}I", data, start))
    return {four & 0xFFFFFF for four in codes}


def signature(text: str) -> bytes:
    """Bits for the trigrams of a text, in lower case. Memory for the trigrams is limited for texts of any
    length."""
    codes: set[int] = set()
    bits: bytearray | None = None
    end = ""  # of the part before: trigrams span parts
    for start in range(0, max(1, len(text)), _PART):
        part = end + lowered(text[start : start + _PART])
        codes |= trigrams(part)
        end = part[-2:]
        if _BITS_PER_TRIGRAM * len(codes) > _MAX_BITS:
            bits = bits or bytearray(_MAX_BITS // 8)
            _set_bits(bits, codes)
            codes.clear()
    if bits is None:
        size = _MIN_BITS
        while size < min(_MAX_BITS, _BITS_PER_TRIGRAM * len(codes)):
            size *= 2
        bits = bytearray(size // 8)
    _set_bits(bits, codes)
    return bytes(bits)


def _set_bits(bits: bytearray, codes: Iterable[int]) -> None:
    mask = len(bits) * 8 - 1
    for trigram in codes:
        bit = (trigram * _MULTIPLIER >> 8) & mask
        bits[bit >> 3] |= 1 << (bit & 7)


def may_contain(bits: bytes, trigrams: Iterable[int]) -> bool:
    """Whether a text with this signature may have all the trigrams. Never false if it has them."""
    mask = len(bits) * 8 - 1
    for trigram in trigrams:
        bit = (trigram * _MULTIPLIER >> 8) & mask
        if not bits[bit >> 3] >> (bit & 7) & 1:
            return False
    return True

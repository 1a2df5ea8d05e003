"""Custom column types."""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import models
from zstandard import (
    DICT_TYPE_FULLDICT,
    ZstdCompressionDict,
    ZstdCompressor,
    ZstdDecompressor,
    frame_content_size,
)

from historyapp.core.json import dump_json, load_dumped, load_fields
from historyapp.core.json_memory import memory_of
from historyapp.core.text import fold
from historyapp.models.large_reads import move_for_slow_json
from historyapp.models.long_rows import count_read, limited_read
from historyapp.models.vendor import on_sqlite

if TYPE_CHECKING:

    class AnyText(models.TextField[Any, Any]):
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    class AnyUUID(models.UUIDField[Any, Any]):
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    class AnyTime(models.DateTimeField[Any, Any]):
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any
else:
    AnyText, AnyUUID, AnyTime = models.TextField, models.UUIDField, models.DateTimeField


class JSONText(AnyText):
    """JSON stored as ASCII text. Unlike jsonb it preserves the order of keys, NUL and lone surrogates.

    Each value that is read counts as read by the request, see :func:`read_json`.
    """

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        return None if value is None else read_json(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else dump_json(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        return self.get_prep_value(self.value_from_object(obj)) or ""


_MODEL = 600
"""Bytes that the model of a body, a call or a result takes in addition to its values."""
_SHORT = 200
"""The minimum length of a text to compress: shorter texts hardly get smaller."""
_MANY = 8
"""From this number of texts, one call of zstd is faster than a call for each."""
_DICTIONARY = Path(__file__).with_name("texts.zdict")
"""zstd's dictionary of common strings in JSON, code and English. It makes short texts a tenth smaller.

Rows cannot be read without it, so it never changes. A new dictionary would get another number.
``bench/dictionary.py`` made it.
"""
_DICTIONARY_FLAG = 0b11
"""The bits of a frame's fifth byte that give the length of the dictionary's number (RFC 8878, 3.1.1.1.1)."""
_codecs = threading.local()
"""Compressors are not thread-safe, and creating one takes longer than compressing a step with it."""


def pack(text: str) -> str | bytes:
    """Encodes a text for its column. Long texts are compressed; PostgreSQL does it itself."""
    if len(text) < _SHORT or not on_sqlite():
        return text
    raw = text.encode()
    packed: bytes = _compressor().compress(raw)
    return packed if len(packed) < len(raw) else text


def pack_all(texts: Sequence[str]) -> list[str | bytes]:
    """Like :func:`pack` for each text; many are compressed in one call of zstd."""
    if len(texts) < _MANY or not on_sqlite():
        return [pack(text) for text in texts]
    stored: list[str | bytes] = list(texts)
    long = [number for number, text in enumerate(texts) if len(text) >= _SHORT]
    raws: list[bytes | bytearray | memoryview] = [texts[number].encode() for number in long]
    packed = _compressor().multi_compress_to_buffer(raws) if raws else ()
    for index, number in enumerate(long):
        if len(packed[index]) < len(raws[index]):
            stored[number] = packed[index].tobytes()
    return stored


def _compressor() -> ZstdCompressor:
    """The compressor of this thread."""
    if not hasattr(_codecs, "compressor"):
        _codecs.compressor = ZstdCompressor(level=3, dict_data=_dictionary())
    compressor: ZstdCompressor = _codecs.compressor
    return compressor


@cache
def _dictionary() -> ZstdCompressionDict:
    return ZstdCompressionDict(_DICTIONARY.read_bytes(), dict_type=DICT_TYPE_FULLDICT)


def uuid_value(value: UUID) -> Any:
    """A UUID in the form that the database driver accepts."""
    return value.hex if on_sqlite() else value


@lru_cache(1000)
def session_value(session: str) -> Any:
    """The id of a span's session for the database driver. Cached: most spans are of one session."""
    return uuid_value(UUID(session))


@cache
def owners_table() -> str:
    """A table ``owner`` of sessions, which takes the result of :func:`owners_value` as its only parameter.

    In a query for two hundred sessions it takes two thirds of the time of ``IN`` with as many parameters.
    """
    return "json_each(%s) AS owner" if on_sqlite() else "unnest(%s::uuid[]) AS owner(value)"


def owners_value(sessions: Iterable[str]) -> Any:
    """The parameter of :func:`owners_table`. Its column is ``owner.value``."""
    if on_sqlite():
        ids = '","'.join(sessions).replace("-", "")
        return f'["{ids}"]'
    return [UUID(session) for session in sessions]


def at_places(places: Iterable[tuple[str, int]], column: str = "position") -> tuple[str, list[Any]]:
    """An SQL condition for rows at these places (session, position), and its parameters."""
    by_session: dict[str, list[int]] = {}
    for session, position in sorted(places):
        by_session.setdefault(session, []).append(position)
    where, values = list[str](), list[Any]()
    for session, positions in by_session.items():
        where.append(f"session_id = %s AND {column} IN ({', '.join(['%s'] * len(positions))})")
        values += [session_value(session), *positions]
    return " OR ".join(where), values


def as_uuid(value: Any) -> UUID:
    """A UUID from a value of the database driver. SQLite's returns text."""
    return value if isinstance(value, UUID) else UUID(value)


def uuid_text(value: Any) -> str:
    """A UUID as text, from a value of the database driver. Several times as fast as through a UUID object."""
    if isinstance(value, UUID):
        return str(value)
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"


def unpack(stored: str | bytes) -> str:
    """Reverses :func:`pack`. Rows of earlier versions contain plain text, or are compressed without the
    dictionary.
    """
    if isinstance(stored, str):
        return stored
    if read := limited_read():
        read.expect(unpacked_size(stored))
    if not hasattr(_codecs, "plain"):
        _codecs.plain, _codecs.with_dictionary = ZstdDecompressor(), ZstdDecompressor(dict_data=_dictionary())
    has_dictionary = len(stored) > 4 and stored[4] & _DICTIONARY_FLAG
    raw: bytes = (_codecs.with_dictionary if has_dictionary else _codecs.plain).decompress(stored)
    return raw.decode()


def unpacked_size(stored: str | bytes) -> int:
    """The bytes of a stored text before :func:`unpack` reads it; of plain text, its characters."""
    return len(stored) if isinstance(stored, str) else max(frame_content_size(stored), len(stored))


def length_of_body(column: str = "body") -> str:
    """A term of SQL for the length of a stored body: its bytes, but on SQLite the characters of a body that
    is not compressed. Only such a body is read for it."""
    return f"LENGTH({column})" if on_sqlite() else f"OCTET_LENGTH({column})"


def sized_json(stored: str) -> tuple[Any, int]:
    """Loads stored JSON. Returns the value and the bytes that it takes in memory, or the length of the JSON,
    which most responses contain, if that is more."""
    move_for_slow_json(stored)
    value = load_dumped(stored)
    return value, max(len(stored), memory_of(value))


def sized_fields(stored: str, names: tuple[str, ...]) -> tuple[dict[str, Any], int]:
    """As :func:`sized_json`, but loads only some fields of an object. At least the text's length counts."""
    if stored == "{}" or not names:
        return {}, 0
    fields = load_fields(stored, names)
    return fields, max(len(stored), memory_of(fields))


def sized_body(stored: str) -> tuple[dict[str, Any], int]:
    """As :func:`sized_json`, for an entry's body. Its model and those of its calls and results count too."""
    body, size = sized_json(stored)
    return body, size + _MODEL * (1 + len(body.get("results", ())) + len(body.get("tool_calls", ())))


def read_text(stored: str | bytes) -> str:
    """Reverses :func:`pack` and counts the text as read by this request, see :func:`count_read`."""
    text = unpack(stored)
    count_read(memory_of(text))
    return text


def read_json(stored: str) -> Any:
    """Loads stored JSON and counts it as read by this request, see :func:`count_read`."""
    value, size = sized_json(stored)
    count_read(size)
    return value


def read_fields(stored: str, names: tuple[str, ...]) -> dict[str, Any]:
    """As :func:`read_json`, but loads only some fields of an object."""
    fields, size = sized_fields(stored, names)
    count_read(size)
    return fields


class PackedText(AnyText):
    """Text stored by :func:`pack`. SQL cannot search it."""

    def from_db_value(self, value: str | bytes | None, *_: Any) -> Any:
        return None if value is None else read_text(value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        text = super().get_db_prep_value(value, connection, prepared)
        return pack(text) if isinstance(text, str) else text


class PackedJSON(PackedText, JSONText):
    """JSON stored by :func:`pack`."""

    def from_db_value(self, value: str | bytes | None, *_: Any) -> Any:
        return None if value is None else read_json(unpack(value))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def compact_uuid(value: UUID) -> Any:
    """A UUID in the form in which a :class:`CompactUUID` stores it."""
    return value.bytes if on_sqlite() else value


def read_compact_uuid(stored: Any) -> UUID:
    """Reverses :func:`compact_uuid`."""
    return stored if isinstance(stored, UUID) else UUID(bytes=stored)


def compact_time(value: datetime) -> Any:
    """A time in the form in which a :class:`CompactTime` stores it."""
    return (value - _EPOCH) // _MICROSECOND if on_sqlite() else value


def read_compact_time(stored: Any) -> datetime:
    """Reverses :func:`compact_time`."""
    return _EPOCH + stored * _MICROSECOND if isinstance(stored, int) else stored


class CompactUUID(AnyUUID):
    """A UUID that SQLite stores as 16 bytes, not as 32 characters. PostgreSQL has a type for it."""

    def get_internal_type(self) -> str:
        return "CompactUUID"

    def db_type(self, connection: Any) -> str:
        return "blob" if connection.vendor == "sqlite" else "uuid"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else compact_uuid(self.to_python(value))

    def from_db_value(self, value: Any, *_: Any) -> UUID | None:
        return None if value is None else read_compact_uuid(value)


class CompactTime(AnyTime):
    """A time that SQLite stores as microseconds since 1970, not as a text of 26 characters."""

    def get_internal_type(self) -> str:
        return "CompactTime"

    def db_type(self, connection: Any) -> str:
        return "bigint" if connection.vendor == "sqlite" else "timestamp with time zone"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else compact_time(self.get_prep_value(value))

    def from_db_value(self, value: Any, *_: Any) -> datetime | None:
        return None if value is None else read_compact_time(value)


class ComputedText(AnyText):
    """A text that a function computes from the row's JSON column on every save."""

    def __init__(self, *args: Any, of: str = "", by: Callable[[Any], str] = str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.of, self.by = of, by

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "of": self.of, "by": self.by}

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        computed = self.by(getattr(model_instance, self.of))
        setattr(model_instance, self.attname, computed)
        return computed


class FoldedText(AnyText):
    """Other text columns of the row, joined and case-folded for searching. Updated on every save.

    Python folds the text because databases disagree about which letters differ only in case.
    """

    def __init__(self, *args: Any, of: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.of = tuple(of)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        name, path, args, options = super().deconstruct()
        return name, path, args, {**options, "of": self.of}

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        folded = fold("\n".join(getattr(model_instance, name) for name in self.of))
        setattr(model_instance, self.attname, folded)
        return folded

"""Long bodies are stored compressed in SQLite; reading gives the same values."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import IntegrityError, connection
from django.db.migrations import RunSQL
from hypothesis import given
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from historyapp.core.json import dump_json, load_dumped
from historyapp.models import Entry, Episode, fields
from historyapp.models.fields import pack, pack_all, size_in_memory, size_of_fields, unpack
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.outcomes import OUTCOME_COLUMNS as WORKED_OUT
from historyapp.services.sessions import create_session
from tests.models.older_rows import insert_project
from tests.services.drafts import act, ok

COMPRESSED = import_module("historyapp.migrations.0013_compressed_bodies")
OUTCOME_COLUMNS = import_module("historyapp.migrations.0024_outcomes_of_steps")
TURNS = import_module("historyapp.migrations.0034_turns")
TOTALS = import_module("historyapp.migrations.0036_totals_of_steps")
_NOT_LATER = [
    field.attname for field in Episode._meta.local_concrete_fields if field.attname not in WORKED_OUT
]
LONG = " ".join(f"Line {number * 7919 % 10007} is dropped at the end of the file." for number in range(50))


@given(st.text() | st.text().map(lambda text: text * 50))
def test_unpacking_reverses_packing(text: str) -> None:
    assert unpack(pack(text)) == text


@pytest.mark.parametrize("level", [1, 3])
def test_texts_that_an_earlier_version_compressed_are_read(level: int) -> None:
    assert unpack(ZstdCompressor(level=level).compress(LONG.encode())) == LONG


def test_the_dictionary_of_stored_texts_stays_the_same() -> None:
    content = Path(fields.__file__).with_name("texts.zdict").read_bytes()
    assert hashlib.sha256(content).hexdigest() == (
        "7b028aee66f8a3842d362d151839c7198d33c5c8ddb23b93ca4543f6dbaef8e8"
    )


@given(st.lists(st.text(max_size=30) | st.text(max_size=30).map(lambda text: text * 50)))
def test_texts_are_packed_together_as_each_alone(texts: list[str]) -> None:
    for some in (texts, texts * 8):  # a few are packed one by one
        assert pack_all(some) == [pack(text) for text in some]


@pytest.fixture
def history(transactional_db: None) -> History:
    project = insert_project("ours")
    session = create_session(project)
    append(
        project,
        session.pk,
        [draft for n in range(3) for draft in (act("read", path=f"{n}"), ok(outputs=LONG))],
    )
    session.refresh_from_db()
    return History(session)


def everything(history: History) -> list[Any]:
    """All that is stored of entries and steps, as readers get it, without columns that are computed again."""
    return [
        list(Entry.objects.order_by("position").values()),
        list(Episode.objects.order_by("number").values(*_NOT_LATER)),
        list(history.entries()),
        history.outline(1, 3),
    ]


def stored() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT typeof(body) FROM historyapp_entry WHERE length(body) > 300")
        bodies = {kind for (kind,) in cursor.fetchall()}
        cursor.execute("SELECT DISTINCT typeof(body) FROM historyapp_entry WHERE kind = 'tool_results'")
        return bodies | {kind for (kind,) in cursor.fetchall()}


@contextmanager
def later_columns() -> Iterator[None]:
    """Adds the columns of later migrations, without which the models of now cannot read."""
    operations = [op for later in (OUTCOME_COLUMNS, TURNS, TOTALS) for op in later.Migration.operations]
    added = [op for op in operations if isinstance(op, RunSQL) and str(op.sql).startswith("ALTER")]
    with connection.cursor() as cursor:
        for operation in added:
            cursor.execute(str(operation.sql))
        yield
        for operation in added:
            cursor.execute(str(operation.reverse_sql))


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL compresses long values itself")
def test_rows_of_an_older_version_are_compressed_and_read_the_same(history: History) -> None:
    written = everything(history)
    with connection.schema_editor(atomic=False) as editor:
        COMPRESSED.decompress(apps, editor)
        assert stored() == {"text"}
        assert everything(history) == written, "rows that were not migrated yet"
        COMPRESSED.compress(apps, editor)
    assert stored() == {"blob"}
    assert everything(history) == written
    with pytest.raises(IntegrityError, match="entries never change"), connection.cursor() as cursor:
        cursor.execute("UPDATE historyapp_entry SET tokens = 0")


@pytest.mark.thorough
@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL compresses long values itself")
def test_a_database_of_an_older_version_reads_the_same_before_and_after(history: History) -> None:
    written = everything(history)
    assert stored() == {"blob"}
    call_command("migrate", "historyapp", "0012", verbosity=0)
    assert stored() == {"text"}
    with later_columns():
        assert everything(history) == written, "rows that were not migrated yet"
    call_command("migrate", "historyapp", verbosity=0)
    assert stored() == {"blob"}
    assert everything(history) == written
    with pytest.raises(IntegrityError, match="entries never change"), connection.cursor() as cursor:
        cursor.execute("UPDATE historyapp_entry SET tokens = 0")


def test_a_long_result_is_read_as_it_was_written(history: History) -> None:
    results = [entry.body for entry in history.entries() if entry.kind == "tool_results"]
    assert [body["results"][0]["outputs"] for body in results] == [LONG] * 3


@pytest.mark.parametrize(
    ("value", "at_most"),
    [
        ([], 1.5),
        ({}, 1.5),
        ([1], 1.5),
        ("ab", 1.5),
        ({"a": 1}, 1.5),
        ({"a": [], "b": []}, 1.5),
        ("abcdefgh", 5),
        ({"abcdefghijklmnopqrst": 1}, 7),
        (300, 4),
        (1.5, 4),
    ],
)
def test_many_short_values_count_with_the_memory_that_they_take(value: Any, at_most: float) -> None:
    stored = dump_json([value] * 20_000)
    tracemalloc.start()
    loaded = load_dumped(stored)
    taken = tracemalloc.get_traced_memory()[0] + len(stored)
    tracemalloc.stop()
    assert len(loaded) == 20_000
    assert taken < at_most * size_in_memory(stored)


def test_texts_count_with_their_length() -> None:
    code = dump_json(["for item in items[1:]:\n    print(item, rows[item])\n" * 1_000])
    assert size_in_memory(code) < 1.3 * len(code)


def test_json_within_a_text_counts_as_a_text() -> None:
    points = dump_json([{"x": number % 10, "y": 1} for number in range(10_000)])
    assert size_in_memory(dump_json({"outputs": points})) < 2.5 * len(points)


def test_short_values_count_in_the_fields_that_are_loaded() -> None:
    lists: dict[str, Any] = {"usage": [[]] * 10_000, "other": 1}
    stored = dump_json(lists)
    assert size_of_fields(stored, ("usage",)) > 64 * 10_000
    assert size_of_fields(stored, ("other",)) == size_of_fields(stored, ()) < 12 * 10_000
    assert size_of_fields(dump_json({"other": "\ud800", **lists}), ("usage",)) > 64 * 10_000

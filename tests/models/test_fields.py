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

from historyapp.core.entries import ToolResults, load_body
from historyapp.core.json import dump_json
from historyapp.models import Entry, Episode, fields
from historyapp.models.fields import pack, pack_all, sized_body, sized_fields, unpack
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


LISTS: list[Any] = [[]] * 10_000


@pytest.mark.parametrize("name", ["usage", "other"])
def test_fields_count_with_the_values_that_are_loaded(name: str) -> None:
    for other in ("x", "\ud800"):  # msgspec refuses lone surrogates
        stored = dump_json({"usage": LISTS, "other": other})
        fields, size = sized_fields(stored, (name,))
        assert list(fields) == [name]
        assert (size > 56 * 10_000) == (name == "usage")
    assert sized_fields(stored, ()) == ({}, 0)


def test_a_body_counts_with_the_models_of_its_calls_and_results() -> None:
    stored = dump_json({"results": [{"status": "success"}] * 1000})
    tracemalloc.start()
    body, size = sized_body(stored)
    entry = load_body("tool_results", body)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert isinstance(entry, ToolResults)
    assert taken < 1.1 * size

import io
import time
from collections.abc import Iterator
from typing import Any

import pytest

from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Operation, Source
from historyapp.models import Entry, Project
from historyapp.services.imports import time_limit
from historyapp.services.imports.files import import_file, inspect_file
from historyapp.services.imports.time_limit import with_time_limit

MESSAGES = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'


def source() -> Source:
    return Source("chat.json", io.BytesIO(MESSAGES))


@pytest.fixture
def slow_importer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes 0.2 s of processor time before its third operation, where 0.1 s are allowed."""
    importer = IMPORTERS["openai_chat"]
    read = importer.read

    def slowly(given: Source) -> Iterator[Operation]:
        for number, operation in enumerate(read(given)):
            started = time.thread_time()
            while number == 2 and time.thread_time() < started + 0.2:
                pass
            yield operation

    monkeypatch.setattr(time_limit, "BASE_SECONDS", 0.1)
    monkeypatch.setattr(type(importer), "read", lambda self, given: slowly(given))


def test_a_file_that_takes_too_long_is_named_and_its_beginning_kept(
    db: None, project: Project, slow_importer: Any
) -> None:
    report = import_file(project, source(), format="openai_chat")
    assert "took more than 0 s of processor time" in report.error
    assert [entry.kind for entry in Entry.objects.all()] == ["model_input"]


def test_an_inspection_has_the_same_limit(slow_importer: Any) -> None:
    assert "processor time" in inspect_file(source(), format="openai_chat").error


def test_the_time_of_the_reader_of_operations_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "BASE_SECONDS", 0.1)
    operations = list[Operation]()
    for operation in with_time_limit(IMPORTERS["openai_chat"].read(source()), source()):
        started = time.thread_time()
        while time.thread_time() < started + 0.1:
            pass
        operations.append(operation)
    assert len(operations) == 3


def test_a_longer_file_has_a_longer_limit(monkeypatch: pytest.MonkeyPatch, slow_importer: Any) -> None:
    monkeypatch.setattr(time_limit, "SECONDS_PER_MB", 1e6)
    assert inspect_file(source(), format="openai_chat").error == ""

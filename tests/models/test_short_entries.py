"""Suggestions and previews read the shortest entries, however long the others are."""

import tracemalloc
from collections.abc import Callable

import pytest

from historyapp.core.entries import ModelOutput, ToolCall
from historyapp.core.lineage import Span
from historyapp.models import Project, long_rows, short_entries
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.names.index import catch_up as catch_up_names
from historyapp.services.names.origins import origins_of
from historyapp.services.search.files import project_files
from historyapp.services.search.index import catch_up
from historyapp.services.search.suggestions import suggestions
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, draft, ok
from tests.services.test_memory_of_reads import SIZE, noise

STEPS = 12


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


def words_of(project: Project) -> Callable[[], list[str]]:
    """Suggests words of steps with long results."""
    session = create_session(project)
    for number in range(STEPS):
        append(project, session.pk, [act(f"needle{number:02}"), ok(outputs=noise(number))])
    catch_up(project.pk, lambda: False)
    return lambda: [suggestion.text for suggestion in suggestions(project.pk, "needl")[1]]


def long_outputs(project: Project) -> None:
    session = create_session(project)
    for number in range(STEPS):
        tool_call = ToolCall(id="t", name="read", arguments={"path": f"src/needle{number:02}.py"})
        raw = {"x": noise(number)} if number else None
        append(project, session.pk, [draft(ModelOutput(tool_calls=(tool_call,), raw_message=raw))])
    catch_up(project.pk, lambda: False)


def values_of(project: Project) -> Callable[[], list[str]]:
    """Suggests files of long outputs."""
    long_outputs(project)
    return lambda: [suggestion.text for suggestion in suggestions(project.pk, "file:src")[1]]


def files_of(project: Project) -> Callable[[], list[str]]:
    """Finds files of long outputs."""
    long_outputs(project)
    return lambda: [file.path for file in project_files(project.pk, "src needle")]


def lines_of(project: Project) -> Callable[[], list[str]]:
    """Shows the lines of names, which are in results with long metadata."""
    session = create_session(project)
    paths = [f"src/needle{number:02}.py" for number in range(STEPS)]
    for number, path in enumerate(paths):
        metadata = {"x": noise(number)} if number else {}
        append(project, session.pk, [act(), ok(outputs=f"see {path}")._replace(metadata=metadata)])
    append(project, session.pk, [act("read", paths=paths)])
    session.refresh_from_db()
    catch_up_names(session.lineage(), limit=None)

    def lines() -> list[str]:
        origins = origins_of(History(session), STEPS + 1)
        return [one.first.text for one in origins.names if one.first is not None and one.first.text]

    return lines


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (words_of, "needle05"),
        (values_of, "file:src/needle00.py"),
        (files_of, "src/needle00.py"),
        (lines_of, "see src/needle00.py"),
    ],
)
def test_long_entries_are_not_read(
    project: Project,
    record: Callable[[Project], Callable[[], list[str]]],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(short_entries, "MAX_SIZE", SIZE + SIZE // 2)
    monkeypatch.setattr(long_rows, "AT_ONCE", SIZE)
    read = record(project)
    assert found in read()  # loads what is loaded once in a process
    tracemalloc.start()
    try:
        read()
        assert tracemalloc.get_traced_memory()[1] < 7 * SIZE
    finally:
        tracemalloc.stop()


def test_the_shortest_entries_are_read_in_the_order_of_the_spans(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("a" * 150), ask("b" * 60), ask("c"), ask("d" * 100), ask("e"), ask("f")])
    spans = [Span(str(session.pk), 4, 5), Span(str(session.pk), 1, 3)]

    def read() -> list[int]:
        return [entry.position for entry in short_entries.short_entries(spans)]

    assert read() == [4, 5, 1, 2, 3]
    monkeypatch.setattr(short_entries, "MAX_SIZE", 200)
    assert read() == [5, 2, 3]
    monkeypatch.setattr(short_entries, "MAX_ENTRIES", 1)
    assert read() == [3]
    assert short_entries.short_entries([]) == []


def test_a_body_that_is_short_only_when_compressed_is_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = create_session(project)
    append(project, session.pk, [ask("a"), ask("b" * 100_000), ask("c")])
    monkeypatch.setattr(short_entries, "MAX_SIZE", 10_000)
    entries = short_entries.short_entries([Span(str(session.pk), 1, 3)])
    assert [entry.body["content"] for entry in entries] == ["a", "c"]

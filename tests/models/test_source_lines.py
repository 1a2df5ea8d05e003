"""The lines of results in which the agent read names: read together, and cached by the process."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import Project, Session, source_lines
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, ok, tool_calls


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(name="Alice's")


@pytest.fixture
def session(project: Project) -> Session:
    return create_session(project)


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    source_lines._cache.clear()
    yield
    source_lines._cache.clear()


def history(session: Session, as_of: int | None = None) -> History:
    return History(Session.objects.get(pk=session.pk), as_of)


def lines(past: History, *names: tuple[int, str]) -> list[str | None]:
    """The line of each name in the results of the step with this number."""
    steps = past.outline(1, past.steps)
    found = past.lines_with([(steps[number - 1], name) for number, name in names])
    return [line.text if line else None for line in found]


def test_each_name_has_its_line_of_the_step(project: Project, session: Session) -> None:
    results = [ok("a", "see\nfirst_name = 1\nsecond_name = 2"), ask("go on"), ok("b", "third_name = 3")]
    append(project, session.pk, [act(), ok(None, "first_name = 0"), tool_calls("a", "b"), *results])
    names = (2, "second_name"), (1, "first_name"), (2, "first_name"), (2, "third_name"), (1, "third_name")
    expected = ["second_name = 2", "first_name = 0", "first_name = 1", "third_name = 3", None]
    assert lines(history(session), *names) == expected


def test_the_results_of_all_steps_are_read_in_one_query_and_once(project: Project, session: Session) -> None:
    append(project, session.pk, [d for n in range(40) for d in (act(), ok(None, f"name_{n} = {n}"))])
    past = history(session)
    steps = past.outline(1, past.steps)
    names = [(steps[n], f"name_{n}") for n in (1, 7, 20, 33)]
    with CaptureQueriesContext(connection) as queries:
        found = past.lines_with(names)
    assert [line.text for line in found if line] == [
        "name_1 = 1",
        "name_7 = 7",
        "name_20 = 20",
        "name_33 = 33",
    ]
    assert len(queries) == 1
    with CaptureQueriesContext(connection) as queries:
        assert past.lines_with(names) == found
        assert history(session).lines_with(names[:2]) == found[:2]
    assert len([query for query in queries if "historyapp_entry" in query["sql"]]) == 0


def test_a_step_with_a_new_result_is_read_again(project: Project, session: Session) -> None:
    append(project, session.pk, [tool_calls("a", "b"), ok("a", "first_name = 1")])
    assert lines(history(session), (1, "second_name")) == [None]
    append(project, session.pk, [ok("b", "second_name = 2")])
    assert lines(history(session), (1, "second_name")) == ["second_name = 2"]
    assert lines(history(session, 2), (1, "second_name")) == [None]


def test_a_fork_and_a_rewind_have_the_lines_of_their_own_steps(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok(None, "a_name = 1"), act(), ok(None, "a_name = 2")])
    forked = fork(project, session.pk, at_position=2)
    append(project, forked.pk, [act(), ok(None, "a_name = 3")])
    rewind(project, session.pk, Target(to_position=2))
    append(project, session.pk, [act(), ok(None, "a_name = 4")])
    names = (1, "a_name"), (2, "a_name")
    assert lines(history(forked), *names) == ["a_name = 1", "a_name = 3"]
    assert lines(history(session), *names) == ["a_name = 1", "a_name = 4"]
    assert lines(history(session, 4), *names) == ["a_name = 1", "a_name = 2"]


def test_the_oldest_lines_leave_the_cache_first(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_lines, "MAX_CACHED", 2)
    append(project, session.pk, [act(), ok(None, "name_a, name_b, name_c")])
    lines(history(session), (1, "name_a"), (1, "name_b"), (1, "name_c"))
    assert [key.name for key in source_lines._cache.lines] == ["name_b", "name_c"]


def test_threads_share_the_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "MAX_CACHED", 3)
    cache, session = source_lines._LineCache(), uuid4()
    keys = [source_lines._LineKey(session, position, "name") for position in range(8)]

    def use(_: int) -> None:
        for _ in range(2_000):
            for key in keys:
                cache.add(key, None)
                cache.known(keys)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert len(cache.lines) == 3

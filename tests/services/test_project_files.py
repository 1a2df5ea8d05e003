"""Files of a project by words of their paths."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.rewinds import Target, rewind
from historyapp.services.search import files as module
from historyapp.services.search.files import project_files
from historyapp.services.search.index import catch_up
from historyapp.services.sessions import change_session, create_session
from historyapp.wire.problems import SearchTooSlow
from tests.services.drafts import act, ok


def reading(project: Project, *paths: str) -> Session:
    session = create_session(project, names={"title": "Reader"})
    for path in paths:
        append(project, session.pk, [act("read_file", path=path), ok()])
    return session


def paths(project: Project, text: str) -> list[str]:
    return [file.path for file in project_files(project.pk, text)]


def test_files_of_all_sessions_are_found_by_the_beginnings_of_words(project: Project) -> None:
    reading(project, "src/parser.py", "src/Lexer.py")
    newer = reading(project, "docs/parsing.md", "src/parser.py")
    assert paths(project, "pars") == ["src/parser.py", "docs/parsing.md"], "the newest step first"
    assert paths(project, "src lex") == ["src/Lexer.py"]
    assert paths(project, "parser.p") == ["src/parser.py"], "one letter after the last word"
    assert paths(project, "arser") == []
    assert paths(project, "pa") == paths(project, "") == paths(project, "./") == []
    (file,) = project_files(project.pk, "parser")
    assert (file.newest.session, file.newest.row.step) == (newer, 2)


def test_steps_that_are_cut_off_and_archived_sessions_are_left_out(project: Project) -> None:
    session = reading(project, "kept.py", "dropped.py")
    rewind(project, session.pk, Target(to_step=1))
    assert (paths(project, "kept"), paths(project, "dropped")) == (["kept.py"], [])
    change_session(project, session.pk, {"status": "archived"})
    assert paths(project, "kept") == []


def test_only_the_project_is_searched(project: Project) -> None:
    reading(Project.objects.create(name="Another"), "secret.py")
    assert paths(project, "secret") == []


def test_a_beginning_that_is_too_common_must_be_a_word(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading(project, "src/parser.py", "srcs/other.py")
    attempts: list[float] = []

    @contextmanager
    def too_slow_at_first(seconds: float) -> Iterator[None]:
        attempts.append(seconds)
        if len(attempts) == 1:
            raise SearchTooSlow("slow")
        yield

    monkeypatch.setattr(module, "limit_statements", too_slow_at_first)
    assert paths(project, "src") == ["src/parser.py"]
    monkeypatch.setattr(module, "limit_statements", lambda _: (_ for _ in ()).throw(SearchTooSlow("slow")))
    assert paths(project, "src") == []


def test_the_queries_do_not_grow_with_the_project(project: Project) -> None:
    def queries() -> list[Any]:
        assert catch_up(project.pk, lambda: False)
        with CaptureQueriesContext(connection) as captured:
            assert project_files(project.pk, "module")
        return list(captured)

    reading(project, "src/module.py")
    few = len(queries())
    for _ in range(3):
        reading(project, *(f"src/module_{number}.py" for number in range(20)))
    assert len(queries()) == few
    assert len(paths(project, "module")) <= module.MAX_STEPS

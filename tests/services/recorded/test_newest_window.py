"""A fork, a rewind and a continued import keep the window that their history records for the model."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from historyapp.core.entries import EntryDraft, ModelOutput
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.contexts import RequestedContext
from historyapp.services.recorded import windows
from historyapp.services.recorded.requests import recorded_request
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.sessions import change_session, create_session
from historyapp.services.snapshots import serve_context
from tests.services.drafts import answer, ask, draft

WINDOW, USUAL = 258_400, 922_000


def output(window: int | None = WINDOW, model: str = "gpt-5.4", sent: int = 30_000) -> EntryDraft:
    source = {"line": 1} | ({"window": window} if window else {})
    usage = {"input_tokens": sent, "output_tokens": 9}
    return draft(ModelOutput(text="done"), model=model, usage=usage, source=source)


@pytest.fixture
def imported(project: Project) -> Session:
    session = create_session(project, names={"model": "gpt-5.4", "agent": "codex"})
    append(project, session.pk, [ask("a"), output(200_000), ask("b"), output(), ask("c"), output()])
    return Session.objects.get(pk=session.pk)


def budget(session: Session, **options: object) -> int | None:
    requested = RequestedContext(**options)  # type: ignore[arg-type]
    return serve_context(Session.objects.get(pk=session.pk), requested).built.spec.max_tokens


def windows_of(session: Session) -> list[int | None]:
    history = History(Session.objects.get(pk=session.pk))
    return [recorded_request(history, step).model_window for step in range(1, history.steps + 1)]


def test_the_first_new_step_of_a_fork_has_the_window_of_its_parent(
    project: Project, imported: Session
) -> None:
    child = fork(project, imported.pk, at_position=4)
    assert budget(child) == WINDOW
    append(project, child.pk, [ask("go on"), answer()])
    assert windows_of(child) == [200_000, WINDOW, WINDOW]
    assert (budget(child), budget(child, as_of=2)) == (WINDOW, 200_000)
    grandchild = fork(project, child.pk, at_position=6)
    assert budget(grandchild) == WINDOW


def test_a_rewind_leads_back_to_the_window_of_then(project: Project, imported: Session) -> None:
    rewind(project, imported.pk, Target(to_position=2))
    assert budget(imported) == 200_000
    append(project, imported.pk, [ask("again"), answer()])
    assert windows_of(imported) == [200_000, 200_000]


@pytest.mark.parametrize("is_fork", [True, False])
def test_many_new_steps_do_not_hide_the_window(
    project: Project, imported: Session, monkeypatch: pytest.MonkeyPatch, is_fork: bool
) -> None:
    monkeypatch.setattr(windows, "MAX_OUTPUTS", 3)
    monkeypatch.setattr(windows, "MAX_ENTRIES", 6)
    session = fork(project, imported.pk, at_position=6) if is_fork else imported
    for _ in range(12):
        append(project, session.pk, [ask("go on"), answer()])
    assert budget(session) == WINDOW
    assert windows_of(session)[-1] == WINDOW


def test_another_model_has_its_usual_window_and_settings_come_first(
    project: Project, imported: Session
) -> None:
    assert budget(imported, model="gpt-5.5") == USUAL
    assert budget(imported, max_tokens=5_000) == 5_000
    assert budget(imported, max_tokens=None) is None
    change_session(project, imported.pk, {"settings": {"max_tokens": 7_000}})
    assert budget(imported) == 7_000


def test_a_window_smaller_than_a_later_bill_is_not_believed(project: Project, imported: Session) -> None:
    append(project, imported.pk, [ask("more"), output(None, sent=300_000)])
    assert budget(imported) == USUAL
    assert windows_of(imported)[-1] == USUAL


def test_writes_do_not_read_the_metadata_of_outputs(project: Project, imported: Session) -> None:
    """Outputs can have megabytes of metadata, and each of these requests holds SQLite's write lock."""

    with CaptureQueriesContext(connection) as queries:
        change_session(project, imported.pk, {"settings": {"compression_share": 0.5}})
        child = fork(project, imported.pk, at_position=4)
        rewind(project, child.pk, Target(to_position=2))
    statements = [query["sql"] for query in queries]
    assert any("UPDATE" in sql for sql in statements)
    assert not [sql for sql in statements if "metadata" in sql.partition("FROM")[0] and "'output'" in sql]
    assert Session.objects.get(pk=imported.pk).compress_at_tokens == USUAL // 2


def test_a_session_without_outputs_has_the_usual_window(project: Project) -> None:
    assert budget(create_session(project, names={"model": "gpt-5.4"})) == USUAL

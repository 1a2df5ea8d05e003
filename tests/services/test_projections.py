"""Rebuilding reports and repairs differences. ``test_time_travel`` shows that it reproduces everything."""

import time
from threading import Thread

import pytest
from django.db import connection, transaction

from historyapp.core import usage
from historyapp.core.entries import ModelOutput
from historyapp.core.projection import Totals
from historyapp.models import Episode, Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.projections import parents_first, rebuild
from historyapp.services.rewinds import Target, fork, rewind
from historyapp.services.statements import store_excerpts
from tests.services.drafts import act, ask, draft, failed, ok


def test_wrong_rows_are_reported_and_repaired(project: Project, session: Session) -> None:
    append(project, session.pk, [ask("go"), act(), ok(), act(), failed()])
    Session.objects.update(steps=7, errors=0)
    Episode.objects.filter(number=2).update(status="success")
    Episode.objects.filter(number=1).delete()
    again = Session.objects.get()
    expected = {
        "session differed in steps, errors",
        "step row 2 was missing",
        "step row 4 differed in status",
    }
    assert set(rebuild(again, check_only=True).differences) == expected
    assert Session.objects.get().steps == 7
    assert set(rebuild(again).differences) == expected
    rebuilt = Session.objects.get()
    assert (rebuilt.steps, rebuilt.errors) == (2, 1)
    assert rebuild(rebuilt).differences == []


@pytest.mark.parametrize(
    ("fields", "differences"),
    [
        ([1, 8], ["entry 1 has different running totals", "session differed in tail"]),
        ([1, 7, 2, 0, 0, 0, 0], ["session differed in tail"]),
    ],
    ids=["wrong", "of a version that kept fewer"],
)
def test_totals_by_model_are_compared_as_far_as_they_are_stored(
    project: Project,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    fields: list[int],
    differences: list[str],
) -> None:
    used = {"input_tokens": 7, "output_tokens": 2}
    with monkeypatch.context() as then:
        dump = Totals.dump
        then.setattr(Totals, "dump", lambda self: {**dump(self), "models": {"gpt-5": fields}})
        append(project, session.pk, [draft(ModelOutput(text="done"), model="gpt-5", usage=used)])
    assert rebuild(session).differences == differences
    assert rebuild(session).differences == differences[:-1]


def test_totals_of_earlier_versions_may_have_longer_names_of_models(
    project: Project, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {"input_tokens": 7, "output_tokens": 2}
    with monkeypatch.context() as then:
        then.setattr(usage, "MAX_MODEL_NAMES", 10_000)
        for number in range(5):
            model = f"{number}" + "\N{GRINNING FACE}" * 90
            append(project, session.pk, [draft(ModelOutput(text="done"), model=model, usage=used)])
    assert rebuild(session).differences == ["session differed in tail"]
    append(project, session.pk, [ask("go")])
    assert rebuild(session).differences == []
    tail = Session.objects.get(pk=session.pk).tail
    assert [*Totals.load(tail["totals"]).models] == [""]


def test_tails_of_earlier_versions_may_have_an_excerpt(project: Project, session: Session) -> None:
    """They had the excerpt of a step until it ended. The column of its row had it, too."""
    append(project, session.pk, [act()])
    stored = Session.objects.get(pk=session.pk)
    stored.tail["step"]["excerpt"] = ["read: a.py", 3, "a.py", [], "", 0, 9, 0]
    stored.save(update_fields=["tail"])
    Episode.objects.filter(session=session).update(excerpt="[]")
    assert rebuild(stored, check_only=True).differences == []
    append(project, session.pk, [ok()])
    assert "excerpt" not in Session.objects.get(pk=session.pk).tail["step"]
    assert not Episode.objects.filter(session=session, excerpt__isnull=False).exists()
    assert rebuild(Session.objects.get(pk=session.pk)).differences == []


def test_rows_of_earlier_versions_get_their_outcomes_and_differ_in_nothing(
    project: Project, session: Session
) -> None:
    append(project, session.pk, [act(path="a.py"), failed(), act(path="b.py")])
    new = ("kind", "target", "likely_failure", "error_line", "total_likely_failures")
    Episode.objects.update(kind="", target="", error_line="")
    earlier = Session.objects.get()
    step = {name: value for name, value in earlier.tail["step"].items() if name not in new}
    Session.objects.update(tail={**earlier.tail, "step": step})
    assert rebuild(Session.objects.get(), check_only=True).differences == []
    assert rebuild(Session.objects.get()).differences == []
    rows = Episode.objects.order_by("anchor").values_list("kind", "target", "error_line")
    assert list(rows) == [("read", "a.py", "no such file"), ("read", "b.py", "")]
    assert Session.objects.get().tail == earlier.tail


def test_an_extra_row_is_reported(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok()])
    row = Episode.objects.get()
    row.anchor = 99
    row.save(force_insert=True)
    assert rebuild(session).differences == ["step row 99 was not in the log"]


def test_rebuilding_long_sessions_with_rewinds_changes_nothing(project: Project, session: Session) -> None:
    for _ in range(3):
        append(project, session.pk, [one for _ in range(400) for one in (act(), ok())])
        rewind(project, session.pk, Target(episodes=150))
    rebuilt = rebuild(Session.objects.get(), check_only=True)
    assert (rebuilt.differences, rebuilt.entries) == ([], 2403)


def test_parents_come_before_their_forks(project: Project, session: Session) -> None:
    append(project, session.pk, [act(), ok()])
    child = fork(project, session.pk)
    grandchild = fork(project, child.pk)
    assert list(parents_first()) == [session, child, grandchild]


def test_the_count_of_likely_failures_goes_back_with_a_rewind(project: Project, session: Session) -> None:
    def run(outputs: str) -> None:
        append(project, session.pk, [act("bash", command="make | tail"), ok(outputs=outputs)])

    for outputs in ("error: one", "fine", "error: two"):
        run(outputs)
    rewind(project, session.pk, Target(to_step=2))
    run("error: three")
    child = fork(project, session.pk, at_step=1)
    append(project, child.pk, [act("bash", command="make | tail"), ok(outputs="error: four")])
    for one, total in ((session, 2), (child, 2)):
        one.refresh_from_db()
        assert one.live_tail.step is not None
        assert one.live_tail.step.total_likely_failures == total
        assert rebuild(one, check_only=True).differences == []
    assert History(session, as_of=6).tail.step is not None
    assert [row.total_likely_failures for row in History(session, as_of=6).rows(1, 3)] == [1, 1, 2]


@pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite has no locks of rows")
@pytest.mark.django_db(transaction=True)
def test_a_rebuild_locks_steps_in_the_order_of_a_forks_snapshot(project: Project, session: Session) -> None:
    """In another order, each could have a row that the other one waits for."""
    append(project, session.pk, [act(), ok(), act(), ok()])
    store_excerpts([(session.pk, 1, "a")])  # PostgreSQL stores the row again, after the others
    Episode.objects.update(excerpt=None)

    def run() -> None:
        try:
            rebuild(session)
        finally:
            connection.close()

    thread = Thread(target=run)
    with transaction.atomic():
        store_excerpts([(session.pk, 1, "a")])
        thread.start()
        with connection.cursor() as cursor:
            is_waiting = False
            while not is_waiting:
                time.sleep(0.01)
                cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
                is_waiting = cursor.fetchone() is not None
        assert Episode.objects.select_for_update(nowait=True).filter(anchor=3).exists()
    thread.join()

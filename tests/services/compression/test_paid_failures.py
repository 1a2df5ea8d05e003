"""Automatic runs do not pay again for steps whose summary failed although it was paid."""

import pytest

from historyapp.core.strategies.base import NOT_REPEATED, PAID
from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.families import SharedEntries
from historyapp.services.append import append
from historyapp.services.compression import run as run_module
from historyapp.services.compression.items import plan
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import compress_if_due, retry_run
from historyapp.services.compression.store import MAX_ERROR, error_of
from historyapp.services.compression.summarise import ItemResult, ItemUsage
from historyapp.services.projects import change_project
from historyapp.services.rewinds import fork
from historyapp.services.sessions import change_session, create_session
from tests.llm.loopback import Answer, Loopback, Recorded
from tests.services.drafts import act, ok

REFUSED = Answer(refusal="I cannot help with that.")


@pytest.fixture
def session(project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose steps are summarised one by one by a model, when there are four more than four."""
    monkeypatch.setattr(run_module, "MAX_WRITE_PAUSE", 0)
    change_project(project, {"paid_automatic_compression": True})
    session = create_session(project)
    settings = {"full_message_count": 0, "compression_batch_size": 4}
    return change_session(project, session.pk, {"settings": settings})


def record(session: Session, steps: int = 4) -> None:
    drafts = [draft for _ in range(steps) for draft in (act("read", path="a.py"), ok(outputs="fine " * 50))]
    append(session.project, session.pk, drafts)


def carry_out(session: Session) -> CompressionRun:
    run = compress_if_due(session.pk)
    assert run is not None
    process_run(run.pk)
    run.refresh_from_db()
    return run


def errors(run: CompressionRun) -> list[str]:
    return list(run.items.filter(state=CompressionItem.State.FAILED).values_list("error", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_refused_step_is_paid_once_by_automatic_runs_and_again_when_a_person_retries(
    session: Session, loopback: Loopback
) -> None:
    """Run n paid for all steps of the runs before it: 144 calls for 32 steps."""
    loopback.default = lambda _: REFUSED
    record(session)
    first = carry_out(session)
    assert (first.state, len(loopback.requests)) == ("failed", 4)
    assert all(error.endswith(PAID) for error in errors(first))
    record(session)
    second = carry_out(session)
    assert (second.from_step, second.to_step, len(loopback.requests)) == (5, 8, 8)
    retry_run(first, actor="a person")
    process_run(first.pk)
    assert len(loopback.requests) == 12


@pytest.mark.django_db(transaction=True)
def test_a_run_that_covers_paid_failures_again_pays_for_the_other_steps_only(
    session: Session, loopback: Loopback
) -> None:
    """Another failure that cost nothing leads it back. A writer may change the size of batches meanwhile."""
    record(session)
    first = compress_if_due(session.pk)
    assert first is not None
    plan(first.pk)
    first.items.filter(number__in=(1, 3)).update(state="failed", error=f"The model refused. {PAID}")
    first.items.filter(number=2).update(state="failed", error="The rate limit is reached.")
    CompressionRun.objects.filter(pk=first.pk).update(failed=3)
    process_run(first.pk)
    assert len(loopback.requests) == 1
    settings = {"compression_strategy": "ai_summary", "compression_batch_size": 2}
    change_session(session.project, session.pk, {"settings": settings})
    record(session, 2)
    loopback.default = lambda _: Answer(text='{"summary": "It read a file."}')
    second = carry_out(session)
    states = second.items.order_by("number").values_list("first_step", "last_step", "state")
    assert list(states) == [(2, 3, "failed"), (4, 5, "done")]
    assert len(loopback.requests) == 2


@pytest.mark.django_db(transaction=True)
def test_forks_do_not_pay_again_for_refused_steps_that_they_share(
    session: Session, loopback: Loopback
) -> None:
    loopback.default = lambda _: REFUSED
    record(session, 3)
    forks = [fork(session.project, session.pk) for _ in range(2)]
    for one in (*forks, session):
        record(one, 1)
    runs = [carry_out(one) for one in (*forks, session)]
    assert [(run.total, run.failed, run.calls) for run in runs] == [(4, 4, 4), (4, 4, 1), (4, 4, 1)]
    assert len(loopback.requests) == 6


@pytest.mark.django_db(transaction=True)
def test_a_refused_digest_is_not_paid_again_until_it_has_twice_the_steps(
    session: Session, loopback: Loopback
) -> None:
    digests = list[Recorded]()

    def answer(request: Recorded) -> Answer:
        if "stands for all of them" not in str(request.body):
            return Answer(text="It read src/module.py and found nothing of interest in it. " * 3)
        digests.append(request)
        return REFUSED

    loopback.default = answer
    change_session(session.project, session.pk, {"settings": {"max_summary_length": 600}})
    counts = []
    for _ in range(3):
        record(session)
        counts.append((carry_out(session).state, len(digests)))
    assert counts == [("partly_failed", 1), ("partly_failed", 1), ("partly_failed", 2)]


@pytest.mark.parametrize(
    ("result", "ends_run", "is_marked"),
    [
        (ItemResult(1, error="Refused.", usage=ItemUsage(1, 10, 2)), False, True),
        (ItemResult(1, error="No key.", usage=ItemUsage(2, 10, 2), fatal=True), True, True),
        (ItemResult(1, error="Broken.", usage=ItemUsage(1), may_be_billed=True), False, True),
        (ItemResult(1, error="Timed out.", usage=ItemUsage(1), may_be_billed=True), True, False),
        (ItemResult(1, error="Overloaded.", usage=ItemUsage(1)), False, False),
        (ItemResult(1, error=f"Long. {NOT_REPEATED}", usage=ItemUsage(1, 10, 2)), False, False),
        (ItemResult(1, error="word " * 1000, usage=ItemUsage(1, 10, 2)), False, True),
    ],
)
def test_an_error_says_that_its_item_was_paid(result: ItemResult, ends_run: bool, is_marked: bool) -> None:
    error = error_of(result, ends_run=ends_run)
    assert (error.endswith(PAID), len(error) <= MAX_ERROR) == (is_marked, True)


@pytest.mark.django_db
def test_shared_entries_belong_to_the_session_that_recorded_them(project: Project) -> None:
    session = create_session(project)
    record(session, 2)
    child = fork(project, session.pk)
    record(child, 1)
    sister, grandchild, other = fork(project, session.pk), fork(project, child.pk), create_session(project)
    for member in (session, child, sister, grandchild):
        shared = SharedEntries(member.pk)
        assert set(shared.sessions) == {session.pk, child.pk, sister.pk, grandchild.pk}
        assert [shared.owner(grandchild.pk, position) for position in (4, 5, 6, 7)] == [
            session.pk, child.pk, child.pk, grandchild.pk,
        ]  # fmt: skip
        assert shared.owner(sister.pk, 5) == sister.pk
    assert SharedEntries(other.pk).sessions == [other.pk]

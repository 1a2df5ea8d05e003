"""Automatic runs pay for a few times the tokens that were recorded, however often steps are rewound."""

from uuid import UUID, uuid4

import pytest

from historyapp.models import CompressionItem, CompressionRun, Project, Session
from historyapp.models.families import SharedEntries
from historyapp.models.recorded_tokens import recorded_tokens
from historyapp.services.append import append
from historyapp.services.compression import automatic_limit, summarise
from historyapp.services.compression import run as run_module
from historyapp.services.compression.already_made import leave_out_needless
from historyapp.services.compression.claims import claim
from historyapp.services.compression.items import plan
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import compress_if_due, retry_run
from historyapp.services.projects import change_project
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import change_session, create_session
from tests.llm.loopback import Answer, Broken, Loopback, Refusal
from tests.services.drafts import act, ok

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session(project: Project, loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session of three steps. A model summarises four together."""
    monkeypatch.setattr(run_module, "MAX_WRITE_PAUSE", 0)
    monkeypatch.setattr(automatic_limit, "TOKENS_OF_CALL", 0)
    loopback.default = lambda _: Answer(text='{"summary": "It read a file."}')
    change_project(project, {"paid_automatic_compression": True})
    session = create_session(project)
    settings = {
        "full_message_count": 0, "compression_batch_size": 4, "compression_strategy": "ai_summary",
    }  # fmt: skip
    session = change_session(project, session.pk, {"settings": settings})
    record(session, 3, "fine " * 100)
    return session


def record(session: Session, steps: int = 1, outputs: str = "") -> None:
    drafts = [draft for _ in range(steps) for draft in (act("read", path="a.py"), ok(outputs=outputs))]
    append(session.project, session.pk, drafts)


def recorded(session: Session) -> int:
    return recorded_tokens(SharedEntries(session.pk), enough=1 << 40)


def due(session: Session) -> CompressionRun:
    run = compress_if_due(session.pk)
    assert run is not None
    plan(run.pk)
    return run


def carry_out(session: Session) -> CompressionRun:
    run = due(session)
    process_run(run.pk)
    run.refresh_from_db()
    return run


def repeat(session: Session, way: str) -> Session:
    """Makes a run for the first three steps due again, for a few bytes."""
    if way == "fork":
        session = fork(session.project, session.pk, at_step=3)
    else:
        rewind(session.project, session.pk, Target(to_step=3))
        everything = rewind(session.project, session.pk, Target(to_step=0))
        undo_rewind(session.project, session.pk, everything.position)
    record(session)
    return session


@pytest.mark.parametrize("way", ["rewind", "fork"])
def test_steps_whose_summary_is_cut_off_are_not_paid_again_and_again(
    session: Session, loopback: Loopback, way: str
) -> None:
    """320 KB were paid again for each 290 bytes, without an end."""
    first = carry_out(repeat(session, way))
    assert (first.from_step, first.to_step, first.done) == (1, 4, 1)
    assert carry_out(repeat(session, way)).done == 1, "a rewind or a fork is usually honest"
    first.tokens_in = automatic_limit.MAX_RATIO * (recorded(session) + 100)
    first.save()
    repeated = repeat(session, way)
    last = carry_out(repeated)
    assert (last.from_step, last.to_step, last.state, len(loopback.requests)) == (1, 4, "failed", 2)
    assert "They continue when more is recorded." in last.note

    retry_run(last, actor="a person")
    process_run(last.pk)
    assert len(loopback.requests) == 3, "a person, or a key with `spend`, may pay"

    record(repeated, 4, "fine " * 200)
    assert (carry_out(repeated).state, len(loopback.requests)) == ("succeeded", 4)


def test_repeated_summaries_do_not_raise_the_limit(session: Session, loopback: Loopback) -> None:
    """Each summary of more than a tenth of its steps allowed the next one: 26 of 26 were paid."""
    first = carry_out(repeat(session, "rewind"))
    first.tokens_after = 1_000 * recorded(session)
    first.tokens_in = 15 * recorded(session)
    first.save()
    assert carry_out(repeat(session, "rewind")).state == "succeeded", "digests read summaries, too"
    first.tokens_in = 20 * recorded(session)
    first.save()
    last = carry_out(repeat(session, "rewind"))
    assert (last.to_step, last.state, len(loopback.requests)) == (4, "failed", 2)


def test_failed_attempts_that_may_be_billed_count(
    session: Session, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """52 calls for 40 steps were paid in 26 rounds, and none of them counted."""
    monkeypatch.setattr(summarise, "sleep", lambda _: None)
    loopback.default = lambda _: Broken("cut", after=3)
    run = carry_out(repeat(session, "rewind"))
    attempts = len(loopback.requests)
    assert (run.state, attempts > 0, run.tokens_out) == ("failed", True, 0)
    assert run.tokens_in >= attempts * recorded(session) // 2
    loopback.default = lambda _: Refusal(400, "No.", "invalid_request_error")
    repeated = carry_out(repeat(session, "rewind"))
    assert (repeated.calls, repeated.tokens_in) == (1, 0), "what was refused costs nothing"


def test_claims_of_workers_that_are_paying_count(session: Session, project: Project) -> None:
    forks = [fork(project, session.pk) for _ in range(2)]
    for one in forks:
        record(one)
    first, second = map(due, forks)
    items = claim(first.pk, uuid4(), 1)
    CompressionItem.objects.filter(pk=items[0].pk).update(tokens_before=10 * recorded(session) - 1)
    owner = uuid4()
    claimed = claim(second.pk, owner, 1)
    assert (len(claimed), leave_out_needless(second, owner, claimed).items) == (1, [])
    assert second.items.get().state == "failed"


def test_beyond_the_limit_all_waiting_items_fail_at_once(
    session: Session, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may have 100,000 items. They are not claimed one by one."""
    changes = {"compression_strategy": "episode_summary", "compression_batch_size": 40}
    change_session(session.project, session.pk, {"settings": changes})
    record(session, 37)
    run, claims = due(session), list[int]()
    monkeypatch.setattr(automatic_limit, "recorded_tokens", lambda *_, **__: 0)

    def claim_two(run_id: UUID, owner: UUID, limit: int) -> list[CompressionItem]:
        claims.append(limit)
        return claim(run_id, owner, 2)

    monkeypatch.setattr(run_module, "claim", claim_two)
    process_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.failed, len(claims), loopback.requests) == ("failed", 40, 1, [])

"""With every strategy, all visible summaries together are within ``max_summary_length``."""

from random import Random
from uuid import UUID

import pytest

from historyapp.core.policies.base import visible_summaries
from historyapp.core.strategies import STRATEGIES
from historyapp.models import Project, Session, Summary
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.run import process_run
from historyapp.services.compression.start import start_run
from historyapp.services.sessions import create_session
from tests.examples import thorough
from tests.llm.loopback import Answer, Loopback
from tests.services.compression.conftest import Record
from tests.services.drafts import act, ask, ok

# A run's database work happens in a thread of its own, which sees only what has been committed.
pytestmark = pytest.mark.django_db(transaction=True)


def visible(session: Session) -> list[Summary]:
    """The summaries that no other one covers, oldest first."""
    lineage = History(session).lineage
    newest_first = visible_summaries(
        lambda end: Summary.objects.newest_first(lineage, end, session), session.head + 1
    )
    return list(Summary.objects.read([UUID(summary.id) for summary in newest_first][::-1]))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", [1, *map(thorough, range(2, 12))])
def test_summaries_are_within_the_limit_in_any_session_and_cover_every_step(
    project: Project, strategy: str, seed: int
) -> None:
    random = Random(seed)
    limit = random.choice([1, 40, 200, 700, 3_000])
    session = create_session(project)
    session.settings = {"max_summary_length": limit, "compression_batch_size": random.randint(1, 5)}
    session.save()
    steps = 0
    for _ in range(random.randint(2, 4)):
        drafts = [ask(f"Mend module_{steps}.py")]
        for _ in range(random.randint(1, 20)):
            steps += 1
            outputs = f"src/module_{steps}.py has {steps} faults\n" * random.randint(0, 30)
            drafts += [act("read", path=f"src/module_{steps}.py"), ok(outputs=outputs)]
        append(project, session.pk, drafts)
        model = "local" if STRATEGIES[strategy].uses_model else None
        run = start_run(
            project, session.pk, RunRequest(strategy, from_step=1, to_step=steps, model=model)
        ).run
        process_run(run.pk)
        run.refresh_from_db()
        assert run.state == "succeeded"
        session.refresh_from_db()
        summaries = visible(session)
        assert sum(len(summary.text) for summary in summaries) <= limit
        covered = [n for summary in summaries for n in range(summary.first_step, summary.last_step + 1)]
        assert covered == list(range(1, steps + 1))


def test_summaries_are_within_the_limit_with_more_digests_than_levels(
    record: Record, project: Project
) -> None:
    session = record(16)
    session.settings = {"max_summary_length": 200}
    session.save()
    for step in range(1, 13):
        run = start_run(project, session.pk, RunRequest("simple_extract", from_step=step, to_step=step)).run
        process_run(run.pk)
        assert sum(len(summary.text) for summary in visible(session)) <= 200
    assert Summary.objects.filter(level=10).count() > 2


def test_the_model_combines_the_lines_of_steps_and_each_step_keeps_its_own(
    record: Record, project: Project, loopback: Loopback
) -> None:
    loopback.default = lambda _: Answer(text="It read a file of the project.")
    session = record(12)
    session.settings = {"max_summary_length": 200}
    session.save()
    request = RunRequest("episode_summary", from_step=1, to_step=12, model="gpt-5-mini")
    process_run(start_run(project, session.pk, request).run.pk)
    assert sum(len(summary.text) for summary in visible(session)) <= 200
    own = Summary.objects.filter(level=1).order_by("first_step")
    assert [summary.first_step for summary in own] == list(range(1, 13))
    digest = Summary.objects.get(level=3)
    assert digest.first_step == 1
    assert digest.text.endswith('parser, please"\nIt read a file of the project.')
    assert "Step 1: It read a file" in str(loopback.requests[-1].body)

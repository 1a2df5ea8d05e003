"""The migration names the sessions whose outcomes a worker works out."""

from collections.abc import Callable

from django.core.management import call_command

from historyapp.models import Session, StaleOutcomes
from tests.models.older_rows import insert_project, insert_sessions


def test_after_an_update_a_worker_recomputes_sessions_with_entries(
    older: Callable[[str], None],
) -> None:
    older("0031_origins_of_names")
    project = insert_project("Alice's")
    recorded = Session(project=project, head=4, steps=2)
    insert_sessions([Session(project=project), recorded])
    call_command("migrate", "historyapp", "0032_stale_outcomes", verbosity=0)
    assert list(StaleOutcomes.objects.values_list("session_id", flat=True)) == [recorded.pk]


def test_the_finished_share_counts_only_the_sessions_own_entries() -> None:
    fork = Session(head=30, fork_position=20)
    assert StaleOutcomes(session=fork, after=0).percent == 0
    assert StaleOutcomes(session=fork, after=25).percent == 50
    assert StaleOutcomes(session=fork, after=30).percent == 99

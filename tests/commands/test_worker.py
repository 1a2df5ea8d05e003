"""``playhead worker --check``: whether a worker of this host reported lately."""

from datetime import timedelta

from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.models import Worker
from historyapp.services.workers import record_worker
from tests.commands.conftest import Run


def test_the_check_succeeds_only_while_a_worker_of_this_host_reports(run: Run) -> None:
    assert "No worker on" in run("worker", "--check").error
    record_worker(worker := uuid7())
    ran = run("worker", "--check")
    assert (ran.out, ran.error) == ("", "")
    Worker.objects.filter(id=worker).update(seen_at=timezone.now() - timedelta(minutes=2))
    assert "No worker on" in run("worker", "--check").error


def test_the_check_ignores_workers_of_other_hosts(run: Run) -> None:
    Worker.objects.create(id=uuid7(), host="elsewhere")
    assert "No worker on" in run("worker", "--check").error

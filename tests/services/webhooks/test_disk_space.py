"""Deliveries take little space, and none while the disk is nearly full."""

from types import SimpleNamespace

import pytest

from historyapp.models import Project
from historyapp.services.sessions import create_session
from tests.services.webhooks.conftest import Work
from tests.services.webhooks.receiver import Receiver
from tests.services.webhooks.test_delivery import RUN, run_once


def test_no_delivery_is_created_while_the_disk_is_nearly_full(
    project: Project, receiver: Receiver, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small appends to sessions with long titles filled a disk with deliveries to twenty webhooks."""
    create_session(project)
    work()
    run_once(project)
    with monkeypatch.context() as full:
        disk = SimpleNamespace(free=0, total=1 << 40)
        full.setattr("historyapp.services.disk_space.shutil.disk_usage", lambda _: disk)
        work()
    assert receiver.types() == RUN[:1]
    work()
    work()
    assert receiver.types() == [*RUN[:1], *RUN]

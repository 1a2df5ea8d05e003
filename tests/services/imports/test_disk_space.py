"""An import ends while the disk is nearly full, and can be repeated later."""

from types import SimpleNamespace

import pytest
from django.db.models import Count, Sum

from historyapp.core.importers.base import AddSummary, Operation, RewindTo, SessionStart
from historyapp.models import Project, Session
from tests.services.scripts import Script, read, texts


@pytest.mark.parametrize(
    "more",
    [
        SessionStart("f", forked_from=("s", 1)),
        RewindTo("s", 1),
        *texts("c"),
        AddSummary("s", 1, 2, "done"),
    ],
)
def test_nothing_is_imported_while_the_disk_is_nearly_full(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch, more: Operation
) -> None:
    """A header of a few bytes could store a step of hundreds of KB again, and 1.5 MB with a long id for each
    call filled a disk."""
    disk = SimpleNamespace(free=0, total=1 << 40)
    with monkeypatch.context() as full:
        full.setattr("historyapp.services.disk_space.shutil.disk_usage", lambda _: disk)
        report = read(project, script, *texts("a", "b"))
        assert "PLAYHEAD_DISK_ALARM" in report.error
        assert report.retryable
        assert not Session.objects.exists()
    assert read(project, script, *texts("a", "b")).error == ""
    with monkeypatch.context() as full:
        full.setattr("historyapp.services.disk_space.shutil.disk_usage", lambda _: disk)
        assert read(project, script, *texts("a", "b")).error == ""  # stored already
        assert "PLAYHEAD_DISK_ALARM" in read(project, script, *texts("a", "b"), more).error
    sizes = Session.objects.aggregate(sessions=Count("pk"), entries=Sum("head"), summaries=Count("summaries"))
    assert sizes == {"sessions": 1, "entries": 2, "summaries": 0}
    assert read(project, script, *texts("a", "b"), more).error == ""
    again = Session.objects.aggregate(sessions=Count("pk"), entries=Sum("head"), summaries=Count("summaries"))
    assert again != sizes

"""Figures by day can be rebuilt from the log, with equal rows."""

import pytest

from historyapp.models import Project, ProjectDay, Session, SessionDay
from historyapp.services.append import append
from historyapp.services.figures.day_checks import rebuild_days
from historyapp.services.figures.day_figures import count_part
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from tests.services.drafts import act, failed, ok
from tests.services.figures.test_day_figures import all_rows


@pytest.fixture
def counted(project: Project, session: Session) -> Session:
    append(project, session.pk, [act(), ok(), act("b"), failed()])
    rewind(project, session.pk, Target(to_step=1))
    assert count_part(project.pk, [session.pk]) == []
    return Session.objects.get()


def test_sound_figures_are_rebuilt_with_equal_rows(project: Project, counted: Session) -> None:
    before = all_rows()
    append(project, counted.pk, [act()])  # not counted yet, which does not count as a difference
    assert rebuild(Session.objects.get(), check_only=True).differences == []
    assert all_rows() == before
    assert rebuild(Session.objects.get()).differences == []
    assert rebuild_days(project) == 0


def test_wrong_figures_are_reported_and_repaired(project: Project, counted: Session) -> None:
    before = all_rows()
    SessionDay.objects.filter(tool="b").update(errors=7)
    assert rebuild_days(project, check_only=True) == 1
    assert rebuild(counted, check_only=True).differences == ["figures by day differed"]
    assert rebuild(counted).differences == ["figures by day differed"]
    assert rebuild(counted).differences == []
    rebuild_days(project)
    ProjectDay.objects.filter(tool="b").update(errors=7)
    ProjectDay.objects.filter(tool="ls").delete()
    assert rebuild_days(project, check_only=True) == rebuild_days(project) == 2
    assert all_rows() == before

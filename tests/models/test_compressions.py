"""Runs of compression: their project, also those of an older database."""

import pytest
from django.core.management import call_command

from historyapp.models import CompressionRun, Project
from historyapp.services.sessions import create_session


@pytest.mark.django_db(transaction=True)
def test_runs_of_an_older_database_get_the_project_of_their_session() -> None:
    projects = [Project.objects.create(name=name) for name in ("Alice's", "Bob's")]
    for project in projects:
        session = create_session(project)
        run = CompressionRun(project=project, session=session, strategy="x", head=1, from_step=1, to_step=1)
        run.save()
    call_command("migrate", "historyapp", "0019", verbosity=0)
    call_command("migrate", "historyapp", verbosity=0)
    found = CompressionRun.objects.select_related("session")
    assert {run.project_id for run in found} == {project.pk for project in projects}
    assert all(run.project_id == run.session.project_id for run in found)

"""Runs of compression: their project, also those of an older database."""

from collections.abc import Callable
from functools import partial

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from historyapp.models import CompressionRun

BEFORE = "0019_caps_of_sessions_and_keys"


def test_runs_of_an_older_database_get_the_project_of_their_session(older: Callable[[str], None]) -> None:
    older(BEFORE)
    state = MigrationExecutor(connection).loader.project_state(("historyapp", BEFORE))
    then = partial(state.apps.get_model, "historyapp")
    projects = [then("Project").objects.create(name=name) for name in ("Alice's", "Bob's")]
    for project in projects:
        session = then("Session").objects.create(project=project)
        run = then("CompressionRun")(session=session, strategy="x", head=1, from_step=1, to_step=1)
        run.save()
    call_command("migrate", "historyapp", verbosity=0)
    found = CompressionRun.objects.select_related("session")
    assert {run.project_id for run in found} == {project.pk for project in projects}
    assert all(run.project_id == run.session.project_id for run in found)

"""Runs of compression: their project, also those of an older database."""

from collections.abc import Callable
from functools import partial

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from historyapp.models import CompressionRun

BEFORE, AFTER = "0019_caps_of_sessions_and_keys", "0020_runs_by_project"


def test_runs_of_an_older_database_get_the_project_of_their_session(older: Callable[[str], None]) -> None:
    older(BEFORE)
    state = MigrationExecutor(connection).loader.project_state(("historyapp", BEFORE))
    then = partial(state.apps.get_model, "historyapp")
    projects = [then("Project").objects.create(name=name) for name in ("Alice's", "Bob's")]
    for project in projects:
        session = then("Session").objects.create(project=project)
        run = then("CompressionRun")(session=session, strategy="x", head=1, from_step=1, to_step=1)
        run.save()
    call_command("migrate", "historyapp", AFTER, verbosity=0)
    pairs = CompressionRun.objects.values_list("project_id", "session__project_id")
    assert sorted(pairs) == sorted((project.pk, project.pk) for project in projects)

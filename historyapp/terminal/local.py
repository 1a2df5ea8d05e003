"""Runs the API on the local data folder in this process. No port is opened and no key is needed."""

import time
from uuid import UUID

import django
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from historyapp.data_folder import missing_data
from historyapp.terminal.errors import CommandFailed, WrongUsage
from historyapp.terminal.server import Server

ADDRESS = "http://localhost"
SCOPES = ["read", "write"]
"""A user with access to the data folder may read and write everything. No command deletes or spends money."""


def local_server(project: str | None) -> Server:
    """The server of a project in the data folder that the settings name.

    Raises:
        CommandFailed: when the folder or the project cannot be used.
    """
    if not apps.ready and (missing := missing_data()):
        raise CommandFailed(missing)
    try:
        django.setup()
    except ImproperlyConfigured as error:
        raise CommandFailed(str(error)) from error
    from historyapp.api.auth import LOCAL_KEY
    from historyapp.management.command_line import ACTOR, chosen_project, plain_errors
    from historyapp.models import ApiKey
    from historyapp.services.releases import refuse_newer_database
    from historyapp.wsgi import application

    try:
        with plain_errors():
            refuse_newer_database()
            key = ApiKey(project=chosen_project(project), name=ACTOR, prefix="", scopes=SCOPES)
    except CommandError as error:
        error_class = WrongUsage if error.returncode == WrongUsage.code else CommandFailed
        raise error_class(str(error)) from error
    import httpx  # after terminal.server, which prevents httpx from loading its command line

    transport = httpx.WSGITransport(
        lambda environ, start_response: application({**environ, LOCAL_KEY: key}, start_response)
    )
    server = Server(ADDRESS, "local", transport)
    server.work = _work
    return server


def _work(evaluation: str, seconds: float) -> bool:
    """Works on an evaluation as a worker does, because without a server there may be no worker."""
    from historyapp.services.evaluations.work import process_evaluation

    end = time.monotonic() + seconds
    return process_evaluation(UUID(evaluation), lambda: time.monotonic() >= end)

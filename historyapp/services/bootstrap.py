"""Creates what a new installation needs: an owner, a project, an API key and a sign-in link."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import connection

from historyapp.models import Membership, Project
from historyapp.models.vendor import on_sqlite
from historyapp.services.keys import bootstrap_key, create_sign_in_link
from historyapp.services.statement_limits import wait_without_limits
from historyapp.services.transactions import writing

_STARTUP_LOCK_ID = 7_453_201_880
"""The number of PostgreSQL's advisory lock for servers that start. Nothing else uses this number."""


@contextmanager
def startup_lock() -> Iterator[None]:
    """Makes other servers that start on the same PostgreSQL database wait until the block ends.

    Without it, two servers would migrate at the same time, and each would create an owner and a project. A
    SQLite database has only one server, so this does nothing there.
    """
    if on_sqlite():
        yield
        return
    wait_without_limits()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_STARTUP_LOCK_ID])
    try:
        yield
    finally:
        if connection.is_usable():  # a closed connection has already released the lock
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_STARTUP_LOCK_ID])


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What ``playhead up`` prints when it is ready."""

    project: Project
    user: User
    api_key: str | None
    """The first key, or None once it has been revoked."""
    sign_in_path: str
    """Path of a link that signs the owner in once, within 15 minutes."""


def bootstrap() -> Bootstrap:
    """Creates the owner, the default project and its first key if missing, and a new sign-in link."""
    with writing():
        project = default_project()
        user = User.objects.filter(is_superuser=True).order_by("id").first()
        user = user or User.objects.create_superuser("owner")  # without a password
        Membership.objects.get_or_create(project=project, user=user, defaults={"is_owner": True})
        key = bootstrap_key(project)
    return Bootstrap(project, user, key, f"/sign-in/{create_sign_in_link(user)}")


def default_project() -> Project:
    """The oldest project; created if there is none."""
    return Project.objects.order_by("created_at", "id").first() or Project.objects.create(name="Default")

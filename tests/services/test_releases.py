"""A database of a newer version is refused, by every command, with the version that fits it."""

from datetime import timedelta
from importlib.metadata import version

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from historyapp.models import Release
from historyapp.services.releases import record_release, refuse_newer_database
from tests.commands.conftest import Run
from tests.commands.conftest import run as run

pytestmark = pytest.mark.django_db


@pytest.fixture
def newer() -> None:
    MigrationRecorder(connection).record_applied("historyapp", "9999_future")
    later = timezone.now() + timedelta(days=1)
    Release.objects.create(version="99.1", migrated_at=later)


def test_the_version_that_migrated_is_stored() -> None:
    Release.objects.all().delete()
    record_release()
    record_release()
    assert [release.version for release in Release.objects.all()] == [version("playhead")]


def test_our_own_database_is_used() -> None:
    refuse_newer_database()


def test_migrations_of_other_apps_do_not_count() -> None:
    MigrationRecorder(connection).record_applied("auth", "9999_future")
    refuse_newer_database()


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(
    "command",
    [
        ("keys", "list"),
        ("worker",),
        ("purge", "--archived-before", "1", "--yes"),
        ("rebuild-projections",),
        ("sign-in",),
        ("compress", "01234567-89ab-7def-8123-456789abcdef"),
        ("import", "nothing.json"),
    ],
)
def test_every_command_refuses_a_newer_database(run: Run, command: tuple[str, ...]) -> None:
    name, *arguments = command
    assert "Install Playhead 99.1 or newer." in run(name.replace("-", "_"), *arguments).error


@pytest.mark.usefixtures("newer")
def test_migrate_refuses_a_newer_database() -> None:
    with pytest.raises(ImproperlyConfigured, match="9999_future"):
        call_command("migrate")


@pytest.mark.usefixtures("newer")
def test_an_unknown_version_is_not_named() -> None:
    Release.objects.all().delete()
    with pytest.raises(ImproperlyConfigured, match=r"Install the version that was used last\.$"):
        refuse_newer_database()

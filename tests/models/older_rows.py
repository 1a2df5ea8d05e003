"""Rows for databases that a version before made, whose tables lack columns of today's models."""

from collections.abc import Sequence

from django.db import connection
from django.db.models import Model

from historyapp.models import Episode, Project, Session, Snapshot


def insert_project(name: str) -> Project:
    """Inserts a project with the columns that the table has."""
    project = Project(name=name)
    _insert(Project, [project])
    return project


def insert_sessions(sessions: Sequence[Session]) -> None:
    """Inserts them with the columns that the table has."""
    _insert(Session, sessions)


def insert_episodes(episodes: Sequence[Episode]) -> None:
    """Inserts them with the columns that the table has."""
    _insert(Episode, episodes)


def insert_snapshots(snapshots: Sequence[Snapshot]) -> None:
    """Inserts them with the columns that the table has."""
    _insert(Snapshot, snapshots)


def _insert(model: type[Model], rows: Sequence[Model]) -> None:
    with connection.cursor() as cursor:
        table = connection.introspection.get_table_description(cursor, model._meta.db_table)
    present = {column.name for column in table}
    fields = [field for field in model._meta.local_concrete_fields if field.column in present]
    model._default_manager.all()._insert(rows, fields=fields, using="default")  # type: ignore[attr-defined]

"""The clock that decides whether a claim on work has expired."""

from datetime import datetime

from django.db import connection
from django.utils import timezone

from historyapp.models.fields import on_sqlite


def database_now() -> datetime:
    """The time of the database server. It is the same for workers on machines whose clocks differ.

    With SQLite all workers run on one machine, so its clock is used.
    """
    if on_sqlite():
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment

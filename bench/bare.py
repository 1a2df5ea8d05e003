"""The baseline for appending: a Django view that parses JSON and inserts rows.

It has the same server, driver and database settings as Playhead, and no middleware, schema or checks.
"""

import json
import os
from pathlib import Path

import django
from django.conf import settings

if not settings.configured:
    from historyapp.database import database

    settings.configure(
        SECRET_KEY=os.urandom(16).hex(),
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        DATABASES={"default": database(Path(os.environ["BARE_HOME"]))},
        USE_TZ=True,
    )
    django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

INSERT = "INSERT INTO bare (session, position, kind, body) VALUES (%s, %s, %s, %s)"
_next = iter(range(1, 1 << 40))


def setup(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS bare (session char(32) NOT NULL, position integer NOT NULL, "
            "kind varchar(20) NOT NULL, body text NOT NULL, PRIMARY KEY (session, position))"
        )
    return HttpResponse(b"ok")


def insert(request: HttpRequest, rows: int) -> HttpResponse:
    """One durable transaction: the whole body in the first row, and ``rows - 1`` short ones."""
    body = json.loads(request.body)
    session = "0" * 32
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(INSERT, [session, next(_next), "entry", json.dumps(body)])
        for _ in range(rows - 1):
            cursor.execute(INSERT, [session, next(_next), "step", "{}"])
    return HttpResponse(b'{"ok": true}', content_type="application/json", status=201)


def bulk(request: HttpRequest, rows: int) -> HttpResponse:
    """One durable transaction: a row for each entry of the body, and short ones up to ``rows``."""
    entries = json.loads(request.body)["entries"]
    session = "0" * 32
    inserted = [(session, next(_next), entry["kind"], json.dumps(entry)) for entry in entries]
    inserted += [(session, next(_next), "step", "{}") for _ in range(rows - len(entries))]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(INSERT, inserted)
    return HttpResponse(b'{"ok": true}', content_type="application/json", status=201)


urlpatterns = [path("setup", setup), path("insert/<int:rows>", insert), path("bulk/<int:rows>", bulk)]
application = get_wsgi_application()

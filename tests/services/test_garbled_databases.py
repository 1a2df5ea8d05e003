"""A garbled database file: a read works or reports the damage, and no write succeeds after known damage."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from pytest_django import DjangoDbBlocker

from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.faults import check_database, current_fault
from historyapp.services.keys import create_key
from historyapp.services.sessions import create_session
from tests.examples import thorough
from tests.installation import copy_migrated
from tests.services.drafts import act, ask, ok
from tests.services.test_faults import marker as marker

pytestmark = pytest.mark.skipif("config.getoption('database') != 'sqlite'", reason="a file of SQLite")

PAGE = 4096
Damage = Callable[[bytearray, random.Random], None]


class Sound(NamedTuple):
    """An intact database file, with a key, a cookie and a session of it."""

    file: Path
    key: str
    cookie: str
    session: str

    def client(self) -> Client:
        client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {self.key}"})
        client.cookies["playhead_session"] = self.cookie
        return client


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Iterator[Sound]:
    """A database with its tables, a project, a session of 100 steps and a person who is signed in."""
    file = copy_migrated(tmp_path_factory.mktemp("sound") / "home") / "playhead.sqlite3"
    connection.close()
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
        patch.setitem(connection.settings_dict, "NAME", str(file))
        project = Project.objects.create(name="Alice's")
        user = User.objects.create_user("alice")
        project.members.add(user, through_defaults={"is_owner": True})
        session = create_session(project)
        chance = random.Random(0)
        texts = [f"{number} {chance.randbytes(300).hex()}" for number in range(100)]
        steps = [[ask(text), act("read", path=text), ok(outputs=text)] for text in texts]
        for first in range(0, 100, 10):
            append(project, session.pk, [draft for step in steps[first : first + 10] for draft in step])
        browser = Client()
        browser.force_login(user)
        cookie = browser.cookies["playhead_session"].value
        database = Sound(file.with_name("sound"), create_key(project, "agent")[1], cookie, str(session.pk))
        connection.close()
        with closing(sqlite3.connect(file)) as own:
            own.execute("PRAGMA journal_mode=DELETE")
        shutil.copy(file, database.file)
        yield database
        connection.close()


def a_page(content: bytearray, chance: random.Random) -> None:
    begin = PAGE * chance.randrange(len(content) // PAGE)
    content[begin : begin + PAGE] = chance.randbytes(PAGE)


def eight_pages(content: bytearray, chance: random.Random) -> None:
    for _ in range(8):
        a_page(content, chance)


def many_bytes(content: bytearray, chance: random.Random) -> None:
    for _ in range(200):
        content[chance.randrange(100, len(content))] = chance.randrange(256)


def two_pages_are_swapped(content: bytearray, chance: random.Random) -> None:
    one, other = (PAGE * chance.randrange(1, len(content) // PAGE) for _ in range(2))
    first, second = content[one : one + PAGE], content[other : other + PAGE]
    content[one : one + PAGE], content[other : other + PAGE] = second, first


def zeros(content: bytearray, chance: random.Random) -> None:
    begin = PAGE * chance.randrange(1, len(content) // PAGE - 3)
    content[begin : begin + 3 * PAGE] = bytes(3 * PAGE)


def the_end_is_missing(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(PAGE, len(content)) :]


def the_schema_is_not_valid_text(content: bytearray, chance: random.Random) -> None:
    """SQLite quotes it in its message, which Python cannot decode."""
    place = content.index(b"CREATE TABLE")
    content[place : place + 12] = b"CREATE \xbf\xbf\xbf\xbf\xbf"


DAMAGES = [
    a_page,
    eight_pages,
    many_bytes,
    two_pages_are_swapped,
    zeros,
    the_end_is_missing,
    the_schema_is_not_valid_text,
]
READS = ["", "/{id}", "/{id}/entries?limit=500", "/{id}/episodes?limit=500", "/{id}/history", "/{id}/ledger"]


@pytest.mark.parametrize("seed", [1, *map(thorough, range(2, 15))])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_read_works_or_is_a_503_and_no_write_succeeds_after_known_damage(
    sound: Sound, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: Damage, seed: int
) -> None:
    content = bytearray(sound.file.read_bytes())
    damage(content, random.Random(seed))
    file = tmp_path / "playhead.sqlite3"
    file.write_bytes(content)
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    check_database()  # must not fail itself
    client = sound.client()
    for path in ("/", f"/sessions/{sound.session}", "/sign-in"):
        assert client.get(path).status_code in (200, 302, 404, 503), path  # 404: its row is not found
    for path in READS:
        assert client.get("/api/v1/sessions" + path.format(id=sound.session)).status_code in (
            200,
            401,
            404,
            503,
        )
    assert client.get("/readyz").status_code in (200, 503)
    is_known = current_fault() is not None
    body = {"entries": [{"kind": "model_input", "content": "x"}]}
    path = f"/api/v1/sessions/{sound.session}/entries"
    written = client.post(path, body, content_type="application/json")
    assert written.status_code in ((503,) if is_known else (201, 401, 503))
    connection.close()

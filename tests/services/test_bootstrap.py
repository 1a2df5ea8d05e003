"""Servers that start at the same time set up a fresh installation once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection

from historyapp.models import ApiKey, Project
from historyapp.services.bootstrap import Bootstrap, bootstrap, startup_lock

SERVERS = 4


def start(_: int) -> Bootstrap:
    try:
        with startup_lock():
            return bootstrap()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_servers_that_start_together_make_one_owner_one_project_and_one_key() -> None:
    with ThreadPoolExecutor(SERVERS) as threads:
        made = list(threads.map(start, range(SERVERS)))
    assert User.objects.count() == Project.objects.count() == ApiKey.objects.count() == 1
    assert len({each.project.pk for each in made}) == 1
    assert len({each.sign_in_path for each in made}) == SERVERS


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one server")
@pytest.mark.django_db(transaction=True)
def test_a_start_that_fails_does_not_block_the_next_one() -> None:
    def fail(_: int) -> None:
        with startup_lock():
            raise OSError("full")  # its connection stays open

    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(OSError, match="full"):
            threads.submit(fail, 0).result()
        assert start(0).project.name == "Default"
        threads.submit(lambda: connection.close()).result()

"""On PostgreSQL, a search looks for matches among the newest rows first, then among all others."""

import pytest
from django.db import connection

from historyapp.models.search_text_index import ROWS_BITS
from tests.api.agent import Agent
from tests.api.test_search import search_hits

pytestmark = [
    pytest.mark.django_db(transaction=True),  # the feed of changes shows nothing of a transaction that runs
    pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="SQLite sorts by the index"),
]
GROUPS = (0, 1, 1, 2, 50, 200, 200, 5000)
"""Where the row of each step is, in groups of 16,384 rows."""


def record(alice: Agent, run: Agent) -> None:
    """Steps with the same two words, in rows that are far apart."""
    for step, group in enumerate(GROUPS, 1):
        search_hits(alice, "wombat")  # adds the rows of earlier steps to the index
        sequence = "pg_get_serial_sequence('historyapp_searchstep', 'id')"
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT setval({sequence}, %s)", [(group << ROWS_BITS) + step])
        run.step(outputs="testhooks wombat")


def test_matches_are_found_in_every_group_of_rows(alice: Agent, run: Agent) -> None:
    record(alice, run)
    newest_first = list(range(len(GROUPS), 0, -1))
    for q in ("wombat", '"testhooks wombat"', "wombat -doesnotexist"):
        assert [step for _, step in search_hits(alice, q)] == newest_first
    assert search_hits(alice, '"wombat testhooks"') == []


def test_pages_end_anywhere(alice: Agent, run: Agent) -> None:
    record(alice, run)
    shown, cursor = list[int](), ""
    while True:
        page = alice.get(f"/search?q=wombat&limit=3{cursor}")
        shown += [item["episode"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert shown == list(range(len(GROUPS), 0, -1))

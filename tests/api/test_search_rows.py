"""On PostgreSQL, a search looks for matches among the newest rows first, then among all others."""

import pytest
from django.db import connection
from django.utils import timezone

from historyapp.core.search_query import parse_query
from historyapp.models import Session, search
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
    search_hits(alice, "wombat")


def test_matches_are_found_in_every_group_of_rows(alice: Agent, run: Agent) -> None:
    record(alice, run)
    newest_first = list(range(len(GROUPS), 0, -1))
    for q in ("wombat", '"testhooks wombat"', "wombat -doesnotexist", "womb*", "womb* -doesnotexist*"):
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


@pytest.mark.parametrize("read", [0, 3, search.READ_FOR_PREFIX])
def test_prefixes_are_found_in_the_newest_rows_and_in_the_index(
    alice: Agent, run: Agent, session_id: str, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the words with a beginning that many words have, the index would read all rows."""
    record(alice, run)
    monkeypatch.setattr(search, "READ_FOR_PREFIX", read)
    project = Session.objects.get(pk=session_id).project_id
    for q, steps in (("wom*", [8, 7, 6]), ('"testhooks wom*"', [8, 7, 6]), ("wom* -wombat", [])):
        found = search.ProjectSearch(project, parse_query(q, timezone.now())).candidates(None, search.LAST, 3)
        assert [row.step for row in found] == steps

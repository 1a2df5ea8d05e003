"""On PostgreSQL, the words of a step are a text in their order. Earlier versions stored a vector."""

from importlib import import_module

import pytest
from django.db import connection

from historyapp.core.search_documents import GAP

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("config.getoption('database') == 'sqlite'", reason="only PostgreSQL stored vectors"),
]


def test_words_of_earlier_versions_keep_their_order_and_gaps() -> None:
    migration = import_module("historyapp.migrations.0062_words_of_searches")
    with connection.cursor() as cursor:
        cursor.execute(migration._TOKENS)
        cursor.execute("SELECT pg_temp.playhead_tokens(CAST(%s AS tsvector))", ["'b':2,5 'a':1 'c':6"])
        assert cursor.fetchone() == (f"a b {GAP} b c",)

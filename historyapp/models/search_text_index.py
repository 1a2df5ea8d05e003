"""SQL for the text index of search documents: writing tokens and finding them."""

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from django.db import connection

from historyapp.core.search_documents import GAP, MARKS, session_token
from historyapp.core.search_query import Term
from historyapp.models.vendor import on_sqlite

_ADD = "INSERT INTO historyapp_searchwords (rowid, tokens) VALUES (%s, %s)"
_REMOVE = (
    "INSERT INTO historyapp_searchwords (historyapp_searchwords, rowid, tokens) VALUES ('delete', %s, %s)"
)
_CLEAR = "INSERT INTO historyapp_searchwords (historyapp_searchwords) VALUES ('delete-all')"
_MERGE = "INSERT INTO historyapp_searchwords (historyapp_searchwords, rank) VALUES ('merge', %s)"
_CHANGES = "SELECT total_changes()"
_SET = "UPDATE historyapp_searchstep SET words = %s WHERE id = %s"
_ROWS_WITH_WORDS = "SELECT rowid FROM historyapp_searchwords WHERE historyapp_searchwords MATCH %s"
_ROWS_WITH_VECTOR = "SELECT id FROM historyapp_searchstep WHERE session_id = %s AND words IS NOT NULL"
_TERMS = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.historyapp_searchterms "
    "USING fts5vocab(main, historyapp_searchwords, instance)"
)
_TERMS_OF_ROWS = "SELECT DISTINCT doc, term FROM temp.historyapp_searchterms WHERE doc IN ({places})"
ROWS_BITS = 14
"""On PostgreSQL, a token of the index stands for 2 to this power rows with consecutive ids."""
VECTOR = (
    f"array_to_tsvector(array_append(array_remove(string_to_array(words, ' '), '{GAP}'), "
    f"'{MARKS['rows']}' || to_hex(id >> {ROWS_BITS})))"
)
"""The indexed value of a row on PostgreSQL: its different tokens, and one of its id. Only the column
``words`` has their order, because a stored ``tsvector`` with positions takes twice as much space."""


def rows_token(number: int) -> str:
    """PostgreSQL's token of the rows whose ids, shifted by :data:`ROWS_BITS`, are this number."""
    return f"{MARKS['rows']}{number:x}"


def add_words(documents: Iterable[tuple[int, str]]) -> None:
    """Adds tokens by the ids of their rows."""
    with connection.cursor() as cursor:
        if on_sqlite():
            cursor.executemany(_ADD, list(documents))
        else:
            cursor.executemany(_SET, [(tokens, id) for id, tokens in documents])


def remove_words(documents: Iterable[tuple[int, str]]) -> None:
    """Removes the tokens of rows. On PostgreSQL they are deleted with the row.

    On SQLite they stay in the file, marked as deleted, until :func:`merge_words` has written the index again.
    """
    if on_sqlite():
        with connection.cursor() as cursor:
            cursor.executemany(_REMOVE, list(documents))


def merge_words(pages: int, *, begins: bool = False) -> bool:
    """Writes about this many pages of SQLite's text index again. Returns whether there is more to write.

    Args:
        begins: write the whole index again, which further calls continue.
    """
    with connection.cursor() as cursor:
        before = cursor.execute(_CHANGES).fetchone()
        cursor.execute(_MERGE, [-pages if begins else pages])
        after = cursor.execute(_CHANGES).fetchone()
    return bool(after[0] - before[0] > 1)  # the statement itself counts as one


def clear_words() -> None:
    """Empties the text index. There must be no rows."""
    if on_sqlite():
        with connection.cursor() as cursor:
            cursor.execute(_CLEAR)


def match_value(terms: Sequence[Term], *alternatives: Sequence[str]) -> str:
    """The query of SQLite's text index.

    Args:
        alternatives: lists of tokens. A document must have at least one token of each list that is not empty.
    """
    included = [_phrase(term) for term in terms if not term.is_excluded]
    excluded = [_phrase(term) for term in terms if term.is_excluded]
    scopes = [" OR ".join([f'"{token}"' for token in tokens]) for tokens in alternatives if tokens]
    text = " AND ".join([*[f"({scope})" for scope in scopes], *included])
    return f"({text}) NOT ({' OR '.join(excluded)})" if excluded else text


def _phrase(term: Term) -> str:
    phrases = [f'"{" ".join(tokens)}"' + "*" * term.is_prefix for tokens in term.phrases()]
    return f"({' OR '.join(phrases)})" if len(phrases) > 1 else phrases[0]


def match_without_order(terms: Sequence[Term], *alternatives: Sequence[str]) -> str:
    """As :func:`match_value`, but the query of PostgreSQL's text index. The index does not know the order of
    tokens, so more documents may match. :func:`text_conditions` compares it.
    """
    queries = [" | ".join([f"'{token}'" for token in tokens]) for tokens in alternatives if tokens]
    for term in terms:
        phrases = term.phrases()
        if not term.is_excluded:
            queries.append(" | ".join([_all_tokens(tokens, is_prefix=term.is_prefix) for tokens in phrases]))
        else:
            single = [tokens for tokens in phrases if len(tokens) == 1]
            queries += ["!" + _all_tokens(tokens, is_prefix=term.is_prefix) for tokens in single]
    return " & ".join([f"({query})" for query in queries])


def _all_tokens(tokens: Sequence[str], *, is_prefix: bool) -> str:
    *others, last = [f"'{token}'" for token in tokens if token != GAP]  # the index has no gaps
    return " & ".join([*others, last + ":*" * is_prefix])


def text_conditions(terms: Iterable[Term]) -> tuple[str, list[str]]:
    """Conditions on PostgreSQL's column ``words``, each after `` AND ``, and their parameters.

    A term is compared as a text: that takes a tenth of the time of making a ``tsvector`` of the tokens.
    """
    conditions, values = "", []
    for term in terms:
        phrases = term.phrases()
        found = " OR ".join(["strpos(' ' || words || ' ', %s) > 0"] * len(phrases))
        # IS TRUE hides a condition from the planner, which has no estimate for it.
        conditions += f" AND ({f'NOT ({found})' if term.is_excluded else found}) IS TRUE"
        values += [f" {' '.join(tokens)}{' ' * (not term.is_prefix)}" for tokens in phrases]
    return conditions, values


def words_of_session(session: UUID) -> set[int]:
    """The ids of a session's rows that have tokens in the text index."""
    with connection.cursor() as cursor:
        if on_sqlite():
            cursor.execute(_ROWS_WITH_WORDS, [f'"{session_token(session)}"'])
        else:
            cursor.execute(_ROWS_WITH_VECTOR, [session])
        return {id for (id,) in cursor.fetchall()}


def stored_tokens(ids: Collection[int]) -> dict[int, str]:
    """The different tokens of rows in SQLite's text index, without their order. To remove them, the order
    does not matter.

    Reads the whole index, without delaying writers: 8.6 million tokens took 1.4 seconds.
    """
    tokens: dict[int, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TERMS)
        cursor.execute(_TERMS_OF_ROWS.format(places=", ".join(["%s"] * len(ids))), list(ids))
        for id, token in cursor.fetchall():
            tokens.setdefault(id, []).append(token)
    return {id: " ".join(found) for id, found in tokens.items()}

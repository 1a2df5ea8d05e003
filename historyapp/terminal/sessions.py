"""``playhead sessions``, and finding the session that a command names."""

import re
import shlex
from argparse import Namespace

from historyapp.terminal.errors import CommandFailed, WrongUsage
from historyapp.terminal.output import (
    Column,
    Output,
    dollars_text,
    note,
    seconds_text,
    short_ids,
    time_text,
    tokens_text,
)
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import JsonObject, Server, api_path

LAST = "last"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"[0-9a-f-]{4,36}")
_MAX_NAMED = 5
SORTS = (
    "last_entry", "started", "duration", "steps", "errors", "likely_failures", "tokens", "money", "model",
    "score",
)  # fmt: skip
"""As in :data:`historyapp.models.session_lists.SORTS`, which needs Django."""
SORT_NAMES = {"cost": "money"}
"""Other names of sort keys: the titles of columns."""
FILTERS = (
    "tool", "file", "command", "status", "has", "kind", "model", "agent", "tag", "title", "session",
    "cost", "tokens", "steps", "errors", "score", "since", "until", "takes",
)  # fmt: skip
"""As in :data:`historyapp.core.search_query.FACETS`: what the search of steps understands."""
_FILTER = re.compile(
    rf"(?<!\S)-?(?:(?:{'|'.join(FILTERS)}):(?=\S)|(?:cost|tokens|steps|errors|score)[<>]=?(?=[$-]?[\d.]))",
    re.IGNORECASE,
)
"""A filter has its value at once: ``Model: retry`` are words of a title."""
_OPTIONS = ("agent", "model", "tag")
"""Filters that have an option with the same values."""
COLUMNS = (
    Column("Session"),
    Column("Title", flexible=True),
    Column("Agent", flexible=True),
    Column("Status"),
    Column("Steps", number=True),
    Column("Errors", number=True),
    Column("Tokens in", number=True),
    Column("Cost", number=True),
    Column("Last entry (UTC)"),
    Column("Time", number=True),
)


def list_sessions(server: Server, output: Output, options: Namespace) -> None:
    words = " ".join(options.words)
    if _FILTER.search(words):
        raise WrongUsage(_no_filters(words))
    query = {
        "q": words or None,
        "agent": options.agent,
        "tag": options.tag,
        "status": options.status,
        "model": options.model,
        "repository": options.repository,
        "folder": options.folder,
        "from": options.first,
        "to": options.last,
        **{name: "true" for name in ("errors", "likely_failures", "undated") if getattr(options, name)},
    }
    sort = SORT_NAMES.get(options.sort, options.sort)
    order = sort if options.reverse else f"-{sort}"
    page = server.get_list("/sessions", options.limit, sort=order, **query)
    if options.json:
        output.json(page)
        return
    items = page["items"]
    if not items:
        note("No session matches." if any(query.values()) else "There are no sessions yet.")
        return
    ids = short_ids([item["id"] for item in items])
    rows = []
    for id, item in zip(ids, items, strict=True):
        figures = [f"{item['steps']:,}", f"{item['errors']:,}"]
        tokens = tokens_text(item["shown_tokens"], item["token_source"])
        cost = dollars_text(item["shown_cost"], item["cost_is_minimum"]) if item["shown_cost"] else ""
        texts = [item["title"], item["agent"], item["status"]]
        times = [time_text(item["last_entry_at"]), seconds_text(item["duration"])]
        rows.append([id, *texts, *figures, tokens, cost, *times])
    output.table(COLUMNS, rows)
    if page["next"]:
        first = "newest" if order == f"-{SORTS[0]}" else "first"
        note(f"These are the {first} {len(items):,}. --limit shows more.")


def _no_filters(words: str) -> str:
    """What to write instead of words that are filters of steps."""
    names = re.findall(rf"(?<!\S)({'|'.join(_OPTIONS)}):", words.lower())
    options = "".join([f" For {name}: use --{name}." for name in dict.fromkeys(names)])
    return (
        "`playhead sessions` finds words in titles, agents and tags. It has no filters such as "
        f"{safe_line(_filter_in(words))}.{options} To find steps and their sessions, use "
        f"`playhead search {'-- ' if words.startswith('-') else ''}{shlex.quote(safe_line(words))}`."
    )


def _filter_in(words: str) -> str:
    return next(word for word in words.split() if _FILTER.match(word))


def find_session(server: Server, name: str) -> JsonObject:
    """The session that a name refers to.

    Args:
        name: the session's id, its first characters, or ``last`` for the session with the newest entry.

    Raises:
        CommandFailed: when no session matches, or several do.
    """
    name = name.lower()
    if _ID.fullmatch(name):
        return server.get(api_path("sessions", name))
    if name != LAST and not _PREFIX.fullmatch(name):
        raise WrongUsage(
            f"{safe_line(name)!r} is not a session. Give its id, at least the first four characters of it, "
            f"or `{LAST}` for the newest session."
        )
    prefix = None if name == LAST else name
    page = server.get("/sessions", id=prefix, status="all", limit=_MAX_NAMED)
    matches = page["items"]
    if not matches:
        raise CommandFailed(
            "There are no sessions yet." if name == LAST else f"No session begins with {name}."
        )
    if name != LAST and len(matches) > 1:
        ids = short_ids([item["id"] for item in matches])
        candidates = "; ".join(
            f"{id} {item['title'][:60] or '(untitled)'}" for id, item in zip(ids, matches, strict=True)
        )
        among = ", among them" if page["next"] else ""
        raise CommandFailed(
            f"Several sessions begin with {name}{among}: {safe_line(candidates)}. Give more of the id."
        )
    return server.get(api_path("sessions", matches[0]["id"]))

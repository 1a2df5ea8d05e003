"""``playhead tail``: the newest entries of a session, and new entries as they are recorded."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from historyapp.terminal.errors import CommandFailed, Unreachable, WrongUsage
from historyapp.terminal.output import STYLES, Output, time_text
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import MAX_ITEMS, JsonObject, Server, api_path
from historyapp.terminal.sessions import find_session
from historyapp.terminal.value_text import value_text

EVENT_STREAM = "text/event-stream"
LINES = 10
"""The number of existing entries of a session that are printed without ``--lines``."""
MAX_SESSIONS = 50
"""The number of sessions that are listed at once to find the newest entries of all."""
_MAX_TEXT = 160
"""The number of characters shown of an entry's text."""
_MAX_LINE = 65_536
"""The maximum number of bytes of a line before the first event."""
_ID_LENGTH = 13
"""The number of characters shown of a session's id. Ids of the same minute begin with the same eight."""
_TITLES = {
    "system_instruction": "system",
    "memory_notebook": "memory",
    "model_input": "input",
    "debug_log": "log",
}
"""Short names for kinds of entries. Other kinds keep their names."""
_SENTENCES = {
    "session_created": "The session was created.",
    "rewind": "The session was rewound.",
    "run": "A compression runs.",
    "budget": "A spending cap refused a model call.",
    "notes": "Notes were changed.",
    "session_changed": "The session was changed.",
    "session_deleted": "The session was deleted.",
}


class Part(NamedTuple):
    """One line of a printed entry."""

    title: str
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints entries and events with the options of one command."""

    output: Output
    as_json: bool
    with_session: bool
    """Whether each line begins with the session's id."""
    _runs: set[str] = field(default_factory=set)
    """The compressions that were printed. For each there are many events, which say only that it goes on."""

    def entry(self, session: str, entry: JsonObject) -> None:
        if self.as_json:
            self.output.json({"session": session, **entry}, lines=True)
            return
        prefix = f"{self._prefix(session, entry['created_at'])}  {entry['position']:>5}"
        for part in entry_parts(entry):
            text = safe_line(part.text[: 4 * _MAX_TEXT])
            if len(text) > _MAX_TEXT:
                text = text[: _MAX_TEXT - 1] + "…"
            title = (f"{safe_line(part.title):<8}", part.style)
            self.output.line((prefix, "dim"), "  ", title, f" {text}".rstrip())

    def event(self, event: JsonObject) -> None:
        """Prints an event of the feed that is not an entry."""
        if self.as_json:
            self.output.json(event, lines=True)
            return
        if event["kind"] == "summaries" or event["run"] in self._runs:
            return
        if event["run"]:
            self._runs.add(event["run"])
        prefix = f"{self._prefix(event['session'], event['at'])}{'':7}"
        sentence = _SENTENCES.get(event["kind"], safe_line(event["kind"]))
        self.output.line((prefix, "dim"), "  ", (sentence, "italic"))

    def _prefix(self, session: str, time: str | None) -> str:
        text = f"{time_text(time)[11:]:>9}"
        return f"{text}  {session[:_ID_LENGTH]}" if self.with_session else text


def tail(server: Server, output: Output, options: Namespace) -> None:
    if options.session is None and options.lines is None and not options.follow:
        raise WrongUsage("Name a session, or add --follow to follow all sessions.")
    session = None if options.session is None else find_session(server, options.session)["id"]
    printer = Printer(output, options.json, session is None)
    after = current_cursor(server) if options.follow else None
    printed: dict[str, int] = {}
    if session is None:
        newest = _newest_of_all(server, options.lines or 0)
    else:
        entries = _newest_entries(server, session, LINES if options.lines is None else options.lines)
        newest = [(session, entry) for entry in entries]
    for owner, entry in newest:
        printed[owner] = max(entry["position"], printed.get(owner, 0))
        printer.entry(owner, entry)
    if after is not None:
        _follow(server, printer, session, after, printed)


def current_cursor(server: Server) -> str:
    """The current cursor, which a stream of events sends first."""
    with server.download("/events", media_type=EVENT_STREAM) as chunks:
        unfinished = b""
        for chunk in chunks:
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"id: "):
                    return line[4:].decode("ascii", "replace")
            if len(unfinished) > _MAX_LINE:
                break
    raise Unreachable(f"{server.address} sends no events. Check the address.")


def _newest_entries(server: Server, session: str, limit: int) -> list[JsonObject]:
    path = api_path("sessions", session, "entries")
    return list(reversed(server.get_list(path, limit, order="newest")["items"])) if limit else []


def _newest_of_all(server: Server, limit: int) -> list[tuple[str, JsonObject]]:
    """The newest entries of all sessions, each with its session. Sessions that have only older ones are not
    read."""
    newest: list[tuple[str, JsonObject]] = []
    cursor = None
    while limit:
        page = server.get("/sessions", sort="-last_entry", limit=MAX_SESSIONS, cursor=cursor)
        for session in page["items"]:
            oldest = newest[0][1]["created_at"] if len(newest) == limit else None
            if oldest and _moment(session["last_entry_at"]) < _moment(oldest):
                return newest
            newest += [(session["id"], entry) for entry in _newest_entries(server, session["id"], limit)]
            newest.sort(key=lambda owned: _moment(owned[1]["created_at"]))
            newest = newest[-limit:]
        cursor = page["next"]
        if cursor is None:
            break
    return newest


def _moment(text: str | None) -> datetime:
    """A time of the API. Entries without times come before all others."""
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def _follow(
    server: Server, printer: Printer, session: str | None, after: str, printed: dict[str, int]
) -> None:
    """Prints the events after a cursor until the user stops the command.

    Args:
        printed: the position up to which the entries of a session have been printed, by session.
    """
    with _plain_errors(), server.client() as client:
        if session is None:
            events = client.follow_events(after=after)
        else:
            events = client.follow_session(session, after=after)
        for event in events:
            first, last = event.first_position or 0, event.position or 0
            if event.kind != "entries":
                printer.event(event.model_dump(mode="json"))
            elif last > (known := printed.get(str(event.session), 0)):
                session_id = str(event.session)
                for entry in _entries(server, session_id, max(first, known + 1), last):
                    printer.entry(session_id, entry)


def _entries(server: Server, session: str, first: int, last: int) -> Iterator[JsonObject]:
    """The entries from position ``first`` to ``last``, including those that a rewind has cut off since."""
    query = {"after": first - 1, "before": last + 1, "take": "all"}
    path, cursor = api_path("sessions", session, "entries"), None
    while True:
        try:
            page = server.get(path, limit=MAX_ITEMS, cursor=cursor, **query)
        except Unreachable:
            raise
        except CommandFailed:
            return  # the session has been deleted, and its event follows
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return


def entry_parts(entry: JsonObject) -> Iterator[Part]:
    """The lines of an entry: one for each text, tool call and result."""
    kind = entry["kind"]
    if kind == "model_output":
        tool_calls = entry.get("tool_calls") or ([entry["use_tool"]] if entry.get("use_tool") else [])
        if thoughts := value_text(entry.get("thoughts")):
            yield Part("thought", thoughts, "dim")
        if entry.get("text") or not tool_calls:
            yield Part("text" if tool_calls else "answer", value_text(entry.get("text")))
        for tool_call in tool_calls:
            yield Part("call", f"{tool_call['name']} {_arguments_of(tool_call.get('arguments'))}", "cyan")
    elif kind == "tool_results":
        for result in entry["results"]:
            yield Part(result["status"], _result_text(result), STYLES.get(result["status"], ""))
    elif kind == "review":
        facts = ((name, entry.get(name)) for name in ("passed", "score", "analysis", "supervision"))
        yield Part(kind, "  ".join(f"{name}: {value_text(fact)}" for name, fact in facts if fact is not None))
    else:
        texts = (entry.get(name) for name in ("text", "content", "message", "reason"))
        yield Part(_TITLES.get(kind, str(kind)), value_text(next((text for text in texts if text), "")))


def _result_text(result: JsonObject) -> str:
    texts = (result.get(name) for name in ("feedback", "reason", "outputs"))
    text = next((text for text in texts if text not in (None, "")), "")
    if error := result.get("error"):
        text = f"{error['exception_type']}: {error['message']}"
    return f"{result.get('tool_name') or ''} {value_text(text)}".strip()


def _arguments_of(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return value_text(arguments)
    return ", ".join(f"{name}={value_text(value)}" for name, value in arguments.items())


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Converts errors of the Python client to errors of a command."""
    from historyapp.client import PlayheadError, ServerUnavailable

    try:
        yield
    except ServerUnavailable as error:
        raise Unreachable(str(error)) from error
    except PlayheadError as error:
        raise CommandFailed(str(error)) from error

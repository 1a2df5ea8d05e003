"""The palette: one search for sessions, steps, files, pages and actions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote
from uuid import UUID

from django.db.models import Q
from django.urls import reverse

from dashboard.jumps import JUMPS
from dashboard.keys import KEYS
from dashboard.location import Location
from historyapp.core.exporters import EXPORTERS
from historyapp.core.short_targets import short_target
from historyapp.core.text import fold
from historyapp.models import Project, Session
from historyapp.models.search import SECONDS
from historyapp.models.search_limits import limit_statements
from historyapp.services.known_files import known_files
from historyapp.services.search.files import project_files
from historyapp.wire.problems import SearchTooSlow

MAX_CHARACTERS = 200
"""Characters of the typed text."""
MAX_SESSIONS = 8
MAX_ACTIONS = 8
MAX_FILES = 8
MAX_PATH = 55
"""Characters of a file's path that are shown: its end."""
MIN_ID = 4
"""Digits of a session's ID that are looked up."""
_STEP = re.compile(r"(?:step\s*|#)?([0-9]{1,9})", re.ASCII)
_ID = re.compile(r"[0-9a-f-]{4,36}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PaletteItem:
    """One result: a link, or with ``posts`` a button that posts a form to its address."""

    name: str
    address: str
    icon: str = "forward"
    detail: str = ""
    """Text behind the name, in grey."""
    words: str = ""
    """Further words that find it."""
    posts: bool = False
    value: tuple[str, str] = ("", "")
    """Name and value of the field that the button posts."""
    step: int | None = None
    """A step of the open session: a script goes there without loading the page."""
    action: str = ""
    """What the scripts of the session page do instead of following the address; see ``dashboard.keys``."""
    key: str = ""
    """The keyboard shortcut of the same action."""
    search_text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "search_text", fold(f"{self.name} {self.words}"))


class PaletteGroup(NamedTuple):
    title: str
    rows: list[PaletteItem]


def search(project: Project, text: str, location: Location | None, *, is_staff: bool) -> list[PaletteGroup]:
    """The results for a text, in groups. Without a text: the actions of this page, and the newest sessions.

    Args:
        location: of the session in view, if there is one.
    """
    text = text.strip()[:MAX_CHARACTERS]
    words = [fold(word) for word in text.split()]
    actions = _matching(_actions(location), words)
    pages = _matching(_pages(location, is_staff=is_staff), words)
    groups = (
        PaletteGroup("Steps", list(_step(location, text))),
        PaletteGroup("Files in this session", list(_files(location, text))),
        PaletteGroup("Actions", actions[:MAX_ACTIONS]),
        PaletteGroup("Pages", pages),
        PaletteGroup("Sessions", list(_sessions(project, text, location))),
        PaletteGroup("Files in all sessions", list(_project_files(project, text))),
        PaletteGroup("Find", list(_find(location, text))),
    )
    return [group for group in groups if group.rows]


def _matching(items: Iterable[PaletteItem], words: Sequence[str]) -> list[PaletteItem]:
    """The items that have all words; first those whose name begins with them."""
    matching = [item for item in items if all(word in item.search_text for word in words)]
    return sorted(matching, key=lambda item: not item.search_text.startswith(" ".join(words)))


def _step(location: Location | None, text: str) -> Iterator[PaletteItem]:
    number = _STEP.fullmatch(text.lower())
    if location is None or number is None or not 1 <= int(number[1]) <= location.steps:
        return
    step = int(number[1])
    row = location.history.row(step)
    detail = short_target(row.target) or row.thought_preview or row.result_preview
    yield PaletteItem(
        f"Step {step:,}", location.address_of(step), f"kind-{row.kind or 'other'}", detail, step=step
    )


def _files(location: Location | None, text: str) -> Iterator[PaletteItem]:
    """The files that the session read or edited; each leads to the list of its steps."""
    if location is None or not location.steps or not text:
        return
    for file in known_files(location.history, text)[:MAX_FILES]:
        counts = (file.reads, "read"), (file.edits, "edit")
        detail = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for count, name in counts if count)
        address = f"{location.url}?step={location.step}{location.as_of_parameter}&file={quote(file.path)}"
        yield PaletteItem(_shown_path(file.path), address, "kind-edit" if file.edits else "kind-read", detail)


def _project_files(project: Project, text: str) -> Iterator[PaletteItem]:
    """The files that steps of the project name; each leads to the search for its steps."""
    for file in project_files(project.pk, text)[:MAX_FILES]:
        path, newest = file.path.replace('"', " "), file.newest
        condition = f'file:"{path}"' if " " in path else f"file:{path}"
        detail = f"{newest.session}, step {newest.row.step:,}"
        yield PaletteItem(
            _shown_path(file.path), f"{reverse('search')}?q={quote(condition)}", "kind-read", detail
        )


def _shown_path(path: str) -> str:
    """The end of a long path, because it distinguishes files."""
    return path if len(path) <= MAX_PATH else f"…{path[-MAX_PATH:]}"


def _find(location: Location | None, text: str) -> Iterator[PaletteItem]:
    if text:
        address = f"{reverse('search')}?q={quote(text)}"
        yield PaletteItem(f"Search all sessions for “{text}”", address, "search")
    if location is not None and location.steps and text:
        address = f"{location.address_without_find}&find={quote(text)}"
        yield PaletteItem(f"Find “{text}” in this session", address, "search")


def _sessions(project: Project, text: str, location: Location | None) -> Iterator[PaletteItem]:
    """Sessions with all words in title, agent or tags, or whose ID begins with the text, the newest first.

    The words are left out if looking for them takes too long.
    """
    project_sessions = Session.objects.filter(project=project).only(
        "title", "agent", "status", "steps", "last_entry_at"
    )
    listed = project_sessions.search(text).exclude(status=Session.Status.ARCHIVED)
    if location is not None and not text:  # it is open already
        listed = listed.exclude(pk=location.session.pk)
    sessions: list[Session] = []
    with suppress(SearchTooSlow), limit_statements(SECONDS):
        sessions += listed.newest_first()[:MAX_SESSIONS]
    digits = text.lower().replace("-", "")
    if _ID.fullmatch(text.lower()) and MIN_ID <= len(digits) <= 32:
        between = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
        sessions = [*project_sessions.filter(Q(id__range=between)).order_by("id")[:MAX_SESSIONS], *sessions]
    for session in list(dict.fromkeys(sessions))[:MAX_SESSIONS]:
        detail = f"{session.agent} · {session.steps:,} steps" if session.agent else f"{session.steps:,} steps"
        yield PaletteItem(str(session), reverse("session", args=[session.pk]), "history", detail)


def _pages(location: Location | None, *, is_staff: bool) -> Iterator[PaletteItem]:
    if location is not None:
        session = location.session.pk
        here = f"?{location.query}"
        yield PaletteItem("Overview", location.overview_address, "note")
        yield PaletteItem("Run", location.address, "play", words="steps timeline session")
        yield PaletteItem(
            "Cost", reverse("ledger", args=[session]) + here, "compare", words="money tokens usage"
        )
        address = f"{reverse('compressions')}?session={session}"
        yield PaletteItem("Compressions of this session", address, "compress", words="summaries")
        yield PaletteItem("Settings of this session", reverse("session-settings", args=[session]), "pencil")
    yield PaletteItem("Sessions", reverse("sessions"), "history", words="list runs all")
    yield PaletteItem("Search all sessions", reverse("search"), "search", words="find steps text")
    yield PaletteItem("Compare two runs", reverse("compare-runs"), "compare", words="diff sessions")
    yield PaletteItem("Compressions", reverse("compressions"), "compress", words="summaries all")
    yield PaletteItem("Import", reverse("imports"), "import", words="upload transcript file")
    yield PaletteItem("Project settings", reverse("project-settings"), "pencil", words="caps spending keys")
    yield PaletteItem("Webhooks", reverse("webhooks"), "export", words="events deliveries notify")
    if is_staff:
        yield PaletteItem("Administration", reverse("admin:index"), "user", words="admin")


def _actions(location: Location | None) -> Iterator[PaletteItem]:
    if location is not None:
        if location.steps:
            yield from _step_actions(location)
        yield from _session_actions(location)
        if location.steps:
            yield from _jumps(location)
    for theme in ("light", "dark", "auto"):
        name = f"Theme: {theme}"
        words = "colours mode scheme"
        yield PaletteItem(name, reverse("theme"), "theme", words=words, posts=True, value=("theme", theme))


def _step_actions(location: Location) -> Iterator[PaletteItem]:
    """The actions on the current step."""
    session, step, here = location.session, location.step, f"?{location.query}"
    can_change = location.as_of is None and session.status != Session.Status.ARCHIVED

    def address(name: str) -> str:
        return reverse(name, args=[session.pk]) + here

    yield PaletteItem("Continue from here…", address("continue"), "play", words="fork rewind before after")
    yield PaletteItem(
        "Fork here", address("fork"), "fork", f"after step {step:,}", posts=True, value=("step", str(step))
    )
    if can_change:
        yield PaletteItem(
            "Rewind…", address("rewind"), "rewind", f"to step {step:,}, which stays", words="undo cut"
        )
        yield PaletteItem("Compress…", reverse("compress", args=[session.pk]), "compress", words="summarise")
    if session.status != Session.Status.ARCHIVED:
        address_of_form = reverse("compare", args=[session.pk])
        yield PaletteItem(
            "Compare two compression strategies…", address_of_form, "compress", words="summaries"
        )
    note = reverse("note", args=[session.pk, step]) + location.as_of_query
    name, value = (
        ("Remove the bookmark", ("delete", "1")) if location.note else ("Bookmark this step", ("", ""))
    )
    yield PaletteItem(name, note, "bookmark", posts=True, value=value, action="bookmark", key="b")


def _session_actions(location: Location) -> Iterator[PaletteItem]:
    session = location.session
    for format in EXPORTERS.values():
        address = reverse("export", args=[session.pk, format.name]) + location.as_of_query
        yield PaletteItem(f"Export as {format.title}", address, "export", words="download save")
    yield PaletteItem(
        "Connect an agent", reverse("connect", args=[session.pk]), "robot", words="continue curl python"
    )
    address = f"{reverse('shares', args=[session.pk])}?{location.query}"
    yield PaletteItem("Share…", address, "link", words="link public read-only revoke send")
    compare = reverse("compare-runs")
    if session.forked_from_id:
        address = f"{compare}?a={session.forked_from_id}&b={session.pk}"
        yield PaletteItem("Compare with the parent", address, "compare", words="fork diff")
    yield PaletteItem(
        "Compare with another run…",
        f"{compare}?a={session.pk}",
        "compare",
        words="diff take session fork runs",
    )
    archived = session.status == Session.Status.ARCHIVED
    status = Session.Status.FINISHED if archived else Session.Status.ARCHIVED
    yield PaletteItem(
        "Unarchive" if archived else "Archive",
        f"{reverse('change-status', args=[session.pk])}?{location.query}",
        "archive",
        posts=True,
        value=("status", str(status)),
    )


def _jumps(location: Location) -> Iterator[PaletteItem]:
    """The jumps, each with its key."""
    keys = {key.action: key.shown for row in KEYS for key in row.keys if key.is_jump}
    address = f"{reverse('jump', args=[location.session.pk])}?{location.query}&to="
    for name in JUMPS:
        shown = f"Go to the {name.replace('-', ' ').replace('edit', 'edit of this file')}"
        shown = shown.replace("error", "error or likely failure")
        yield PaletteItem(shown, f"{address}{name}", words="jump", action=name, key=keys[name])

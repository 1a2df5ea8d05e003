"""Continuing from a step: fork before or after it, or rewind to before it; then lines for the agent."""

from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from django.conf import settings as server_settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.location import (
    Location,
    find_location,
    newest_step,
    page_context,
    read_number,
    render_fragment,
)
from dashboard.views.rewinds import latest_rewind
from historyapp.core.conversation import input_messages
from historyapp.core.entries import INPUT_KINDS, text_of
from historyapp.core.errors import Invalid
from historyapp.core.exporters.claude_code import claude_code_id
from historyapp.core.projection import Tail
from historyapp.core.results import returned_text
from historyapp.core.run_places import folder_of
from historyapp.core.settings import load_settings
from historyapp.core.text import preview
from historyapp.models import Episode, Session
from historyapp.models.history import History
from historyapp.models.relatives import starting_steps
from historyapp.services.compression.request import automatic_model
from historyapp.services.fork_pauses import MAX_FORKS
from historyapp.services.rewinds import MAX_REASON, Target, fork, preview_rewind, rewind

OTHER_HARNESSES = ("codex", "Gemini CLI", "OpenHands", "SWE-agent", "mini-swe-agent")
"""Agents of imported sessions whose own session files no export can write."""
MAX_QUOTED = 1000
"""Characters of a text from which its quoted beginning is made."""
Newest = Literal["input", "result", "answer", "nothing"]
"""The last part of a request."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """A place where a session can continue."""

    location: Location
    steps: int
    """The steps before it."""
    position: int
    newest: Newest
    preview: str
    """The beginning of the input or result that a request ends with."""

    @property
    def needs_input(self) -> bool:
        """Whether a request from here needs another input, because the model has nothing to answer."""
        return self.newest in ("answer", "nothing")

    @property
    def address(self) -> str:
        """The session as it was there, with the context that the model gets after its newest step. If nothing
        was recorded since, the current session: a page as of its head would be said to show the past."""
        as_of = "" if self.position == self.location.session.head else f"as_of={self.position}&"
        return f"{self.location.url}?{as_of}step=-1&mode=what_if"


def _before(location: Location) -> StartingPoint:
    """Before the step, and after the inputs that led to it."""
    *before, row = location.history.rows(location.step - 1, location.step)
    has_input = bool(row.input_preview) or row.turn_first == row.number  # an image has no preview
    input_text = row.input_preview if has_input else None
    return _point(location, before[0] if before else None, row.first_position - 1, input_text)


def _after(location: Location) -> StartingPoint:
    row = location.history.row(location.step)
    return _point(location, row, row.last_position, _input_during(location.history, row))


def _input_during(history: History, row: Episode) -> str | None:
    """The beginning of the newest input between a step's tool call and its result, if there is one: it
    follows the result in a request."""
    first, last = row.first_position, row.last_position
    for entry in history.entries(after=first, before=last, kinds=INPUT_KINDS, newest_first=True, limit=1):
        for message in input_messages(entry.core()):
            return preview(text_of(message.content)[:MAX_QUOTED])
    return None


def _input_of(tail: Tail, row: Episode | None) -> str | None:
    """The beginning of the input after a step, which a request ends with; None if it does not.

    An input that comes between a tool call and its result follows the result in a request. An input that
    begins no turn, such as ``/exit`` in Claude Code or a note of the agent, leaves nothing to answer unless a
    result comes before it.
    """
    has_input = tail.begins_turn or (row is not None and row.tool_names and tail.input_preview)
    return tail.input_preview if has_input else None


def _point(
    location: Location, row: Episode | None, position: int, input_text: str | None = None
) -> StartingPoint:
    """The place after a step (None: before the first one) and, if there is one, after an input to answer."""
    steps = row.number if row else 0
    if input_text is not None:
        return StartingPoint(location, steps, position, "input", input_text)
    if row is None:
        return StartingPoint(location, 0, position, "nothing", "")
    if not row.tool_names:
        return StartingPoint(location, steps, position, "answer", "")
    return StartingPoint(location, steps, position, "result", _last_text(location.history, steps))


def _last_text(history: History, number: int) -> str:
    """The beginning of the last text of a step in a request: that of the last call's result, or a remark."""
    [episode] = history.episodes(number, number)
    turn = episode.turn
    texts = turn.remarks[-1:] or [returned_text(result) for result in turn.results[-1:]]
    return "".join(preview(text[:MAX_QUOTED]) for text in texts)


class Starter(NamedTuple):
    """The session whose agent started a sub-agent."""

    session: Session
    step: int | None
    """The live step whose tool call started it; None if unknown."""


def _starter_of(history: History) -> Starter | None:
    """Who started this session, or the newest of those it was forked from; None if no agent did."""
    session = history.session
    ids = {session.pk, session.forked_from_id or session.pk}
    ids.update(map(UUID, history.lineage.owners[-MAX_FORKS:]))
    started = Session.objects.filter(pk__in=ids, spawned_by__isnull=False).order_by("-pk").first()
    if started is None or (parent := started.spawned_by) is None:
        return None
    return Starter(parent, starting_steps(History(parent), [started]).get(started.pk))


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def continue_session(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The ways to continue from a step, and what each one keeps and cuts off. POST continues."""
    step = read_number(request.POST, "step") if request.method == "POST" else None
    location = find_location(request, session_id, step)
    if not location.step:
        raise Invalid("The session has no steps yet. An agent can record its first step in it.")
    if request.method == "POST":
        return _take_action(request, location)
    before, after = _before(location), _after(location)
    context = {"before": before, "after": after, "longest_reason": MAX_REASON}
    if location.as_of is None and location.session.status != "archived":
        _, cut_off, steps = preview_rewind(location.history, Target(to_position=before.position))
        context |= {"cut_steps": steps, "cut_entries": len(cut_off)}
    context |= {"session": location.session, "starter": _starter_of(location.history)}
    return render_fragment(request, "session/_continue.html", location, context)


def _take_action(request: PersonRequest, location: Location) -> HttpResponse:
    session, choice = location.session, request.POST.get("way")
    if choice == "rewind":
        session = rewind(
            session.project,
            session.pk,
            Target(to_position=_before(location).position),
            reason=request.POST.get("reason", "").strip()[:MAX_REASON],
            actor=actor(request),
            expected_position=read_number(request.POST, "expected_position"),
        ).session
    elif choice in ("fork-before", "fork-after"):
        point = _before(location) if choice == "fork-before" else _after(location)
        session = fork(session.project, session.pk, at_position=point.position, actor=actor(request))
    else:
        raise Invalid("Choose fork-before, fork-after or rewind.")
    return redirect("connect", session.pk)


class NextCompression(NamedTuple):
    """The automatic compression that the next step starts."""

    first: int
    last: int
    """The last step that it compresses."""
    model: str
    """The model that it calls; empty if it costs nothing."""


def _next_compression(session: Session) -> NextCompression | None:
    """The automatic compression that the next step starts, or None.

    After an import it may be long, because imported steps start none.
    """
    steps, tokens = session.compress_at, session.compress_at_tokens
    is_due = steps is not None and session.steps + 1 >= steps
    if not (is_due or (tokens is not None and session.tokens >= tokens)):
        return None
    settings = load_settings(session.settings)
    first, last = session.compressed_to + 1, session.steps + 1 - settings.detailed_steps
    if last < first:
        return None
    return NextCompression(first, last, automatic_model(settings, session.project))


@signed_in
@require_safe
def connect(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The session's id, and lines with which an agent continues it."""
    location = newest_step(find_session(request, session_id))
    server = server_settings.PLAYHEAD_BASE_URL or f"{request.scheme}://{request.get_host()}"
    history = location.history
    session, newest = location.session, history.newest
    end = _point(location, newest, session.head, _input_of(history.tail, newest))
    context = page_context(request, location) | {
        "server": server,
        "point": end,
        "compression": _next_compression(session),
        "starter": _starter_of(history),
        "rewind": latest_rewind(request, location),
        "fork_step": location.shared_steps,
        "claude_code_id": claude_code_id(str(session.pk), session.head),
        "folder": folder_of(session.metadata),
        "has_instruction": bool(history.instruction),
        "has_other_harness": session.agent in OTHER_HARNESSES,
    }
    return render(request, "session/connect.html", context)

"""Writing a summary by hand, or a better one in place of another, which stays."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.place import Place, page_context, whole_number
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.text import clean
from historyapp.models import Summary
from historyapp.models.history import History
from historyapp.services.summaries import SummaryText, summarise

LONGEST = 100_000
"""Characters of a summary that the form takes."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def write_summary(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form for steps ``first`` to ``last``, or those of the summary ``of``; POST keeps what it says."""
    history = History(find_session(request, session_id))
    query = request.POST or request.GET
    first, last = whole_number(query, "first"), whole_number(query, "last")
    earlier = _earlier(history, query.get("of", ""))
    if earlier is not None:
        first, last = earlier.first_step, earlier.last_step
    if first is None or last is None:
        raise Invalid("Name the steps that the summary covers: first and last.")
    place = Place(history, history.resolve(first))
    text = clean(request.POST.get("text", "")).replace("\r\n", "\n").strip()
    fault = _fault(text) if request.method == "POST" else ""
    if request.method == "POST" and not fault:
        written = SummaryText(text, level=earlier.level if earlier else None)
        project = history.session.project
        summarise(project, history.session.pk, (first, last), written, actor=actor(request))
        return redirect(place.here + "&shown=summary")
    context = {
        **page_context(request, place),
        "earlier": earlier,
        "first": first,
        "last": history.resolve(last),
        "text": text or (earlier.text if earlier else ""),
        "fault": fault,
        "longest": LONGEST,
    }
    template = "_write_summary.html" if request.htmx else "write_summary.html"
    return render(request, template, context, status=422 if fault else 200)


def _earlier(history: History, id: str) -> Summary | None:
    """The summary to begin with, where one is named.

    Raises:
        NotFound: when it holds nowhere in the session's live history.
    """
    if not id:
        return None
    try:
        found = Summary.objects.filter(pk=UUID(id)).first()
    except ValueError:
        found = None
    if found is None or not history.lineage.contains(str(found.session_id), found.last_position):
        raise NotFound("There is no such summary in this session's live history.")
    return found


def _fault(text: str) -> str:
    if not text:
        return "Write the text of the summary."
    if len(text) > LONGEST:
        return f"A summary has at most {LONGEST:,} characters; this one has {len(text):,}."
    return ""

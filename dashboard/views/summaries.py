"""Writing a summary by hand, or a new version of one; the old version is kept."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.location import Location, page_context, read_number
from historyapp.core.errors import Invalid, NotFound
from historyapp.core.text import clean
from historyapp.models import Summary
from historyapp.models.history import History
from historyapp.services.summaries import SummaryText, add_summary

MAX_SUMMARY = 100_000
"""The maximum number of characters of a summary in the form."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def write_summary(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form for steps ``first`` to ``last``, or those of the summary ``of``; POST saves the text."""
    history = History(find_session(request, session_id))
    query = request.POST or request.GET
    first, last = read_number(query, "first"), read_number(query, "last")
    earlier = _find_summary(history, query["of"]) if query.get("of") else None
    if earlier is not None:
        first, last = earlier.first_step, earlier.last_step
    if first is None or last is None:
        raise Invalid("Enter the first and the last step that the summary covers.")
    location = Location(history, history.resolve(first))
    text = clean(request.POST.get("text", "")).replace("\r\n", "\n").strip()
    error = ""
    if request.method == "POST":
        if not text:
            error = "Enter the text of the summary."
        elif len(text) > MAX_SUMMARY:
            error = f"A summary has at most {MAX_SUMMARY:,} characters; this one has {len(text):,}."
        else:
            written = SummaryText(text, level=earlier.level if earlier else None)
            session = history.session
            add_summary(session.project, session.pk, (first, last), written, actor=actor(request))
            return redirect(location.address + "&shown=summary")
    context = {
        **page_context(request, location),
        "earlier": earlier,
        "first": first,
        "last": history.resolve(last),
        "text": text or (earlier.text if earlier else ""),
        "error": error,
        "longest": MAX_SUMMARY,
    }
    template = "compression/_write_summary.html" if request.htmx else "compression/write_summary.html"
    return render(request, template, context, status=422 if error else 200)


def _find_summary(history: History, id: str) -> Summary:
    """A summary of the session's live history.

    Raises:
        NotFound: when there is none with this id.
    """
    try:
        summary = Summary.objects.filter(pk=UUID(id)).first()
    except ValueError:
        summary = None
    if summary is None or not history.lineage.contains(str(summary.session_id), summary.last_position):
        raise NotFound("There is no such summary in this session's live history.")
    return summary

"""Tags, note and score of a session, edited in place: in its row of the list and in the head of its pages."""

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access import PersonRequest, actor, find_session, signed_in
from dashboard.forms.annotation import AnnotationForm, after_conflict, form_of, read_annotation
from dashboard.location import newest_step, page_context
from dashboard.views.sign_in import local_path
from historyapp.core.errors import Conflict
from historyapp.models import Session
from historyapp.models.annotations import MAX_NOTE, MAX_SCORE_NAME
from historyapp.services.sessions import change_session


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def annotation(request: PersonRequest, session_id: UUID) -> HttpResponse:
    """The form; POST saves it. With ``shown``: the part that the form replaced. Without htmx: a page."""
    session = find_session(request, session_id)
    if request.method != "POST":
        if "shown" in request.GET and request.htmx:
            return render(request, "session/_annotation.html", {"session": session})
        return _form_page(request, session, form_of(session))
    form = read_annotation(request.POST)
    try:
        if changes := form.changes():
            session = change_session(
                session.project, session.pk, changes, expected=form.expected(), actor=actor(request)
            )
    except Conflict:
        session = find_session(request, session_id)
        return _form_page(request, session, after_conflict(form, session), is_conflict=True)
    if request.htmx:
        return render(request, "session/_annotation.html", {"session": session})
    return redirect(local_path(request, request.POST.get("next")))


def _form_page(
    request: PersonRequest, session: Session, form: AnnotationForm, *, is_conflict: bool = False
) -> HttpResponse:
    shown = {
        "session": session,
        "form": form,
        "is_conflict": is_conflict,
        "longest_note": MAX_NOTE,
        "longest_name": MAX_SCORE_NAME,
    }
    if request.htmx:
        return render(request, "session/_annotation_form.html", shown)
    shown |= page_context(request, newest_step(session))
    back = request.POST.get("next") or request.GET.get("next") or request.headers.get("referer")
    shown["next"] = local_path(request, back)
    return render(request, "session/annotation.html", shown, status=409 if is_conflict else 200)

"""Exporting a session as a file."""

from uuid import UUID

from django.http import StreamingHttpResponse
from django.views.decorators.http import require_GET

from dashboard.access import PersonRequest, actor, signed_in
from dashboard.location import find_location
from historyapp.services.exports import export_session


@signed_in
@require_GET
def export(request: PersonRequest, session_id: UUID, format: str) -> StreamingHttpResponse:
    """The session in one of the export formats, as it stands or stood."""
    location = find_location(request, session_id, -1)
    file = export_session(location.session, format, as_of=location.as_of, actor=actor(request))
    response = StreamingHttpResponse(file.chunks, content_type=file.media_type)
    response["Content-Disposition"] = f'attachment; filename="{file.name}"'
    return response

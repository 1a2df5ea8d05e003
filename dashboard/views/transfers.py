"""Importing transcripts that a person uploads, and exporting a session as a file."""

from typing import BinaryIO, cast
from uuid import UUID

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods
from pydantic import TypeAdapter, ValidationError

from dashboard.access import PersonRequest, actor, current_project, projects, signed_in
from dashboard.location import find_location
from historyapp.core.errors import Invalid
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.enqueue import index_imports
from historyapp.services.exports import export_session
from historyapp.services.imports.files import import_file
from historyapp.services.imports.parsers import PARSER_POOL

FILES = 100
"""The maximum number of files of one upload."""
_BOOLEAN = TypeAdapter(bool)
"""Reads the words that the API reads as true or false: ``1``, ``no``, ``off`` …"""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def imports(request: PersonRequest) -> HttpResponse:
    """The form; after an upload also a report on each file, with the skipped records and the reasons."""
    own_projects = projects(request)
    project = current_project(request, own_projects)
    context = {"project": project, "projects": own_projects, "formats": IMPORTERS.values()}
    if request.method != "POST":
        return render(request, "project/import.html", context)
    reports = []
    format = request.POST.get("format") or None
    with PARSER_POOL.acquire(project.pk) as process:
        for upload in request.FILES.getlist("files")[:FILES]:
            source = Source(upload.name or "upload", cast(BinaryIO, upload.file))
            report = import_file(project, source, format=format, actor=actor(request), process=process)
            reports.append(report)
    index_imports(reports)
    return render(request, "project/import.html", context | {"reports": reports, "is_empty": not reports})


@signed_in
@require_GET
def export(request: PersonRequest, session_id: UUID, format: str) -> StreamingHttpResponse:
    """The session in an export format, now or as of a position. ``inputs=false`` leaves out the texts that
    people wrote.
    """
    location = find_location(request, session_id, -1)
    inputs = _with_inputs(request.GET.get("inputs", "true"))
    file = export_session(location.session, format, as_of=location.as_of, inputs=inputs, actor=actor(request))
    response = StreamingHttpResponse(file.chunks, content_type=file.media_type)
    response["Content-Disposition"] = f'attachment; filename="{file.name}"'
    return response


def _with_inputs(text: str) -> bool:
    """Whether an export includes people's texts.

    Raises:
        Invalid: when the text is neither true nor false. A wrong guess could publish them.
    """
    try:
        return _BOOLEAN.validate_python(text)
    except ValidationError:
        raise Invalid(f"inputs is {text[:100]!r}. Use true or false.") from None

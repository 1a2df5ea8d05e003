"""Imports transcripts in any supported format, and exports a session."""

from typing import Annotated, BinaryIO, cast

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import File, Form, Router, UploadedFile
from pydantic import Field

from historyapp.api.auth import ApiRequest, actor, find_session
from historyapp.api.fields import AsOf, SessionId
from historyapp.api.idempotency import concerns_sessions, earlier_response, handles_own_key, once_per_key
from historyapp.api.problems import raises
from historyapp.api.responses import fill, json_response
from historyapp.core.errors import Conflict, UnreadableTranscript
from historyapp.core.exporters import EXPORTERS
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.enqueue import index_imports
from historyapp.services.exports import export_session
from historyapp.services.imports.files import check_imported, import_file
from historyapp.services.imports.parsers import PARSER_POOL
from historyapp.services.imports.reports import FileReport
from historyapp.wire.problems import NotValid
from historyapp.wire.transfers import FileOut, ImportedSessionOut, ImportOut, LinesOut, SkippedOut

router = Router(tags=["transfers"])

ImportFormat = Annotated[str, Field(json_schema_extra={"enum": list(IMPORTERS)})]
ExportFormat = Annotated[str, Field(json_schema_extra={"enum": list(EXPORTERS)})]


_EXPORTED = {
    media_type: {"schema": {"type": "object"} if media_type == "application/json" else {"type": "string"}}
    for media_type in dict.fromkeys(exporter.media_type for exporter in EXPORTERS.values())
}


@router.post("/imports", response={200: ImportOut, 201: ImportOut}, summary="Import transcripts")
@raises(Conflict, UnreadableTranscript)
@handles_own_key
def post_import(
    request: ApiRequest,
    files: File[list[UploadedFile]],
    format: Annotated[ImportFormat | None, Form(description="Null: detected from the content.")] = None,
) -> HttpResponseBase:
    """Importing a file again adds nothing; a file that has grown adds only its new entries.

    201 when entries or sessions were added, 200 when everything was already stored, 422 when nothing could
    be read. 409 when nothing was added because another import of the session is running, or it is
    archived, and when the session was deleted during the import. A response that reports this for a file is
    not stored for the Idempotency-Key."""
    unknown = sorted((set(request.POST) - {"format"}) | (set(request.FILES) - {"files"}))
    if unknown:
        raise NotValid(f"There is no form field {unknown[0]} here. Use `files` and `format`.")
    if stored := earlier_response(request):
        return stored
    # Outside the idempotency transaction: each batch is committed on its own, so that others can write in
    # between.
    with PARSER_POOL.acquire(request.auth.project_id) as process:
        reports = [
            import_file(
                request.auth.project,
                Source(file.name or "upload", cast(BinaryIO, file.file)),
                format=format,
                actor=actor(request),
                process=process,
            )
            for file in files
        ]
    index_imports(reports)
    retryable = [report for report in reports if report.retryable]
    changed = any(report.changed for report in reports)
    if retryable and not changed:
        raise Conflict(retryable[0].error, files=[report.name for report in retryable])
    if all(report.error and not report.sessions for report in reports):
        names = [report.name for report in reports]
        raise UnreadableTranscript(reports[0].error, files=names, formats=list(IMPORTERS))
    response = json_response(
        ImportOut(files=[_file_out(report) for report in reports]), 201 if changed else 200
    )

    concerns_sessions(request, [session.id for report in reports for session in report.sessions])

    def respond() -> HttpResponse:
        check_imported(request.auth.project, reports)
        return response

    return response if retryable else once_per_key(request, respond)


@router.get(
    "/sessions/{session_id}/export",
    summary="Export a session",
    openapi_extra={"responses": {200: {"content": _EXPORTED}}},
)
def read_export(
    request: ApiRequest,
    session_id: SessionId,
    format: ExportFormat = "playhead_jsonl",
    as_of: AsOf = None,
    inputs: Annotated[
        bool, Field(description="False: without text that people wrote, as in a share link. Only for `html`.")
    ] = True,
) -> StreamingHttpResponse:
    """`playhead_jsonl` contains everything, takes and forks included. The other formats contain only live
    entries.
    """
    session = find_session(request, session_id)
    export = export_session(session, format, as_of=as_of, inputs=inputs, actor=actor(request))
    disposition = {"Content-Disposition": f'attachment; filename="{export.name}"'}
    return StreamingHttpResponse(export.chunks, content_type=export.media_type, headers=disposition)


def _file_out(report: FileReport) -> FileOut:
    sessions = [
        fill(
            ImportedSessionOut,
            session.counts,
            id=session.id,
            source_id=session.source_id,
            title=session.title,
            new=session.new,
        )
        for session in report.sessions
    ]
    skipped = [fill(SkippedOut, record) for record in report.skipped]
    counts = report.lines.counts
    lines = None if counts is None else LinesOut(**counts._asdict())
    return fill(FileOut, report, sessions=sessions, skipped=skipped, lines=lines)

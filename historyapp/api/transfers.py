"""Transcripts in and out: importing files of any supported format, exporting a session."""

from typing import Annotated, Any, BinaryIO, cast
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile as DjangoUploadedFile
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import File, Form, Router, UploadedFile
from pydantic import BaseModel, Field

from historyapp.api.answers import reply
from historyapp.api.auth import ApiRequest, actor
from historyapp.api.calls import earlier_answer, keeps_its_key, once_per_key
from historyapp.api.fields import SessionId
from historyapp.api.problems import raises
from historyapp.api.reading import AsOf, find_session
from historyapp.api.schemas import shown
from historyapp.core.errors import Conflict, UnreadableTranscript
from historyapp.core.exporters import EXPORTERS
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.services.exports import export_session
from historyapp.services.imports.files import import_file
from historyapp.services.imports.reports import FileReport, SessionReport
from historyapp.wire import examples
from historyapp.wire.problems import NotValid

router = Router(tags=["transfers"])

_COUNTS = ("entries", "steps", "calls", "results", "unpaired_calls", "unpaired_results", "added")
ImportFormat = Annotated[str, Field(json_schema_extra={"enum": list(IMPORTERS)})]
ExportFormat = Annotated[str, Field(json_schema_extra={"enum": list(EXPORTERS)})]


_EXPORTED = {
    media_type: {"schema": {"type": "object"} if media_type == "application/json" else {"type": "string"}}
    for media_type in dict.fromkeys(exporter.media_type for exporter in EXPORTERS.values())
}


class ImportedSessionOut(BaseModel):
    id: UUID
    source_id: str = Field(description="Its id in the file.")
    title: str
    new: bool = Field(description="False where it had been imported before.")
    entries: int
    steps: int
    calls: int
    results: int
    unpaired_calls: int = Field(description="Calls without a result.")
    unpaired_results: int = Field(description="Results that answer no call of their step.")
    added: int = Field(description="Entries that this import put into the log.")


class SkippedOut(BaseModel):
    line: int
    reason: str
    damaged: bool = Field(description="False where the record is well formed but is no part of a history.")


class FileOut(BaseModel):
    name: str
    format: str
    sessions: list[ImportedSessionOut]
    skipped: list[SkippedOut] = Field(description="Records that were not used, the first 1,000.")
    skipped_count: int
    damaged_count: int
    error: str = Field(description="Why reading ended before the end; else empty.")


class ImportOut(BaseModel):
    model_config = shown({"files": [examples.IMPORTED_FILE]})

    files: list[FileOut]


@router.post("/imports", response={200: ImportOut, 201: ImportOut}, summary="Import transcripts")
@raises(Conflict, UnreadableTranscript)
@keeps_its_key
def post_import(
    request: ApiRequest,
    files: File[list[UploadedFile]],
    format: Annotated[ImportFormat | None, Form(description="Null: told from the file's content.")] = None,
) -> HttpResponseBase:
    """Importing a file again adds nothing, and a grown file adds what is new.

    201 when entries or sessions were added, 200 when all was there already, 422 when nothing could be read at
    all. 409 when nothing was added because another import of the session is under way, or it is archived: an
    answer that tells of this, of all files or of one, is not kept for the Idempotency-Key.
    """
    unknown = sorted((set(request.POST) - {"format"}) | (set(request.FILES) - {"files"}))
    if unknown:
        raise NotValid(f"There is no form field {unknown[0]} here. Use files and format.")
    if answered := earlier_answer(request):
        return answered
    # Outside the key's transaction: each batch is durable by itself, and other agents write in between.
    reports = [_import(request, file, format) for file in files]
    later = [report for report in reports if report.retryable]
    changed = any(report.changed for report in reports)
    if later and not changed:
        raise Conflict(later[0].error, files=[report.name for report in later])
    if all(report.error and not report.sessions for report in reports):
        names = [report.name for report in reports]
        raise UnreadableTranscript(reports[0].error, files=names, formats=list(IMPORTERS))
    answer = reply({"files": [report_json(report) for report in reports]}, 201 if changed else 200)
    return answer if later else once_per_key(request, lambda: answer)


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
) -> StreamingHttpResponse:
    """Playhead's own format holds everything, takes and forks included; the others hold what is live."""
    session = find_session(request, session_id)
    export = export_session(session, format, as_of=as_of, actor=actor(request))
    disposition = {"Content-Disposition": f'attachment; filename="{export.name}"'}
    return StreamingHttpResponse(export.chunks, content_type=export.media_type, headers=disposition)


def _import(request: ApiRequest, file: "DjangoUploadedFile[bytes]", format: str | None) -> FileReport:
    source = Source(file.name or "upload", cast(BinaryIO, file.file))
    return import_file(request.auth.project, source, format=format, actor=actor(request))


def report_json(report: FileReport) -> dict[str, Any]:
    """The report as :class:`FileOut`."""
    return {
        "name": report.name,
        "format": report.format,
        "sessions": [_session(session) for session in report.sessions],
        "skipped": [
            {"line": skipped.line, "reason": skipped.reason, "damaged": skipped.damaged}
            for skipped in report.skipped
        ],
        "skipped_count": report.skipped_count,
        "damaged_count": report.damaged_count,
        "error": report.error,
    }


def _session(session: SessionReport) -> dict[str, Any]:
    counts = {name: getattr(session.counts, name) for name in _COUNTS}
    names = {"id": str(session.id), "source_id": session.source_id, "title": session.title}
    return {**names, "new": session.new, **counts}

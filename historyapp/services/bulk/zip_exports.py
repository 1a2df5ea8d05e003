"""Exports many sessions as one zip file. It is created while it is sent, so memory holds only a part."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import PlayheadError
from historyapp.core.json import dump_json
from historyapp.models import Project, Session
from historyapp.models.families import by_family
from historyapp.services.bulk.start import check_sessions
from historyapp.services.exports import export_session, export_together, exporter_named

INDEX_NAME = "index.json"
"""The last file. It lists the other files, and the sessions that are missing with the reasons."""
_DELETED = "The session was deleted during the export. The zip file may contain a part of it."
_CHUNK_SIZE = 64 * 1024
"""The minimum size of the chunks that are sent, in bytes."""


@dataclass(frozen=True, slots=True)
class ZipExport:
    """A zip file to download."""

    name: str
    chunks: Iterator[bytes]


class _ZipBuffer:
    """The file object that ``zipfile`` writes to. :meth:`take` empties it."""

    def __init__(self) -> None:
        self._parts = list[bytes]()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        """``zipfile`` calls this method."""

    def close(self) -> None:
        """The type that ``zipfile`` expects has this method."""

    def take(self, at_least: int = 1) -> Iterator[bytes]:
        """Yields and removes the bytes written so far, if there are at least ``at_least``."""
        if self._size >= at_least:
            yield b"".join(self._parts)
            self._parts.clear()
            self._size = 0


def export_zip(project: Project, ids: Sequence[UUID], format: str, *, actor: str = "") -> ZipExport:
    """The sessions in one of the export formats, each as a file.

    In Playhead's own format, which contains forks and the entries that forks share, the sessions that were
    forked from the same session are one file. So each entry is written once.

    Raises:
        Invalid: for a format that does not exist, and for no sessions or too many of them.
    """
    exporter, chosen = exporter_named(format), check_sessions(ids)
    groups = [[id] for id in chosen] if exporter.live_only else by_family(chosen)
    stamp = timezone.now().strftime("%Y-%m-%d-%H%M%S")
    return ZipExport(f"sessions-{stamp}.zip", _zipped(project, groups, format, actor))


def _zipped(project: Project, groups: list[list[UUID]], format: str, actor: str) -> Iterator[bytes]:
    """The zip file, with a file for each group of sessions."""
    buffer, files, missing = _ZipBuffer(), list[dict[str, str]](), list[dict[str, str]]()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for ids in groups:
            rows = Session.objects.filter(project=project)
            # All rows of a family together can be long, and the index needs only their titles.
            by_id = (rows.only("project_id", "title") if len(ids) > 1 else rows.defer(None)).in_bulk(ids)
            missing += [_missing(id, f"There is no session {id}.") for id in ids if id not in by_id]
            sessions = [by_id[id] for id in ids if id in by_id]
            if not sessions:
                continue
            try:
                if len(sessions) > 1:
                    export = export_together(sessions, format, actor=actor)
                else:
                    export = export_session(sessions[0], format, actor=actor)
                name = _free_name(export.name, sessions[0].pk, {file["file"] for file in files})
                with archive.open(_zip_info(name), "w", force_zip64=True) as file:
                    for chunk in export.chunks:
                        file.write(chunk.encode())
                        yield from buffer.take(_CHUNK_SIZE)
                existing = set(rows.filter(pk__in=ids).values_list("pk", flat=True))
                files += [
                    {"file": name, "session": str(session.pk), "title": session.title}
                    for session in sessions
                    if session.pk in existing
                ]
                missing += [_missing(id, _DELETED) for id in by_id if id not in existing]
            except PlayheadError as error:
                missing += [_missing(session.pk, error.detail) for session in sessions]
        index = {"format": format, "files": files, "not_exported": missing}
        archive.writestr(_zip_info(INDEX_NAME), dump_json(index).encode())
    yield from buffer.take()


def _missing(id: UUID, reason: str) -> dict[str, str]:
    return {"session": str(id), "reason": reason}


def _zip_info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, timezone.now().timetuple()[:6])
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _free_name(name: str, id: UUID, used_names: set[str]) -> str:
    """The name, or one with the whole id if another file has this name."""
    if name not in used_names:
        return name
    stem, dot, suffix = name.partition(".")
    return f"{re.sub('-[0-9a-f]{6}$', '', stem)}-{id}{dot}{suffix}"

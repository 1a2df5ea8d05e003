"""Exports many sessions as one zip file. It is created while it is sent, so memory holds only a part."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Invalid, NotFound, PlayheadError
from historyapp.core.exporters import EXPORTERS
from historyapp.core.json import dump_json
from historyapp.models import Project, Session
from historyapp.services.bulk.start import check_sessions
from historyapp.services.exports import export_session

INDEX_NAME = "index.json"
"""The last file. It lists the other files, and the sessions that are missing with the reasons."""
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

    Raises:
        Invalid: for a format that does not exist, and for no sessions or too many of them.
    """
    if format not in EXPORTERS:
        raise Invalid(f"There is no export format {format[:100]!r}. Use one of: {', '.join(EXPORTERS)}.")
    sessions = check_sessions(ids)
    stamp = timezone.now().strftime("%Y-%m-%d-%H%M%S")
    return ZipExport(f"sessions-{stamp}.zip", _zipped(project, sessions, format, actor))


def _zipped(project: Project, ids: Sequence[UUID], format: str, actor: str) -> Iterator[bytes]:
    buffer, files, missing = _ZipBuffer(), list[dict[str, Any]](), list[dict[str, Any]]()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for id in ids:
            try:
                session = Session.objects.filter(project=project, pk=id).first()
                if session is None:
                    raise NotFound(f"There is no session {id}.")
                export = export_session(session, format, actor=actor)
                name = _free_name(export.name, id, {file["file"] for file in files})
                with archive.open(_zip_info(name), "w", force_zip64=True) as file:
                    for chunk in export.chunks:
                        file.write(chunk.encode())
                        yield from buffer.take(_CHUNK_SIZE)
                files.append({"file": name, "session": str(id), "title": session.title})
            except PlayheadError as error:
                missing.append({"session": str(id), "reason": error.detail})
        index = {"format": format, "files": files, "not_exported": missing}
        archive.writestr(_zip_info(INDEX_NAME), dump_json(index).encode())
    yield from buffer.take()


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

"""Transcripts in and out."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from historyapp.client.answers import Imported
from historyapp.client.calls.making import Id, at, given
from historyapp.client.description import Call, Chunks, Stream, nothing
from historyapp.core.text import clean

Upload = str | PathLike[str] | tuple[str, bytes]
"""A path, or a name and what is in it."""


def import_files(files: Iterable[Upload], *, format: str | None = None) -> Call[Imported]:
    """Imports transcripts. Importing one again adds nothing, and a grown one adds what is new.

    Args:
        format: None: told from what is in the files.

    Raises:
        OSError: when a file cannot be read.
        UnreadableTranscript: when none of them is a transcript.
    """
    uploads = tuple(map(_upload, files))
    return Call("POST", "/imports", Imported.model_validate, body=given({"format": format}), files=uploads)


def export(session_id: Id, *, format: str = "playhead_jsonl", as_of: int | None = None) -> Stream[bytes]:
    """A session as a file, in chunks as they come."""
    query = given({"format": format, "as_of": as_of})
    return Stream(Call("GET", at("sessions", session_id, "export"), nothing, query), Chunks)


def _upload(file: Upload) -> tuple[str, bytes]:
    if isinstance(file, tuple):
        return file
    path = Path(file)
    return clean(path.name), path.read_bytes()

"""Imports transcripts and exports sessions."""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from historyapp.client.api_call import ApiCall, Id, Stream, drop_nulls, path_of
from historyapp.core.text import clean
from historyapp.wire.transfers import ImportOut

Upload = str | PathLike[str] | tuple[str, bytes]
"""A path, or a file name and its content."""


def import_files(files: Iterable[Upload], *, format: str | None = None) -> ApiCall[ImportOut]:
    """Imports transcripts. Importing a file again adds nothing; a file that has grown adds only its new
    entries.

    Args:
        format: None: detected from the content.

    Raises:
        OSError: when a file cannot be read.
        UnreadableTranscript: when none of the files can be imported.
    """
    uploads = list[tuple[str, bytes]]()
    for file in files:
        if isinstance(file, tuple):
            uploads.append(file)
        else:
            path = Path(file)
            uploads.append((clean(path.name), path.read_bytes()))
    return ApiCall(
        "POST",
        "/imports",
        ImportOut.model_validate,
        body=drop_nulls({"format": format}),
        files=tuple(uploads),
    )


def export(
    session_id: Id, *, format: str = "playhead_jsonl", as_of: int | None = None, inputs: bool | None = None
) -> Stream[bytes]:
    """A session as a file, in chunks as they arrive.

    Args:
        inputs: False leaves out text that people wrote, in the format ``html``.
    """
    query = drop_nulls({"format": format, "as_of": as_of, "inputs": inputs})
    api_call = ApiCall("GET", path_of("sessions", session_id, "export"), lambda _: None, query)
    return Stream(api_call, lambda: lambda chunk: () if chunk is None else (chunk,))

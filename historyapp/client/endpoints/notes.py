"""Bookmarks and notes of steps."""

from historyapp.client.api_call import ApiCall, Id, Pages, drop_nulls, pages, path_of
from historyapp.wire.notes import NoteOut, NotePage


def notes(session_id: Id, *, limit: int | None = None, as_of: int | None = None) -> Pages[NoteOut]:
    """The bookmarks and notes of live steps, in the order of the steps."""
    return pages(path_of("sessions", session_id, "notes"), NotePage, limit=limit, as_of=as_of)


def write_note(session_id: Id, number: int, text: str = "", *, as_of: int | None = None) -> ApiCall[NoteOut]:
    """Bookmarks a step, with a note if there is a text. An earlier note on the step is replaced."""
    return ApiCall(
        "PUT",
        _note_path(session_id, number),
        NoteOut.model_validate,
        drop_nulls({"as_of": as_of}),
        {"text": text},
    )


def delete_note(session_id: Id, number: int, *, as_of: int | None = None) -> ApiCall[None]:
    """Removes the bookmark and the note of a step. Needs the scope ``admin``."""
    return ApiCall("DELETE", _note_path(session_id, number), lambda _: None, drop_nulls({"as_of": as_of}))


def _note_path(session_id: Id, number: int) -> str:
    return path_of("sessions", session_id, "episodes", number, "note")

"""Sessions that transcripts hold twice: whole, and elsewhere as a copy that leaves things out.

Claude Code repeats what a sub-agent did in the file of the agent that started it, in part; the sub-agent's
own file has all of it. Both are one session here, whichever is imported first.
"""

from historyapp.core.entries import EntryDraft, Rewind
from historyapp.core.importers.base import SessionStart
from historyapp.core.text import clean
from historyapp.models import ImportSource, Project
from historyapp.services.append import lock_session
from historyapp.services.rewinds import path_to, rewind_locked


def key_of(source_id: str) -> str:
    """A source id as it is stored."""
    return clean(source_id)[:300]


def is_known_whole(project: Project, format: str, start: SessionStart) -> bool:
    """Whether the session that ``start`` tells in part has been imported whole."""
    if not start.whole_copy:
        return False
    known = ImportSource.objects.filter(project=project, format=format, source_id=key_of(start.whole_copy))
    return known.exists()


def take_over(project: Project, format: str, start: SessionStart) -> ImportSource | None:
    """The source of a partial copy of this session, made ready to be read whole; None where there is none.

    Its session stays. What was imported of it is left behind as a take.
    """
    if not start.partial_copy:
        return None
    sources = ImportSource.objects.select_for_update().filter(project=project, format=format)
    source = sources.filter(source_id=key_of(start.partial_copy), variant=0).first()
    if source is None:
        return None
    session = lock_session(project, source.session_id)
    draft = EntryDraft(
        Rewind(to_position=0, spans=(), reason="read whole from another transcript", actor="import")
    )
    rewind_locked(session, path_to(session, 0), draft, "import")
    source.source_id = key_of(start.session)
    source.settled, source.settled_digest, source.provisional_digests, source.shifts = 0, "", [], []
    source.settled_position = session.head
    source.session = session
    source.save()
    return source

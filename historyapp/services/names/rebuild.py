"""Builds the index of a session's names again, to check the stored one."""

from historyapp.core.origins import VERSION
from historyapp.models import NameIndex, NameRun, Session, StepNames
from historyapp.services.names.index import next_chunks, store_chunks
from historyapp.services.names.merges import places_of_run


def rebuild_names(session: Session) -> list[str]:
    """Builds the index of a session again and reports whether the stored one differed.

    Does nothing if the session has no index, or one of an earlier version, which the next reader replaces.
    """
    index = NameIndex.objects.filter(session=session, version=VERSION).first()
    if index is None:
        return []
    before = _index_content(index)
    last = index.position
    NameRun.objects.filter(index=index).delete()
    StepNames.objects.filter(index=index).delete()
    index.position, index.unread = session.fork_position, 0
    index.save(update_fields=["position", "unread"])
    while index.position < last and (chunk := next_chunks(session, index, last)):
        store_chunks([(index, chunk)])
    return [] if before == _index_content(index) else ["the index of names differed"]


def _index_content(index: NameIndex) -> list[object]:
    """The content of an index, independent of chunks and runs. Of the places, only their number and sum."""
    count = total = 0
    for run in NameRun.objects.filter(index=index, is_live=True):
        for place in places_of_run(run.pk):
            count, total = count + 1, total + place
    steps = StepNames.objects.filter(index=index).order_by("position")
    flags = list(steps.values_list("position", "number", "unseen", "gone"))
    return [index.position, index.unread, count, total, flags]

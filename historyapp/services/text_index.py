"""Makes the text blocks of sessions, which searches read; see ``models.text_blocks``.

Workers make them after a search has found entries without a block. An append makes none, because it would
take more than a fifth longer.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from uuid import UUID

from historyapp.models import Session, TextBlock
from historyapp.models.text_blocks import blocks, indexed_to
from historyapp.services.transactions import writing

_AT_ONCE = 8
"""The number of blocks written in one transaction: about 200 KB."""


def index_text(session_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> int:
    """Makes the missing blocks of a session. Returns how many; 0 if the session was deleted meanwhile.

    Args:
        should_stop: called after each transaction. The next call makes the rest.
    """
    session = Session.objects.filter(pk=session_id).only("head", "fork_position").first()
    if session is None:
        return 0
    made, missing = 0, blocks(session_id, max(indexed_to(session_id), session.fork_position), session.head)
    while batch := list(islice(missing, _AT_ONCE)):
        with writing():
            if not Session.objects.select_for_update().filter(pk=session_id).exists():
                return 0
            # Two workers may make the same blocks at the same time. The blocks are equal.
            TextBlock.objects.bulk_create(batch, ignore_conflicts=True)
        made += len(batch)
        if should_stop():
            break
    return made


def rebuild_text(session: Session) -> Iterator[str]:
    """Builds a session's blocks again, within the caller's transaction. Yields the differences in words.

    Covers only the entries that had blocks; later ones are indexed after the next search.
    """
    stored = {block.first_position: block for block in TextBlock.objects.filter(session=session)}
    last = max((block.last_position for block in stored.values()), default=0)
    TextBlock.objects.filter(session=session).delete()
    fresh = blocks(session.pk, session.fork_position, min(last, session.head))
    while batch := list(islice(fresh, _AT_ONCE)):
        TextBlock.objects.bulk_create(batch)
        for block in batch:
            was = stored.pop(block.first_position, None)
            if was is None:
                yield f"text block {block.first_position} was missing"
            elif was.content() != block.content():
                yield f"text block {block.first_position} differed"
    for first in stored:
        yield f"text block {first} was not in the log"

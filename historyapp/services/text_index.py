"""Builds the text blocks of sessions, which searches read; see ``models.text_blocks``.

Workers build them after a search has found entries without a block. An append builds none, because it would
take more than 20 % longer.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from uuid import UUID

from historyapp.models import Session, TextBlock
from historyapp.models.text_blocks import blocks, indexed_to
from historyapp.services.transactions import writing

_BATCH_SIZE = 8
"""The number of blocks written in one transaction: about 200 KB."""
_BATCH_BYTES = 1 << 20
"""A transaction ends with the block that reaches this many bytes. Agents wait for it, and the blocks of long
entries are long."""


def index_text(session_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> int:
    """Builds the missing blocks of a session. Returns how many; 0 if the session was deleted meanwhile.

    Args:
        should_stop: called after each block. The next call continues.
    """
    session = Session.objects.filter(pk=session_id).only("head", "fork_position").first()
    if session is None:
        return 0
    count, missing = 0, blocks(session_id, max(indexed_to(session_id), session.fork_position), session.head)
    is_stopping = False
    while not is_stopping:
        batch, is_stopping = _next_batch(missing, should_stop)
        if not batch:
            break
        with writing():
            if not Session.objects.select_for_update(no_key=True).filter(pk=session_id).exists():
                return 0
            # Two workers may build the same blocks at the same time. The blocks are equal.
            TextBlock.objects.bulk_create(batch, ignore_conflicts=True)
        count += len(batch)
    return count


def _next_batch(
    missing: Iterator[TextBlock], should_stop: Callable[[], bool]
) -> tuple[list[TextBlock], bool]:
    """Builds the blocks of one transaction, before it begins. Returns them and whether to stop after them."""
    batch, size = list[TextBlock](), 0
    for block in missing:
        batch.append(block)
        size += len(block.text) + len(block.signature)
        if should_stop():
            return batch, True
        if len(batch) >= _BATCH_SIZE or size >= _BATCH_BYTES:
            break
    return batch, False


def rebuild_text(session: Session) -> Iterator[str]:
    """Builds a session's blocks again, within the caller's transaction. Yields the differences in words.

    Only entries that had blocks get new ones. Later entries are indexed after the next search.
    """
    stored = {block.first_position: block for block in TextBlock.objects.filter(session=session)}
    last = max((block.last_position for block in stored.values()), default=0)
    TextBlock.objects.filter(session=session).delete()
    rebuilt = blocks(session.pk, session.fork_position, min(last, session.head))
    while batch := list(islice(rebuilt, _BATCH_SIZE)):
        TextBlock.objects.bulk_create(batch)
        for block in batch:
            stored_block = stored.pop(block.first_position, None)
            if stored_block is None:
                yield f"text block {block.first_position} was missing"
            elif stored_block.content() != block.content():
                yield f"text block {block.first_position} differed"
    for first_position in stored:
        yield f"text block {first_position} was not in the log"

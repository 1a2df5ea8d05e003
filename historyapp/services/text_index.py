"""Builds the text blocks of sessions, which searches read; see ``models.text_blocks``.

Workers build them after a search has found entries without a block. An append builds none, because it would
take more than 20 % longer.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from uuid import UUID

from historyapp.core.lineage import Span
from historyapp.models import Session, TextBlock
from historyapp.models.lineage_blocks import OwnPart, covered, divided, own_parts
from historyapp.models.text_blocks import blocks
from historyapp.services.transactions import lock_together, writing

_BATCH_SIZE = 8
"""The number of blocks written in one transaction: about 200 KB."""
_BATCH_BYTES = 1 << 20
"""A transaction ends with the block that reaches this many bytes. Agents wait for it, and the blocks of long
entries are long."""


def index_text(session_id: UUID, should_stop: Callable[[], bool] = lambda: False) -> int:
    """Builds the missing blocks of a session and of the entries that it shares, oldest first. Returns how
    many; 0 if the session was deleted meanwhile.

    Args:
        should_stop: called after each block. The next call continues.
    """
    session = Session.objects.filter(pk=session_id).first()
    if session is None:
        return 0
    count, is_stopping = 0, False
    missing = _missing_blocks(own_parts(session, session.head))
    while not is_stopping:
        batch, is_stopping = _next_batch(missing, should_stop)
        if not batch:
            break
        with writing():
            ids = {block.session_id for block in batch}
            stored = lock_together(Session.objects.filter(pk__in=ids))
            # Two workers may build the same blocks at the same time. The blocks are equal.
            blocks_of_stored = [block for block in batch if block.session_id in stored]
            TextBlock.objects.bulk_create(blocks_of_stored, ignore_conflicts=True)
        if session_id in ids - stored:
            return 0
        count += len(blocks_of_stored)
    return count


def _missing_blocks(parts: Sequence[OwnPart]) -> Iterator[TextBlock]:
    for piece in divided(parts, covered(parts), complete=True):
        if not piece.in_blocks:
            yield from blocks(piece.spans)


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
    spans = _spans_to_rebuild(session, last, starts_at_fork=session.fork_position + 1 in stored)
    rebuilt = (block for block in blocks(spans) if block.session_id == session.pk)
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


def _spans_to_rebuild(session: Session, last: int, *, starts_at_fork: bool) -> list[Span]:
    """The entries from the first block of a session up to a position.

    Args:
        starts_at_fork: the first block has no shared entries, for example because an earlier version made it.
    """
    if last <= session.fork_position:
        return []
    own, *shared = own_parts(session, min(last, session.head))
    pieces = [] if starts_at_fork else divided(shared, covered(shared), complete=True)
    unread = pieces[-1].spans if pieces and not pieces[-1].in_blocks else []
    return [*unread, Span(*own)]

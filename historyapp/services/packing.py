"""Compresses the bodies of a long append in another thread.

zstd releases Python's lock, so a second core compresses while the first one computes the steps.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from historyapp.models.fields import pack_all
from historyapp.models.vendor import on_sqlite

_MIN_TEXTS = 20
"""Shorter appends do not use the other thread."""
_LONG_CHARACTERS = 500_000
"""Packing this many characters takes longer than most waits for the lock."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="packing")


def pack_in_thread(texts: Sequence[str]) -> Callable[[], Sequence[str | bytes]] | None:
    """Starts to pack texts. Returns a function that returns the packed texts, or None for a short append.

    The function is called while the database is locked, so it must not wait for another append. If the thread
    has not started with these texts, the function packs them itself. Long texts are packed before this
    function returns.
    """
    if not on_sqlite():
        return None
    if sum(map(len, texts)) >= _LONG_CHARACTERS:
        packed_texts = pack_all(texts)
        return lambda: packed_texts
    if len(texts) < _MIN_TEXTS:
        return None
    packed = _thread.submit(pack_all, texts)
    return lambda: pack_all(texts) if packed.cancel() else packed.result()

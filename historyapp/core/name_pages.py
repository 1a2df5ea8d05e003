"""Places of names as sorted integers, stored in compact pages.

A place is one number with four parts: whether the name is in an action, a hash of the name, whether it is in
the agent's own text or in a text that the agent was given, and the position of the entry. So the places of a
name are adjacent, and those in actions are separate: few pages are read to find a later action with a name.
"""

import sys
import threading
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate
from typing import Literal

from zstandard import ZstdCompressor, ZstdDecompressor

Group = Literal["given", "own", "action"]
"""Texts that the agent was given, its own thoughts and texts, and its actions."""
GROUPS: tuple[Group, ...] = ("given", "own", "action")
HASH_BITS, POSITION_BITS = 34, 27
MAX_POSITION = (1 << POSITION_BITS) - 1
PAGE_PLACES = 512
"""Places of a page: about 2.5 KB."""
_ACTION = 1 << (HASH_BITS + 1 + POSITION_BITS)
_OWN = 1 << POSITION_BITS
_WIDTH = 8
_codecs = threading.local()
"""One compressor and decompressor for each thread: neither class is thread-safe."""


def key_of(text: str) -> int:
    """34 bits of a hash.

    With three million names, one in 5,700 lookups of another name collides with one of them.
    """
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> (64 - HASH_BITS)


def place_of(key: int, group: Group, position: int) -> int:
    """The number of a place: 63 bits, so that a database stores it as a whole number."""
    value = key << (POSITION_BITS + 1) | min(position, MAX_POSITION)
    return value | (_ACTION if group == "action" else _OWN if group == "own" else 0)


def position_of(place: int) -> int:
    """The position in the log."""
    return place & MAX_POSITION


def name_of(place: int) -> int:
    """The part of a place that all places of a key in one group have in common."""
    return place >> POSITION_BITS


def names_of(places: Iterable[int]) -> set[int]:
    """As :func:`name_of`, for many places: the indexes of sixty forks have thousands."""
    return {place >> POSITION_BITS for place in places}


def group_at(place: int) -> Group:
    """The group of a place."""
    return "action" if place & _ACTION else "own" if place & _OWN else "given"


def pack_places(places: Iterable[int]) -> bytes:
    """Ascending places in the form of a page: differences, grouped by byte (lowest first), compressed."""
    distances = array("Q")
    previous = 0
    for place in places:
        distances.append(place - previous)
        previous = place
    if sys.byteorder == "big":
        distances.byteswap()
    raw = distances.tobytes()
    if not hasattr(_codecs, "compressor"):
        _codecs.compressor = ZstdCompressor(level=3, write_checksum=False, write_content_size=True)
    packed: bytes = _codecs.compressor.compress(b"".join([raw[byte::_WIDTH] for byte in range(_WIDTH)]))
    return packed


def unpack_places(stored: bytes | memoryview) -> list[int]:
    """The places of a page, ascending."""
    if not hasattr(_codecs, "decompressor"):
        _codecs.decompressor = ZstdDecompressor()
    planes: bytes = _codecs.decompressor.decompress(stored)
    count = len(planes) // _WIDTH
    raw = bytearray(len(planes))
    for byte in range(_WIDTH):
        raw[byte::_WIDTH] = planes[byte * count : (byte + 1) * count]
    distances = array("Q")
    distances.frombytes(raw)
    if sys.byteorder == "big":
        distances.byteswap()
    return list(accumulate(distances))


def pages(places: Iterable[int]) -> Iterator[list[int]]:
    """Groups ascending places into pages."""
    page: list[int] = []
    for place in places:
        page.append(place)
        if len(page) == PAGE_PLACES:
            yield page
            page = []
    if page:
        yield page

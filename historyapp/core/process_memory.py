"""Releases memory of an idle process: caches, free memory of the heap, and pages of program code."""

import ctypes
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., object])

_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ ([0-9]+)")
_DONTNEED = 4
"""``MADV_DONTNEED`` of Linux."""


class _Cache:
    """The cache of a function, and when it was last used."""

    def __init__(self, clear: Callable[[], None], uses: Callable[[], int]) -> None:
        self.clear, self.uses = clear, uses
        self.known_uses, self.known_at = 0, 0.0


_caches: list[_Cache] = []


def cached_while_busy(size: int) -> Callable[[F], F]:
    """Caches a function like ``lru_cache``. ``empty_unused_caches`` empties the cache."""

    def decorate(function: F) -> F:
        cached = lru_cache(size)(function)

        def uses() -> int:
            info = cached.cache_info()
            return info.hits + info.misses

        empty_while_unused(cached.cache_clear, uses)
        return cached  # type: ignore[return-value]

    return decorate


def empty_while_unused(clear: Callable[[], None], uses: Callable[[], int]) -> None:
    """Lets ``empty_unused_caches`` empty a cache.

    Args:
        uses: how often the cache has been used; 0 again after ``clear``.
    """
    _caches.append(_Cache(clear, uses))


def empty_unused_caches(seconds: float) -> bool:
    """Empties caches that were not used for this long. Returns whether there were any.

    Call it repeatedly: it compares the numbers of uses with those of the previous call.
    """
    now = time.monotonic()
    emptied = False
    for cache in _caches:
        uses = cache.uses()
        if uses != cache.known_uses:
            cache.known_uses, cache.known_at = uses, now
        elif uses and now >= cache.known_at + seconds:
            cache.clear()
            cache.known_uses = 0
            emptied = True
    return emptied


def return_free_memory() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps. Does nothing with other C
    libraries."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim:
        trim(0)


class FileMapping(NamedTuple):
    """A part of a file in memory, from one address to another."""

    start: int
    end: int
    is_code: bool
    """Otherwise it is constant data of a library."""


_known_data: frozenset[FileMapping] = frozenset()
"""The data of libraries that the last call of :func:`unmap_code` found."""


def unmap_code() -> None:
    """Removes pages of program code from the process, and constant data of libraries that it found before.

    The system keeps them in its own cache and maps them again, 16 at a time, when they are used. While they
    are mapped, it counts all of them as memory of the process, and reclaims them later than others.

    The loader changes data of a library right after it has mapped them, so what was loaded since the last
    call stays. Other files are left out: SQLite may unmap a database at any moment. Python never unloads a
    library.
    """
    global _known_data
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    try:
        with _MAPPINGS.open(errors="replace", newline="\n") as lines:
            unchanged = list(unchanged_mappings(lines))
    except OSError:  # some systems hide this file
        return
    for mapping in unchanged:
        if mapping.is_code or mapping in _known_data:
            advise(mapping.start, mapping.end - mapping.start, _DONTNEED)
    _known_data = frozenset(mapping for mapping in unchanged if not mapping.is_code)


def unchanged_mappings(lines: Iterable[str]) -> Iterator[FileMapping]:
    """Mapped program code, and constant data of libraries, without pages that were changed, in memory or in
    swap.

    Args:
        lines: those of ``/proc/self/smaps``.
    """
    mapping: FileMapping | None = None
    for line in lines:
        if header := _MAPPING.match(line):
            is_code = header[3] == "r-xp" and header[4] != "0"
            is_data = header[3] == "r--p" and line.rstrip().endswith(".so")
            start, end = int(header[1], 16), int(header[2], 16)
            mapping = FileMapping(start, end, is_code) if is_code or is_data else None
            continue
        name, _, value = line.partition(":")
        if name == "Anonymous" and value.split() != ["0", "kB"]:
            mapping = None
        elif name == "Swap" and mapping and value.split() == ["0", "kB"]:  # it follows Anonymous
            yield mapping

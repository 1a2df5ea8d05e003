"""Memory that an idle process gives back: caches, free memory of the heap, and pages of files."""

import ctypes
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-.. \S+ \S+ [1-9]")
"""A mapping of a file that is not writable."""
_DONTNEED = 4
"""``MADV_DONTNEED`` of Linux."""


class _Cache:
    """A cache of a function, and when it was last used."""

    def __init__(self, clear: Callable[[], None], uses: Callable[[], int]) -> None:
        self.clear, self.uses = clear, uses
        self.known_uses, self.known_at = 0, 0.0


_caches: list[_Cache] = []


def cached_while_busy(size: int) -> Callable[[F], F]:
    """Caches a function like ``lru_cache``. An idle process empties the cache."""

    def decorate(function: F) -> F:
        cached = lru_cache(size)(function)

        def uses() -> int:
            info = cached.cache_info()
            return info.hits + info.misses

        _caches.append(_Cache(cached.cache_clear, uses))
        return cached  # type: ignore[return-value]

    return decorate


def empty_unused_caches(seconds: float) -> bool:
    """Empties caches that were not used for this long. Returns whether there were any.

    Call it repeatedly: it notices uses only from one call to the next. So caches need no clock of their own.
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


def unmap_file_pages() -> None:
    """Removes pages of programs and databases that were only read from the process.

    The system keeps them in its own cache and maps them again, 16 at a time, when they are used. While they
    are mapped, it counts all of them as memory of the process, and reclaims them later than others.
    """
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in _unchanged_mappings():
        advise(start, end - start, _DONTNEED)


def _unchanged_mappings() -> Iterator[tuple[int, int]]:
    """The addresses of the mappings of files that are not writable and contain no changed pages."""
    mapping: tuple[int, int] | None = None
    try:
        lines = _MAPPINGS.read_text().splitlines()
    except OSError:  # a system that hides it
        return
    for line in lines:
        name, _, value = line.partition(":")
        if name == "Anonymous" and mapping and value.split()[0] == "0":
            yield mapping
        elif "-" in name.partition(" ")[0]:
            found = _MAPPING.match(line)
            mapping = (int(found[1], 16), int(found[2], 16)) if found else None

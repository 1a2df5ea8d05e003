"""An idle process gives memory back, and works as before."""

import mmap
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from historyapp.core import process_memory
from historyapp.core.identifiers import identifiers
from historyapp.core.process_memory import (
    FileMapping,
    cached_while_busy,
    empty_unused_caches,
    unchanged_mappings,
    unmap_code,
)

PAGES = bytes(range(256)) * 16 * 50


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(process_memory, "_caches", [])
    monkeypatch.setattr("historyapp.core.process_memory.time.monotonic", lambda: now[0])
    return now


def test_a_cache_is_emptied_when_it_was_not_used_for_some_seconds(clock: list[float]) -> None:
    computed: list[int] = []

    @cached_while_busy(10)
    def double(number: int) -> int:
        computed.append(number)
        return 2 * number

    def looks(seconds: float) -> bool:
        clock[0] += seconds
        return empty_unused_caches(60)

    assert not looks(0), "it is empty"
    assert [double(1), double(1)] == [2, 2]
    assert [looks(0), looks(59)] == [False, False]
    assert double(1) == 2
    assert [looks(1), looks(59)] == [False, False], "a hit is a use too"
    assert [looks(1), looks(61)] == [True, False]
    assert double(1) == 2
    assert computed == [1, 1]


def test_the_caches_of_words_are_used_and_can_be_emptied() -> None:
    names = list(identifiers("see src/app/main.py and parse_line"))
    used = [cache for cache in process_memory._caches if cache.uses()]
    assert used
    for cache in used:
        cache.clear()
    assert not any(cache.uses() for cache in used)
    assert list(identifiers("see src/app/main.py and parse_line")) == names


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the list of mappings")
def test_code_is_unmapped_and_can_be_used_again_while_data_stays(tmp_path: Path) -> None:
    path = tmp_path / "library"
    code, data = mapped(path)
    assert sorted(resident(path)) == [len(PAGES), len(PAGES)]
    for _ in range(2):
        unmap_code()
        assert sorted(resident(path)) == [0, len(PAGES)]
    assert code[:] == data[:] == PAGES


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the list of mappings")
def test_constant_data_of_a_library_are_unmapped_once_it_is_surely_loaded(tmp_path: Path) -> None:
    """The loader changes data after it has mapped them; a call at this moment must not undo that."""
    path = tmp_path / "library.so"
    code, data = mapped(path)
    unmap_code()
    assert sorted(resident(path)) == [0, len(PAGES)]
    unmap_code()
    assert resident(path) == [0, 0]
    assert code[:] == data[:] == PAGES
    loaded_later = mapped(tmp_path / "later.so")
    unmap_code()
    assert sorted(resident(tmp_path / "later.so")) == [0, len(PAGES)]
    assert resident(path) == [0, 0]
    del loaded_later


@pytest.mark.parametrize(
    ("header", "anonymous", "swap", "is_code"),
    [
        ("7f00-7f10 r-xp 00000000 08:01 77 /lib/a\x85.so", 0, 0, True),
        ("7f00-7f10 r-xp 00000000 08:01 77 /lib/changed.so", 4, 0, None),
        ("7f00-7f10 r-xp 00000000 08:01 77 /lib/changed_and_swapped.so", 0, 4, None),
        ("7f00-7f10 r--p 00000000 08:01 77 /lib/constant_data.so", 0, 0, False),
        ("7f00-7f10 r--p 00000000 08:01 77 /lib/relocated_data.so", 8, 0, None),
        ("7f00-7f10 r--s 00000000 08:01 77 /home/database.so", 0, 0, None),
        ("7f00-7f10 r--p 00000000 08:01 77 /home/database", 0, 0, None),
        ("7f00-7f10 r-xp 00000000 00:00 0 [vdso]", 0, 0, None),
    ],
)
def test_only_unchanged_code_and_data_of_libraries_are_unmapped(
    header: str, anonymous: int, swap: int, is_code: bool | None
) -> None:
    other = ["0001-0002 rw-p 00000000 08:01 78 /lib/other.so", "Anonymous: 8 kB", "Swap: 0 kB"]
    lines = [*other, header, "Rss: 64 kB", f"Anonymous: {anonymous} kB", f"Swap: {swap} kB", *other]
    assert list(unchanged_mappings(lines)) == (
        [] if is_code is None else [FileMapping(0x7F00, 0x7F10, is_code)]
    )


def mapped(path: Path) -> tuple[mmap.mmap, mmap.mmap]:
    """A file in memory as code and as constant data."""
    path.write_bytes(PAGES)
    with path.open("rb") as file:
        map_file = partial(mmap.mmap, file.fileno(), 0, flags=mmap.MAP_PRIVATE)
        code = map_file(prot=mmap.PROT_READ | mmap.PROT_EXEC)
        data = map_file(prot=mmap.PROT_READ)
    assert code[:] == data[:] == PAGES
    return code, data


def resident(path: Path) -> list[int]:
    """The bytes of each mapping of the file that are in memory."""
    mappings = re.split(r"(?m)^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text())
    sizes = [re.search(r"Rss: +(\d+)", mapping) for mapping in mappings if str(path) in mapping]
    return [int(match[1]) * 1024 for match in sizes if match]

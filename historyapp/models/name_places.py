"""Finds places in the pages of the index of names, see :mod:`historyapp.models.origins`."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from historyapp.core.name_pages import Group, names_of, unpack_places
from historyapp.models.sql import fetch_all

NameGroup = tuple[int, Group]
"""The key of a name, and a group of its places."""
_PROBES_AT_ONCE = 400
_PAGES = """
WITH wanted(index_id, place) AS (VALUES {probes}), found AS (
    SELECT DISTINCT r.index_id, r.id AS run, COALESCE(
        (SELECT MAX(first) FROM historyapp_namepage p WHERE p.run_id = r.id AND p.first <= wanted.place),
        (SELECT MIN(first) FROM historyapp_namepage p WHERE p.run_id = r.id)
    ) AS first
    FROM wanted CROSS JOIN historyapp_namerun r WHERE r.index_id = wanted.index_id AND r.is_live
)
SELECT found.index_id, found.run, found.first, page.places,
    (SELECT MIN(first) FROM historyapp_namepage p WHERE p.run_id = found.run AND p.first > found.first),
    NOT EXISTS (SELECT 1 FROM historyapp_namepage p WHERE p.run_id = found.run AND p.first < found.first)
FROM found JOIN historyapp_namepage page ON page.run_id = found.run AND page.first = found.first
"""


class _Page(NamedTuple):
    first: int
    places: list[int]
    after: int | None
    """The first place of the next page."""
    is_first: bool

    def covers(self, place: int) -> bool:
        """Whether the place, if stored, is in this page."""
        return (self.is_first or self.first <= place) and (self.after is None or place < self.after)


class PlaceReader:
    """Finds the places nearest to a number in an index. Reads each page once.

    Args:
        unsaved: ascending places that are not stored yet.
    """

    def __init__(self, index: int, unsaved: Sequence[int] = ()) -> None:
        self.index = index
        self._unsaved = unsaved
        self._runs: defaultdict[int, list[_Page]] = defaultdict(list)
        self._is_empty = False

    def load(self, places: Iterable[int]) -> None:
        """Reads the pages that contain some places or would contain them."""
        load_places([(self, places)])

    def missing(self, places: Iterable[int]) -> set[int]:
        """The places whose pages have not been read."""
        return {place for place in places if not self._has(place)}

    def may_have(self, names: Mapping[int, NameGroup]) -> Collection[NameGroup]:
        """The names that may have places here. All of them, unless every page has been read: the indexes of
        most forks have one page.

        Args:
            names: by :func:`historyapp.core.name_pages.name_of`.
        """
        pages = [page for run in self._runs.values() for page in run]
        if self._unsaved or not self._runs or any(page.after or not page.is_first for page in pages):
            return () if self._is_empty and not self._unsaved else names.values()
        found = set[int]().union(*[names_of(page.places) for page in pages])
        return [names[name] for name in names.keys() & found]

    def add_pages(self, pages: Iterable[tuple[int, _Page]]) -> None:
        """Adds pages with the ids of their runs. None: the index has no pages."""
        for run, page in pages:
            run_pages = self._runs[run]
            if not run_pages:  # most forks have one page
                run_pages.append(page)
                continue
            at = bisect_left(run_pages, page.first, key=lambda page: page.first)
            if at == len(run_pages) or run_pages[at].first != page.first:
                run_pages.insert(at, page)
        self._is_empty = not self._runs

    def below(self, place: int) -> int | None:
        """The greatest place that is at most ``place``. The pages of ``place`` must have been read."""
        before = bisect_right(self._unsaved, place)
        nearest = self._unsaved[before - 1] if before else None
        for pages in self._runs.values():
            page = _page_of(pages, place)
            at = bisect_right(page.places, place)
            if at and (nearest is None or page.places[at - 1] > nearest):
                nearest = page.places[at - 1]
        return nearest

    def above(self, place: int) -> int | None:
        """The least place that is at least ``place``. The pages of ``place`` must have been read."""
        after = bisect_left(self._unsaved, place)
        nearest = self._unsaved[after] if after < len(self._unsaved) else None
        for pages in self._runs.values():
            page = _page_of(pages, place)
            at = bisect_left(page.places, place)
            next_place = page.places[at] if at < len(page.places) else page.after
            if next_place is not None and (nearest is None or next_place < nearest):
                nearest = next_place
        return nearest

    def _has(self, place: int) -> bool:
        """Whether the pages of a place have been read. True if the index has no pages."""
        if not self._runs:
            return self._is_empty
        return all(_page_of(pages, place).covers(place) for pages in self._runs.values())


def load_places(wanted: Iterable[tuple[PlaceReader, Iterable[int]]]) -> None:
    """Reads the pages of places in several indexes, hundreds in one query. A reader may recur."""
    missing = {(reader.index, place): reader for reader, places in wanted for place in reader.missing(places)}
    found: dict[PlaceReader, list[tuple[int, _Page]]] = {reader: [] for reader in missing.values()}
    readers = {reader.index: reader for reader in found}
    pairs = sorted(missing)
    for start in range(0, len(pairs), _PROBES_AT_ONCE):
        batch = pairs[start : start + _PROBES_AT_ONCE]
        probes = ", ".join([f"({index:d}, {place:d})" for index, place in batch])
        for index, run, first, stored, after, is_first in fetch_all(_PAGES.format(probes=probes), []):
            page = _Page(first, unpack_places(stored), after, bool(is_first))
            found[readers[index]].append((run, page))
    for reader, pages in found.items():
        reader.add_pages(pages)


def _page_of(pages: Sequence[_Page], place: int) -> _Page:
    return pages[max(0, bisect_right(pages, place, key=lambda page: page.first) - 1)]

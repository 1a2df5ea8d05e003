"""Merges runs of the index of names, so that a search reads few runs.

A long merged run is written in several short transactions and read only when it is complete. So no append
waits long, and no search reads the incomplete run of a stopped worker.
"""

import sys
from collections.abc import Iterator
from datetime import timedelta
from heapq import merge
from itertools import islice

from django.utils import timezone

from historyapp.core.name_pages import pack_places, pages, unpack_places
from historyapp.models import NameIndex, NamePage, NameRun
from historyapp.services.transactions import writing

GROWTH = 2
"""A run is merged with the next larger run if that is at most this many times as large."""
MAX_INTERACTIVE_PLACES = 20_000
"""While a request is waiting, only runs with at most this many places in total are merged."""
MAX_SMALL_PLACES = 32_000
"""Runs with at most this many places in total are merged in one transaction."""
_PAGE_BATCH = 64
_MERGE_TIMEOUT = timedelta(hours=1)
"""A run that is older than this and not live belongs to a stopped merge."""


def merge_runs(index: NameIndex, *, is_interactive: bool = False) -> None:
    """Merges runs of similar size until each run is more than :data:`GROWTH` times as large as the next
    smaller one."""
    cutoff = timezone.now() - _MERGE_TIMEOUT
    for run in NameRun.objects.filter(index=index, is_live=False, created_at__lt=cutoff):
        _delete(run.pk)
    while runs := _next_runs(index, MAX_INTERACTIVE_PLACES if is_interactive else sys.maxsize):
        is_small = sum(run.size for run in runs) <= MAX_SMALL_PLACES
        if not (_merge_small(index, runs) if is_small else _merge(index, runs)):
            return


def _next_runs(index: NameIndex, max_places: int) -> list[NameRun]:
    """The smallest runs of similar size, which are merged into one; empty if there are none.

    Args:
        max_places: the maximum number of places in total.
    """
    to_merge: list[NameRun] = []
    size = 0
    for run in NameRun.objects.filter(index=index, is_live=True).order_by("size", "pk"):
        if size + run.size > max_places or (len(to_merge) > 1 and run.size > size * GROWTH):
            break
        is_similar = run.size <= size * GROWTH
        to_merge, size = ([*to_merge, run], size + run.size) if is_similar else ([run], run.size)
    return to_merge if len(to_merge) > 1 else []


def _merge_small(index: NameIndex, old: list[NameRun]) -> bool:
    """As :func:`_merge`, but in one transaction."""
    merged = list(pages(merge(*(places_of_run(run.pk) for run in old))))
    ids = [run.pk for run in old]
    with writing():
        if not _lock(index) or NameRun.objects.filter(pk__in=ids, is_live=True).count() < len(ids):
            return False
        new = NameRun.objects.create(index=index, size=sum(run.size for run in old))
        NamePage.objects.bulk_create(
            [NamePage(run_id=new.pk, first=page[0], places=pack_places(page)) for page in merged]
        )
        NamePage.objects.filter(run_id__in=ids).delete()
        NameRun.objects.filter(pk__in=ids).delete()
    return True


def _merge(index: NameIndex, old: list[NameRun]) -> bool:
    """Replaces runs by a new one. Returns False if another process has merged them meanwhile."""
    with writing():
        if not _lock(index):
            return False
        new = NameRun.objects.create(index=index, size=sum(run.size for run in old), is_live=False)
    merged, written = pages(merge(*(places_of_run(run.pk) for run in old))), 0
    while new_pages := list(islice(merged, _PAGE_BATCH)):
        rows = [NamePage(run_id=new.pk, first=page[0], places=pack_places(page)) for page in new_pages]
        with writing():
            if not _lock(index) or not NameRun.objects.filter(pk=new.pk).exists():
                return False
            NamePage.objects.bulk_create(rows)
        written += len(rows)
    ids = [run.pk for run in old]
    with writing():
        is_valid = _lock(index) and NameRun.objects.filter(pk__in=ids, is_live=True).count() == len(ids)
        # After an hour, a merge is treated as stopped, and its pages may have been deleted.
        is_valid = is_valid and NamePage.objects.filter(run_id=new.pk).count() == written
        if is_valid:
            NameRun.objects.filter(pk__in=ids).update(is_live=False)
            NameRun.objects.filter(pk=new.pk).update(is_live=True)
    for run in ids if is_valid else [new.pk]:
        _delete(run)
    return is_valid


def _lock(index: NameIndex) -> bool:
    """Locks an index until the transaction ends. Returns false if it was deleted with its session."""
    return NameIndex.objects.select_for_update().filter(pk=index.pk).first() is not None


def places_of_run(run: int) -> Iterator[int]:
    """Yields all places of a run, ascending. Reads a few pages at a time."""
    after = -1
    while True:
        rows = NamePage.objects.filter(run_id=run, first__gt=after).order_by("first")
        page_rows = list(rows.values_list("first", "places")[:_PAGE_BATCH])
        for _, stored in page_rows:
            yield from unpack_places(stored)
        if len(page_rows) < _PAGE_BATCH:
            return
        after = page_rows[-1][0]


def _delete(run: int) -> None:
    """Deletes a run that is not live, a few pages at a time."""
    run_pages = NamePage.objects.filter(run_id=run, run__is_live=False)
    while starts := list(run_pages.order_by("first").values_list("first", flat=True)[:_PAGE_BATCH]):
        with writing():
            run_pages.filter(first__lte=starts[-1]).delete()
    with writing():
        NameRun.objects.filter(pk=run, is_live=False).delete()

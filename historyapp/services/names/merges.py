"""Merges runs of the index of names, so that a search reads few runs.

A long merged run is written in several short transactions and read only when it is complete. So no append
waits long, and nobody reads the incomplete run of a stopped worker.
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
"""A run is merged with the next larger one, unless that is more than this many times as large."""
SHORT_PLACES = 20_000
"""While somebody is waiting, only runs with fewer places are merged."""
SMALL_PLACES = 32_000
"""Runs with at most this many places in total are merged in one transaction."""
_PAGES_AT_ONCE = 64
_MERGE_TIMEOUT = timedelta(hours=1)
"""A run that is older than this and not live is left over from a stopped merge."""


def merge_runs(index: NameIndex, *, is_interactive: bool = False) -> None:
    """Merges runs of similar size until each is more than twice as large as the next."""
    then = timezone.now() - _MERGE_TIMEOUT
    for run in NameRun.objects.filter(index=index, is_live=False, created_at__lt=then):
        _delete(run.pk)  # of a merge that was stopped
    while runs := _next_runs(index, SHORT_PLACES if is_interactive else sys.maxsize):
        is_small = sum(run.size for run in runs) <= SMALL_PLACES
        if not (_merge_small(index, runs) if is_small else _merge(index, runs)):
            return


def _next_runs(index: NameIndex, max_places: int) -> list[NameRun]:
    """The smallest runs of similar size that would be merged one after the other; empty if there are none.

    Args:
        max_places: the maximum number of places in total.
    """
    to_merge: list[NameRun] = []
    size = 0
    for run in NameRun.objects.filter(index=index, is_live=True).order_by("size", "pk"):
        if size + run.size > max_places or (len(to_merge) > 1 and run.size > size * GROWTH):
            break
        is_like = run.size <= size * GROWTH
        to_merge, size = ([*to_merge, run], size + run.size) if is_like else ([run], run.size)
    return to_merge if len(to_merge) > 1 else []


def _merge_small(index: NameIndex, old: list[NameRun]) -> bool:
    """Replaces some runs by one in one transaction. Returns the same as :func:`_merge`."""
    merged = list(pages(merge(*(places_of_run(run.pk) for run in old))))
    ids = [run.pk for run in old]
    with writing():
        held = NameIndex.objects.select_for_update().filter(pk=index.pk).first()
        if held is None or NameRun.objects.filter(pk__in=ids, is_live=True).count() < len(ids):
            return False
        new = NameRun.objects.create(index=index, size=sum(run.size for run in old))
        NamePage.objects.bulk_create(
            [NamePage(run_id=new.pk, first=page[0], places=pack_places(page)) for page in merged]
        )
        NamePage.objects.filter(run_id__in=ids).delete()
        NameRun.objects.filter(pk__in=ids).delete()
    return True


def _merge(index: NameIndex, old: list[NameRun]) -> bool:
    """Replaces some runs by one. Returns False if another process has merged them meanwhile."""
    with writing():
        if not NameIndex.objects.filter(pk=index.pk).exists():
            return False
        new = NameRun.objects.create(index=index, size=sum(run.size for run in old), is_live=False)
    merged, written = pages(merge(*(places_of_run(run.pk) for run in old))), 0
    while new_pages := list(islice(merged, _PAGES_AT_ONCE)):
        rows = [NamePage(run_id=new.pk, first=page[0], places=pack_places(page)) for page in new_pages]
        with writing():
            if not NameRun.objects.filter(pk=new.pk).exists():
                return False
            NamePage.objects.bulk_create(rows)
        written += len(rows)
    ids = [run.pk for run in old]
    with writing():
        held = NameIndex.objects.select_for_update().filter(pk=index.pk).first()
        is_first = held is not None and NameRun.objects.filter(pk__in=ids, is_live=True).count() == len(ids)
        # A merge of more than an hour is treated as stopped: its pages may have been deleted.
        is_first = is_first and NamePage.objects.filter(run_id=new.pk).count() == written
        if is_first:
            NameRun.objects.filter(pk__in=ids).update(is_live=False)
            NameRun.objects.filter(pk=new.pk).update(is_live=True)
    for run in ids if is_first else [new.pk]:
        _delete(run)
    return is_first


def places_of_run(run: int) -> Iterator[int]:
    """All places of a run, ascending. They are read lazily."""
    after = -1
    while True:
        rows = NamePage.objects.filter(run_id=run, first__gt=after).order_by("first")
        page_rows = list(rows.values_list("first", "places")[:_PAGES_AT_ONCE])
        for _, stored in page_rows:
            yield from unpack_places(stored)
        if len(page_rows) < _PAGES_AT_ONCE:
            return
        after = page_rows[-1][0]


def _delete(run: int) -> None:
    """Deletes a run that is not live, a few pages at a time."""
    own = NamePage.objects.filter(run_id=run, run__is_live=False)
    while starts := list(own.order_by("first").values_list("first", flat=True)[:_PAGES_AT_ONCE]):
        with writing():
            own.filter(first__lte=starts[-1]).delete()
    with writing():
        NameRun.objects.filter(pk=run, is_live=False).delete()

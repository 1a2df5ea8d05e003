"""Finding what is to be done: messages may be lost and workers may die; the database knows."""

from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils import timezone

from historyapp.models import CompressionItem, CompressionRun


def runs_left() -> list[UUID]:
    """Runs that nobody is at work on."""
    claimed = CompressionItem.objects.under_way(timezone.now()).filter(run=OuterRef("pk"))
    runs = CompressionRun.objects.active().filter(~Exists(claimed)).order_by("id")
    return list(runs.values_list("pk", flat=True))

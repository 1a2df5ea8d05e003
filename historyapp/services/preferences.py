"""Stores people's own preferences."""

from collections.abc import Sequence

from django.contrib.auth.models import User

from historyapp.models import ListPreference
from historyapp.models.session_lists import Order
from historyapp.services.transactions import writing


def save_list_preference(user: User, columns: Sequence[str], order: Order) -> None:
    """Stores the columns and the order of a person's session lists."""
    with writing():
        ListPreference.objects.update_or_create(
            user=user, defaults={"columns": list(columns), "order": str(order)}
        )

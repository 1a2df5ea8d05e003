"""What people choose for themselves."""

from django.contrib.auth.models import User
from django.db import models

from historyapp.models.fields import JSONText


class ListPreference(models.Model):
    """How a person wants the list of sessions. Without a row, the default is used."""

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="+")
    columns = JSONText(default=list)
    """Names of the shown columns, see ``dashboard.session_list.columns``; unknown ones are skipped."""
    order = models.CharField(max_length=30, default="")
    """See :class:`historyapp.models.session_lists.Order`; empty: the default."""

    def __str__(self) -> str:
        return f"list of {self.user_id}"

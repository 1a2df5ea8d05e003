"""Preferences of people."""

from django.contrib.auth.models import User
from django.db import models

from historyapp.models.fields import JSONText


class ListPreference(models.Model):
    """A person's columns and order of the list of sessions. Without a row, the defaults apply."""

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="+")
    columns = JSONText(default=list)
    """Names of the shown columns, see ``dashboard.session_list.columns``. Unknown names are ignored."""
    order = models.CharField(max_length=30, default="")
    """See :class:`historyapp.models.session_lists.Order`. Empty: the default."""

    def __str__(self) -> str:
        return f"list of {self.user_id}"

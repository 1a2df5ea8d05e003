"""The migrations make the tables that the models describe."""

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_makemigrations_has_nothing_to_propose() -> None:
    """Otherwise the next one that somebody writes would contain a change that is not theirs."""
    call_command("makemigrations", "historyapp", check_changes=True, dry_run=True, verbosity=0)

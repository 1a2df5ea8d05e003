"""An entry is made ready for the log before its session is locked, or refused."""

import pytest

from historyapp.core.entries import MemoryNotebook
from historyapp.core.errors import Invalid
from historyapp.core.json import MAX_CONTAINERS, MAX_VALUES
from historyapp.core.prepared import prepare
from tests.services.drafts import draft, ok


def test_an_entry_of_too_many_values_is_refused_from_any_source() -> None:
    """Imports skip the check of API bodies."""
    with pytest.raises(Invalid, match="JSON values"):
        prepare(ok(outputs=[0] * (MAX_VALUES + 1)), tokens=0)


def test_an_entry_of_too_many_lists_and_objects_is_refused_from_any_source() -> None:
    prepare(ok(outputs=[0] * (MAX_CONTAINERS + 1)), tokens=0)
    with pytest.raises(Invalid, match="more than 200,000 lists and objects"):
        prepare(ok(outputs=[[]] * MAX_CONTAINERS), tokens=0)


def test_a_text_is_one_value_with_any_content() -> None:
    text = "[]," * MAX_VALUES
    assert prepare(draft(MemoryNotebook(content=text)), tokens=7).tokens == 7

"""Reading the entries of a lineage."""

import pytest

from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.services.drafts import ask


@pytest.fixture
def session(db: None) -> Session:
    session = create_session(Project.objects.create(name="p"))
    return append(session.project, session.pk, [ask(str(number)) for number in range(1, 6)]).session


@pytest.mark.parametrize(
    ("after", "before", "found"),
    [
        (0, None, [1, 2, 3, 4, 5]),
        (1, 4, [2, 3]),
        (2, 3, []),
        (3, 3, []),
        (4, 2, []),
        (5, None, []),
        (0, 1, []),
    ],
)
def test_the_entries_between_two_positions_are_read(
    session: Session, after: int, before: int | None, found: list[int]
) -> None:
    entries = History(session).entries(after=after, before=before)
    assert [entry.position for entry in entries] == found

"""What a process keeps of the sessions that forks were made from."""

import pytest

from historyapp.models import Project, Session, ancestors
from historyapp.services.append import append
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ok


@pytest.mark.django_db
def test_the_ancestors_that_are_kept_are_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project.objects.create(name="p")
    chain = [create_session(project)]
    append(project, chain[0].pk, [act(), ok()])
    for _ in range(4):
        chain.append(fork(project, chain[-1].pk, at_position=2))
    monkeypatch.setattr(ancestors, "_cache", {})
    monkeypatch.setattr(ancestors, "MAX_ANCESTORS", 7)

    def read(session: Session) -> list[int]:
        assert len(ancestors.ancestors(session.pk, ())) == 1 + chain.index(session)
        return [len(kept) for kept in ancestors._cache.values()]

    assert read(chain[2]) == [3]
    assert read(chain[3]) == [3, 4]
    assert read(chain[4]) == [5], "the oldest are dropped first"
    monkeypatch.setattr(ancestors, "MAX_ANCESTORS", 4)
    assert read(chain[1]) == [2]
    assert read(chain[4]) == [], "a chain that is too long is not kept"

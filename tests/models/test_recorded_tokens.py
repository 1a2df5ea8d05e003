"""The tokens that were ever recorded are counted from the totals at rewinds and fork points."""

from random import Random

import pytest

from historyapp.models import Entry, Project, recorded_tokens
from historyapp.models.families import SharedEntries
from historyapp.models.sums import LargeSum
from historyapp.services.append import append
from historyapp.services.rewinds import Target, fork, rewind, undo_rewind
from historyapp.services.sessions import create_session
from tests.services.drafts import act, ask, ok

pytestmark = pytest.mark.django_db

EXACT = 1 << 40


def test_takes_count_and_shared_entries_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random, project = Random(24), Project.objects.create(name="p")
    sessions = [create_session(project)]
    for _ in range(20):
        session = random.choice(sessions)
        session.refresh_from_db()
        choice = random.random()
        if choice < 0.4 or not session.head:
            words = "word " * random.randrange(1, 40)
            append(project, session.pk, [ask(words), act("read", path="a.py"), ok(outputs=words)])
        elif choice < 0.8:
            to_position = random.randrange(session.head + 1)
            made = rewind(project, session.pk, Target(to_position=to_position))
            if random.random() < 0.5 and made.cut_off().newest:
                undo_rewind(project, session.pk, made.position)
        elif len(sessions) < 4:
            position = random.choice((None, random.randrange(session.head + 1)))
            sessions.append(fork(project, session.pk, at_position=position))
    assert len(sessions) == 4
    entries = Entry.objects.filter(session__in=[session.pk for session in sessions])
    appended = entries.aggregate(tokens=LargeSum("tokens"))["tokens"]
    for session in sessions:
        assert recorded_tokens.recorded_tokens(SharedEntries(session.pk), EXACT) == appended
    monkeypatch.setattr(recorded_tokens, "MAX_REWINDS", 3)
    assert recorded_tokens.recorded_tokens(SharedEntries(session.pk), EXACT) <= appended

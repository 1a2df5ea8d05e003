"""The dates of a run are the run's, never the import's."""

from datetime import UTC, datetime
from io import BytesIO

import pytest
from django.utils import timezone

from historyapp.core.dates import UNDATED
from historyapp.core.importers.base import Append, RewindTo, Source
from historyapp.models import Entry, Episode, Project, Session
from historyapp.models.history import History
from historyapp.models.step_filters import StepFilter
from historyapp.services.append import append
from historyapp.services.exports import export_session
from historyapp.services.imports.files import import_file
from historyapp.services.projections import rebuild
from historyapp.services.rewinds import Target, rewind
from tests.services.drafts import act, ask, ok
from tests.services.scripts import Script, read
from tests.shared import SHARED, needs

DAY = datetime(2026, 1, 2, tzinfo=UTC)
LATER = datetime(2026, 1, 3, tzinfo=UTC)


def run_at(*times: datetime | None) -> list[Append]:
    """A step for each time, each with a result."""
    drafts = [(draft, time) for time in times for draft in (act(), ok())]
    return [Append("s", draft._replace(created_at=time)) for draft, time in drafts]


def only_session() -> Session:
    return Session.objects.get()


def test_a_transcript_without_times_is_undated(project: Project, script: Script) -> None:
    read(project, script, *run_at(None, None), RewindTo("s", 2))
    session = only_session()
    assert {session.created_at, session.last_entry_at} == {UNDATED}
    assert set(Entry.objects.values_list("created_at", flat=True)) == {UNDATED}
    assert set(Episode.objects.values_list("started_at", flat=True)) == {UNDATED}


def test_a_session_begins_and_ends_when_its_run_did(project: Project, script: Script) -> None:
    read(project, script, Append("s", ask("go")), *run_at(DAY, LATER))
    session = only_session()
    assert (session.created_at, session.last_entry_at) == (DAY, LATER)
    assert Entry.objects.get(position=1).created_at == DAY


def test_a_session_keeps_its_beginning_when_its_file_grows(project: Project, script: Script) -> None:
    read(project, script, *run_at(DAY))
    read(project, script, *run_at(DAY, LATER))
    assert (only_session().created_at, only_session().last_entry_at) == (DAY, LATER)


def test_a_rewind_leaves_the_dates_of_a_run(project: Project, script: Script) -> None:
    read(project, script, *run_at(DAY, LATER))
    session = only_session()
    result = rewind(project, session.pk, Target(to_step=1), actor="alice")
    session.refresh_from_db()
    assert (session.created_at, session.last_entry_at) == (DAY, LATER)
    assert Entry.objects.get(position=result.position).created_at > LATER
    assert rebuild(session).differences == []


def test_a_step_after_an_import_has_its_own_time(project: Project, script: Script) -> None:
    read(project, script, *run_at(None))
    session = only_session()
    begin = timezone.now()
    append(project, session.pk, [ask("go on")])
    session.refresh_from_db()
    assert session.created_at == UNDATED
    assert session.last_entry_at >= begin
    assert History(session, 2).last_entry_at == UNDATED


def test_a_range_of_times_holds_no_undated_step(project: Project, script: Script) -> None:
    read(project, script, *run_at(None))
    assert not StepFilter(until=LATER).matches(Episode.objects.get())
    assert StepFilter(status="success").matches(Episode.objects.get())


def test_the_import_of_an_exported_undated_session_is_undated(project: Project, script: Script) -> None:
    read(project, script, *run_at(None))
    export = "".join(export_session(only_session(), "playhead_jsonl").chunks)
    assert export.count('"created_at":null') == 3
    copy = Project.objects.create(name="copy")
    import_file(copy, Source("export.jsonl", BytesIO(export.encode())))
    assert Session.objects.get(project=copy).last_entry_at == UNDATED


@needs("corpus")
@pytest.mark.parametrize(
    ("path", "dated"),
    [
        ("claude_code/agentsessions__small.jsonl", True),
        ("codex_rollout", True),
        ("mini_swe_agent", True),
        ("openhands", True),
        ("openai_chat", False),
        ("anthropic_messages/pydantic_vcr", False),
        ("swe_agent_traj", False),
    ],
)
def test_sessions_of_the_corpus_have_the_times_of_their_files(
    project: Project, path: str, dated: bool
) -> None:
    """Each format has files of one kind; none of them may end up with the time of the import."""
    begin = timezone.now()
    place = SHARED / "corpus" / path
    files = sorted(place.rglob("*.*")) if place.is_dir() else [place]
    for file in [one for one in files if one.is_file() and one.stat().st_size < 300_000][:6]:
        with file.open("rb") as stream:
            import_file(project, Source(file.name, stream))
    begin_and_end = set(Session.objects.values_list("created_at", "last_entry_at"))
    assert begin_and_end
    assert all(time < begin for times in begin_and_end for time in times)
    assert dated in {times[0] != UNDATED for times in begin_and_end}

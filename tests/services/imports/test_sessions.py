"""A file makes no session without an entry, whatever format is forced."""

import json
import pickle
from itertools import product
from pathlib import Path

import pytest

from historyapp.core.entries import EntryDraft, Rewind, ToolResult, ToolResults
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import AddSummary, Append, RewindTo, SessionStart, Source
from historyapp.core.session_metadata import MAX_METADATA
from historyapp.models import ImportSource, Project, Session
from historyapp.models import ancestors as stored_ancestors
from historyapp.services.imports import headers, limits, sessions, source_operations
from historyapp.services.imports.files import import_file, inspect_file
from historyapp.services.imports.headers import within_limits
from historyapp.services.imports.sessions import ImportJob
from historyapp.services.imports.writer import SessionWriter
from tests.core.importers import claude_lines
from tests.core.importers.reading import lines, source
from tests.core.importers.samples import EXPORT, FILES
from tests.examples import thorough
from tests.services.drafts import act
from tests.services.scripts import SOURCE, Script, read, texts

CLAUDE = lines(claude_lines.user(1, None, "go"), claude_lines.assistant(2, 1, claude_lines.says("ok")))
LIMIT = "at most 65,536 characters of JSON are imported"
LONG = "x" * 100_000
RESULT = ToolResult(status="success")
SAMPLES = {**dict(FILES), "claude_code": CLAUDE}


def named(name: str, data: object) -> Source:
    return source(data, "run.jsonl" if isinstance(data, str) else "run.json")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        (name, format) if number % 3 == 0 else thorough(name, format)
        for number, (name, format) in enumerate(product(sorted(SAMPLES), sorted(IMPORTERS)))
    ],
)
def test_a_wrong_format_leaves_no_session_without_entries(project: Project, name: str, format: str) -> None:
    report = import_file(project, named(name, SAMPLES[name]), format=format)
    assert not Session.objects.filter(head=0).exists()
    assert len(report.sessions) == Session.objects.count() == ImportSource.objects.count()
    looked_at = inspect_file(named(name, SAMPLES[name]), format=format)
    assert len(looked_at.sessions) == len(report.sessions)
    assert looked_at.error == report.error


def test_a_wrong_format_is_named_with_the_right_one(project: Project) -> None:
    report = import_file(project, named("claude_code", SAMPLES["claude_code"]), format="codex_rollout")
    assert (
        report.error == "Nothing in the file can be read as Codex rollout. It looks like Claude Code session."
    )


def test_an_empty_session_of_playhead_s_own_export_stays_a_session(project: Project) -> None:
    header = {**EXPORT[0], "id": "p"}
    report = import_file(project, source(lines(header), "run.jsonl"))
    assert (report.error, Session.objects.get().head) == ("", 0)


def test_a_session_is_made_with_its_first_entry_and_reported_in_the_file_s_order(
    project: Project, script: Script
) -> None:
    other = [SessionStart("b", title="b"), SessionStart("c", title="c")]
    summary = AddSummary("c", 1, 1, "of nothing")
    report = read(project, script, *other, summary, *texts("x", session="b"), *texts("y"))
    assert [session.title for session in report.sessions] == ["a run", "b"]
    assert sorted(Session.objects.values_list("title", flat=True)) == ["a run", "b"]


def test_settings_have_text_that_every_database_stores(project: Project, script: Script) -> None:
    settings = {"spacy_language_model": "my \x00\ud800" + "x" * 300, "window_size": 3}
    script.operations = [SessionStart("s", settings=settings), *texts("a")]
    assert import_file(project, source("", "run.jsonl"), format="script").error == ""
    stored = Session.objects.get().settings
    assert stored == {"spacy_language_model": "my \ufffd\ufffd" + "x" * 195, "window_size": 3}


@pytest.mark.parametrize("length", [50, pytest.param(1000, marks=pytest.mark.thorough)])
def test_a_long_chain_of_forks_is_imported(project: Project, script: Script, length: int) -> None:
    forks = [SessionStart(f"f{n}", forked_from=(f"f{n - 1}" if n else "s", 1)) for n in range(length)]
    report = read(project, script, *texts("a"), *forks, *texts("b", session=f"f{length - 1}"))
    assert (report.error, Session.objects.count()) == ("", length + 1)


def test_a_file_with_too_long_a_chain_of_forks_ends_with_an_error(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_ancestors, "MAX_DEPTH", 3)
    forks = [SessionStart(f"f{n}", forked_from=(f"f{n - 1}" if n else "s", 1)) for n in range(4)]
    report = read(project, script, *texts("a"), *forks, *texts("b", session="f3"))
    assert "each of the one before. This is the maximum." in report.error
    assert Session.objects.count() == 4


@pytest.mark.parametrize("parents", ["a", "ba", "bca"])
def test_a_session_that_is_forked_from_itself_is_imported_without_a_parent(
    project: Project, script: Script, parents: str
) -> None:
    forks = [SessionStart(id, forked_from=(parent, 1)) for id, parent in zip("abc", parents, strict=False)]
    report = read(project, script, *forks, *texts("x", session="a"), *texts("y", session=forks[-1].session))
    assert (report.error, Session.objects.count()) == ("", len(forks))
    assert Session.objects.filter(forked_from=None).count() == 1


def test_the_number_of_tags_of_an_imported_session_is_limited(project: Project, script: Script) -> None:
    script.operations = [SessionStart("s", tags=tuple(f"tag {n}" for n in range(60))), *texts("a")]
    assert import_file(project, source("", "run.jsonl"), format="script").error == ""
    assert Session.objects.get().tags == [f"tag {n}" for n in range(50)]


def test_metadata_beyond_the_limit_is_reported_once(project: Project, script: Script) -> None:
    metadata = {"cwd": "/work", "tools": "x" * MAX_METADATA}
    file = [SessionStart("s", metadata=metadata), *texts("a")]
    script.operations = file
    expected = "the session's metadata: 'tools' (more than 65,536 characters) left out: at most 65,536"
    for report in (inspect_file(SOURCE, format="script"), import_file(project, SOURCE, format="script")):
        assert [skipped.reason for skipped in report.skipped] == [
            f"{expected} characters of JSON are imported"
        ]
    stored = Session.objects.get()
    assert (stored.metadata, stored.folder) == ({"cwd": "/work"}, "/work")
    again = import_file(project, SOURCE, format="script")
    assert (again.skipped, again.changed) == ([], False)


def test_many_fields_beyond_the_limit_are_reported_together(project: Project, script: Script) -> None:
    metadata = {f"{number}" * 100: "x" * 9_000 for number in range(20)}
    script.operations = [SessionStart("s", metadata=metadata), *texts("a")]
    (skipped,) = import_file(project, SOURCE, format="script").skipped
    assert " and 8 more left out" in skipped.reason
    assert len(skipped.reason) < 600
    assert len(Session.objects.get().metadata) == 7


def test_settings_with_many_unknown_names_make_one_error(project: Project, script: Script) -> None:
    unknown = dict.fromkeys(map(str, range(100_000)), 0)
    script.operations = [SessionStart("s", settings={"window_size": 3, **unknown}), *texts("a")]
    (skipped,) = import_file(project, SOURCE, format="script").skipped
    assert skipped.reason == f"the session's settings: left out: {LIMIT}"
    assert Session.objects.get().settings == {}


def test_large_fields_of_a_header_do_not_leave_the_parser(tmp_path: Path) -> None:
    many: dict[str, list[list[int]]] = {"a": [[] for _ in range(100_000)]}
    header = {"playhead": 1, "kind": "session", "id": "s", "tags": ["t"] * 100_000}
    header |= dict.fromkeys(("settings", "metadata", "annotation"), many)
    rewind = {"session": "s", "position": 1, "kind": "rewind", "to_position": 0, "spans": [[1, 1]] * 100_000}
    rewind |= {"reason": LONG, "actor": LONG}
    summary = {"session": "s", "kind": "summary", "first_position": 1, "last_position": 1, "text": "x"}
    many_points = {**summary, "key_points": ["y"] * 100_000, "strategy": LONG, "model": LONG}
    long_point = {**summary, "key_points": [LONG]}
    note = {"session": "s", "kind": "note", "position": 1, "text": LONG, "actor": LONG}
    path = tmp_path / "large.jsonl"
    records = (header, rewind, many_points, long_point, note)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    read = Source(path.name, path.open("rb"), str(tmp_path))
    operations = IMPORTERS["playhead_jsonl"].read(read)
    sizes = [len(pickle.dumps(within_limits(operation))) for operation in operations]
    assert len(sizes) == len(records) + 1, "the last one has the number of lines"
    assert max(sizes) < 11_000


def test_what_is_left_out_of_a_header_is_reported(project: Project, script: Script) -> None:
    large = {"note": "x" * MAX_METADATA}
    script.operations = [SessionStart("s", settings=large, annotation=large), *texts("a")]
    for report in (inspect_file(SOURCE, format="script"), import_file(project, SOURCE, format="script")):
        assert [skipped.reason for skipped in report.skipped] == [
            f"the session's settings: left out: {LIMIT}",
            f"the session's note and score: left out: {LIMIT}",
        ]


def test_a_rewind_with_long_metadata_ends_the_file(project: Project, script: Script) -> None:
    draft = EntryDraft(Rewind(to_position=0, spans=()), metadata={"a": [[]] * 30_000})
    script.operations = [SessionStart("s"), *texts("a"), RewindTo("s", 0, draft=draft)]
    report = import_file(project, SOURCE, format="script")
    assert report.error == "The metadata of a rewind has more than 65,536 characters of JSON. Shorten it."
    assert [session.counts.added for session in report.sessions] == [1]


def test_an_entry_with_too_many_results_ends_the_file(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry with 200,000 held the write lock for one to two seconds."""
    monkeypatch.setattr(headers, "MAX_RESULTS", 3)
    entries = [EntryDraft(ToolResults(results=(RESULT,) * number)) for number in (3, 4)]
    script.operations = [SessionStart("s"), *texts("a"), *(Append("s", entry) for entry in entries)]
    report = import_file(project, SOURCE, format="script")
    assert report.error == "An entry has 4 results. At most 3 are imported: split it into several entries."
    assert [session.counts.added for session in report.sessions] == [2]


def test_entries_with_many_results_are_stored_in_several_transactions(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, sizes = SessionWriter.flush, list[int]()

    def counted(self: SessionWriter) -> None:
        sizes.append(len(self._waiting))
        flush(self)

    monkeypatch.setattr(SessionWriter, "flush", counted)
    monkeypatch.setattr(source_operations, "RESULTS_OF_COST", 1)
    many = EntryDraft(ToolResults(results=(RESULT,) * 400))
    assert read(project, script, *[Append("s", many)] * 7).total("added") == 7
    assert sizes == [3, 3, 1]


def test_a_file_has_a_limited_number_of_sessions(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_SESSIONS", 3)
    starts = [SessionStart(f"s{number}") for number in range(4)]
    script.operations = [one for start in starts for one in (start, *texts("x", session=start.session))]
    expected = "The file has more than 3 sessions. Split it and import the parts."
    assert inspect_file(source("", "run.jsonl"), format="script").error.startswith(expected)
    assert import_file(project, source("", "run.jsonl"), format="script").error.startswith(expected)
    script.operations = script.operations[:6]
    assert import_file(project, source("", "run.jsonl"), format="script").error == ""
    assert Session.objects.count() == 3


def test_operations_of_all_sessions_that_wait_have_one_limit(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 sessions with less than a batch of empty lists each took 1.2 GB."""
    monkeypatch.setattr(sessions, "MAX_WAITING_BYTES", limit := 100_000)
    most, limit_waiting = list[int](), ImportJob._limit_waiting

    def note(job: ImportJob) -> None:
        most.append(sum(writer.waiting_bytes for writer in job.writers.values()))
        limit_waiting(job)
        assert job._waiting_bytes == sum(writer.waiting_bytes for writer in job.writers.values())
        assert job._waiting_bytes <= limit // 2
        assert job.writers["s"].waiting_bytes  # the smallest batch waits on

    monkeypatch.setattr(ImportJob, "_limit_waiting", note)
    starts = [SessionStart(name) for name in "abcd"]
    outputs = [Append(name, act(x=[[]] * 300)) for name in "abcd"]
    report = read(project, script, *texts("go"), *starts, *outputs)
    assert (report.error, report.total("added")) == ("", 5)
    assert len(most) == 1
    assert limit < most[0] < 2 * limit


def test_what_is_written_or_compared_keeps_no_values_in_memory(
    project: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest entry of each of 600 sessions stayed until the end of the file: 0.4 GB."""
    kept, finish = list[object](), ImportJob.finish

    def note(job: ImportJob) -> None:
        operations = [writer._newest for writer in job.writers.values()]
        kept.extend((operation.prepared, operation.operation.draft) for operation in operations)
        finish(job)

    monkeypatch.setattr(ImportJob, "finish", note)
    file = [Append("s", act(x=[[]])), Append("s", act(x=[[], 1]))]
    assert read(project, script, *file).total("added") == 2
    assert read(project, script, *file[:1]).total("added") == 0  # the end of the longer file is compared
    assert kept == [(None, None)] * 2

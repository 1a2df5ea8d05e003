"""``playhead import``: imports files and folders, prints a line for each, and adds nothing twice."""

import json
import os
import re
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from rich.console import Console

from historyapp.management.import_report import print_totals
from historyapp.models import AuditRecord, Entry, Project, Session
from historyapp.running_servers import announced
from historyapp.services.append import append
from historyapp.services.exports import export_session
from historyapp.services.imports import writer
from historyapp.services.imports.reports import Counts, FileReport, SessionReport
from historyapp.services.rewinds import fork
from historyapp.services.sessions import create_session
from historyapp.services.transactions import gives_way
from tests.commands.conftest import Run
from tests.services.drafts import act, ok

SESSION = "0b7f6a1e-6c1f-4a37-9c52-3a2a5d1f0c11"


def record(number: int, kind: str, content: Any, **message: Any) -> dict[str, Any]:
    """One line of a Claude Code session, whose parent is the previous line."""
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "sessionId": SESSION,
        "timestamp": f"2026-01-01T00:00:{number:02}Z",
        "message": {"role": kind, "content": content, **message},
    }


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a b"}
RECORDS = [
    record(1, "user", "List the files"),
    record(2, "assistant", [CALL], id="m1", model="claude"),
    record(3, "user", [RESULT]),
    record(4, "assistant", [{"type": "text", "text": "Two: a and b."}], id="m2", model="claude"),
]


def write(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return write(tmp_path / "projects" / f"{SESSION}.jsonl", *RECORDS)


def test_a_file_is_imported_and_its_line_has_the_counts(run: Run, transcript: Path) -> None:
    ran = run("import", transcript)
    assert ran.error == ""
    assert ran.out.splitlines()[0] == (
        f"{transcript}: claude_code, 1 session, 2 steps, 1 call, 1 result, 0 unpaired; 4 entries added"
    )
    assert Session.objects.get().title == "List the files"


def test_the_last_lines_have_the_totals_of_each_format(run: Run, transcript: Path) -> None:
    header, row = run("import", transcript).out.splitlines()[-2:]
    columns = ["Files", "Sessions", "Steps", "Calls", "Results", "Unpaired", "Skipped", "Added"]
    assert header.split() == ["Format", *columns]
    assert row.split() == ["claude_code", "1", "1", "2", "1", "1", "0", "0", "4"]


def test_the_command_prints_the_address_of_the_session(
    run: Run, transcript: Path, settings: Any, tmp_path: Path
) -> None:
    settings.PLAYHEAD_BASE_URL, settings.PLAYHEAD_HOME = "", tmp_path
    out = run("import", transcript).out
    assert f"\nSession {Session.objects.get().pk}\n" in out
    with announced(tmp_path, "http://127.0.0.1:9000"):
        again = run("import", transcript).out
    assert f"\nOpen http://127.0.0.1:9000/sessions/{Session.objects.get().pk}/overview\n" in again
    assert "Open" not in run("import", "--dry-run", transcript).out


@pytest.mark.parametrize("is_running", [False, True])
def test_an_import_gives_a_running_server_its_turn(
    run: Run,
    transcript: Path,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_running: bool,
) -> None:
    """It writes in a process of its own, and writers of others only poll for SQLite's lock."""
    settings.PLAYHEAD_HOME = tmp_path
    found = list[bool]()

    def check() -> None:
        found.append(gives_way.get())

    monkeypatch.setattr(writer, "check_disk_space", check)
    with announced(tmp_path, "http://localhost:8000") if is_running else nullcontext():
        run("import", str(transcript))
    assert (found, gives_way.get()) == ([is_running], False)


def test_importing_again_adds_nothing_and_succeeds(run: Run, transcript: Path) -> None:
    run("import", transcript)
    again = run("import", transcript)
    assert again.error == ""
    assert "; nothing new" in again.out
    assert Entry.objects.count() == 4


def test_a_file_that_has_grown_adds_only_what_is_new(run: Run, transcript: Path) -> None:
    write(transcript, *RECORDS[:3])
    run("import", transcript)
    write(transcript, *RECORDS)
    assert "1 entry added" in run("import", transcript).out
    assert Entry.objects.count() == 4


def test_a_folder_is_read_recursively_in_order(run: Run, tmp_path: Path) -> None:
    for name in ("b/two.jsonl", "a/one.jsonl", "three.jsonl", "notes.txt"):
        write(tmp_path / "in" / name, *RECORDS)
    lines = run("import", tmp_path / "in").out.splitlines()
    files = [line.split(":")[0] for line in lines if line.startswith("/")]
    assert files == [str(tmp_path / "in" / name) for name in ("three.jsonl", "a/one.jsonl", "b/two.jsonl")]


def test_a_repeated_file_name_is_read_once(run: Run, transcript: Path) -> None:
    out = run("import", transcript, transcript.parent).out
    assert out.count(f"{transcript}:") == 1


def test_the_first_skipped_records_are_named_by_line(run: Run, transcript: Path) -> None:
    write(transcript, *RECORDS[:2], *['{"broken'] * 5, *RECORDS[2:])
    out = run("import", transcript).out
    skipped = [line.strip() for line in out.splitlines() if line.startswith("    ")]
    assert skipped == [
        "skipped line 3: truncated",
        "skipped line 4: truncated",
        "skipped line 5: truncated",
        "skipped 2 more that cannot be read (--verbose lists them)",
    ]
    assert "1 session, 2 steps, 1 call, 1 result" in out


def test_verbose_names_every_skipped_record(run: Run, transcript: Path) -> None:
    silent = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    write(transcript, *RECORDS, *['{"broken'] * 5, silent)
    assert "left out 1 record that contains no history" in run("import", transcript).out
    out = run("import", transcript, "--verbose").out
    assert [line.split(":")[0].strip() for line in out.splitlines() if line.startswith("    ")] == [
        f"skipped line {number}" for number in range(5, 11)
    ]


def test_a_file_without_a_session_takes_one_line(run: Run, transcript: Path) -> None:
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    other = write(transcript.parent / "snapshots.jsonl", snapshot)
    out = run("import", transcript, other).out
    assert (
        f"{other}: claude_code, no session in it\n\n2 files: 1 imported, 1 without a session.\n\nSession "
        in out
    )


def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    run: Run, transcript: Path, tmp_path: Path
) -> None:
    poem = write(tmp_path / "poem.json", "roses are red")
    gone = tmp_path / "gone.jsonl"
    ran = run("import", poem, gone, transcript)
    assert f"{gone}: not read: No such file or directory" in ran.out
    assert f"{poem}: not read: This file is in no format that can be imported" in ran.out


def test_a_named_file_that_is_missing_fails_the_command_after_the_others_were_read(
    run: Run, transcript: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.jsonl"
    for options in ((), ("--dry-run",), ("--markdown",)):
        ran = run("import", gone, transcript, *options)
        assert ran.error == f"Not read: {gone}. The other files were imported."
    assert Entry.objects.count() == 4


def test_a_file_of_an_unknown_format_does_not_fail_the_command(run: Run, transcript: Path) -> None:
    poem = write(transcript.parent / "poem.json", "roses are red")
    assert run("import", poem, transcript).error == ""


def test_each_skipped_file_is_named_at_the_end_with_the_reason(
    run: Run, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = transcript.parent
    for name in ("poem", "song"):
        write(folder / f"{name}.json", "roses are red")
    os.mkfifo(folder / "pipe.jsonl")
    out = run("import", folder).out
    assert (
        "\n4 files: 1 imported, 2 of an unknown format, 1 not read.\n"
        f"    {folder}/pipe.jsonl: not read: it is a pipe or a device, not a file\n"
        f"    {folder}/poem.json: of an unknown format\n"
        f"    {folder}/song.json: of an unknown format\n\n"
    ) in out
    monkeypatch.setattr("historyapp.management.import_report.FIRST_UNREAD", 1)
    assert "    2 more (--verbose lists them)\n" in run("import", folder).out
    assert "more (--verbose" not in run("import", folder, "--verbose").out


def test_the_totals_count_every_file_by_outcome(run: Run, transcript: Path, tmp_path: Path) -> None:
    run("import", transcript)
    folder = transcript.parent
    write(folder / "other.jsonl", *({**line, "sessionId": SESSION.replace("0b", "1b")} for line in RECORDS))
    write(folder / "snapshots.jsonl", {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}})
    write(folder / "poem.json", "roses are red")
    write(folder / "song.json", "violets are blue")
    out = run("import", folder).out
    assert "\n5 files: 1 imported, 1 with nothing new, 1 without a session, 2 of an unknown format.\n" in out
    assert [line.split()[:-6] for line in out.splitlines()[-3:]] == [
        ["claude_code", "3", "2"],
        ["(not", "read)", "2", "0"],
        ["all", "5", "2"],
    ]
    assert out.count("mini-swe-agent") == 1


def test_a_file_that_breaks_off_is_imported_in_part() -> None:
    session = SessionReport(UUID(SESSION), SESSION, "", True, Counts(added=1))
    broken = FileReport("a", "claude_code", sessions=[session], error="broke off")
    out = StringIO()
    print_totals(Console(file=out), [broken, FileReport("b", error="gone")], dry_run=False)
    assert "2 files: 1 imported in part, 1 not read." in out.getvalue()


def test_a_fork_counts_as_new_even_without_an_entry_of_its_own(run: Run, tmp_path: Path) -> None:
    project = Project.objects.create(name="First")
    session = create_session(project)
    append(project, session.pk, [act(), ok()])
    path, to = tmp_path / "export.jsonl", ("--project", Project.objects.create(name="Second").name)
    path.write_text("".join(export_session(session, "playhead_jsonl").chunks))
    run("import", path, *to)
    fork(project, session.pk, at_step=1)
    path.write_text("".join(export_session(session, "playhead_jsonl").chunks))
    other = write(tmp_path / "other.jsonl", *RECORDS)
    out = run("import", path, other, *to).out
    line = f"{path}: playhead_jsonl, 2 sessions, 1 step, 1 call, 1 result, 0 unpaired"
    assert f"{line}; 0 entries added\n" in out
    assert "2 files: 2 imported." in out
    assert f"{line}; nothing new\n" in run("import", path, *to).out


def test_the_command_fails_if_no_file_can_be_read(run: Run, tmp_path: Path) -> None:
    assert run("import", tmp_path / "gone.jsonl").error == "Nothing could be read."
    (tmp_path / "empty").mkdir()
    expected = f"There are no transcripts in {tmp_path / 'empty'}. Name another file or folder."
    assert run("import", tmp_path / "empty").error == expected


def test_a_dry_run_reports_the_same_and_stores_nothing(run: Run, transcript: Path) -> None:
    ran = run("import", "--dry-run", transcript)
    assert f"{transcript}: claude_code, 1 session, 2 steps, 1 call, 1 result, 0 unpaired\n" in ran.out
    assert "Added" not in ran.out
    for model in (Session, Entry, Project, AuditRecord):
        assert not model._default_manager.exists(), model


def test_a_dry_run_names_skipped_records_too(run: Run, transcript: Path) -> None:
    write(transcript, *RECORDS, '{"broken')
    assert "skipped line 5: truncated" in run("import", "--dry-run", transcript).out


def test_sessions_are_imported_into_the_named_project(run: Run, transcript: Path) -> None:
    Project.objects.create(name="First")
    second = Project.objects.create(name="Second")
    run("import", transcript, "--project", "Second")
    assert Session.objects.get().project == second
    assert run("import", transcript, "--project", "Third").error == (
        "There is no project 'Third'. The projects are: First, Second."
    )


def test_an_unknown_format_is_refused_with_the_known_ones(run: Run, transcript: Path) -> None:
    error = run("import", transcript, "--format", "cobol").error
    assert "invalid choice: 'cobol'" in error
    assert "claude_code" in error


def test_a_named_format_is_used_without_detection(run: Run, transcript: Path) -> None:
    assert "not read" in run("import", transcript, "--format", "swe_agent").out


def test_without_a_path_the_usual_places_are_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert run("import").error == (
        f"There are no transcripts of Claude Code in {tmp_path}/.claude/projects or of Codex in "
        f"{tmp_path}/.codex/sessions. Name a file or a folder, for example `playhead import FOLDER`."
    )
    write(tmp_path / ".claude" / "projects" / "-src" / f"{SESSION}.jsonl", *RECORDS)
    ran = run("import")
    assert ran.err == f"Reading {tmp_path}/.claude/projects.\n"
    assert Entry.objects.count() == 4


def test_the_agents_own_variables_say_where_the_usual_places_are(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    write(tmp_path / "elsewhere" / "projects" / "x.jsonl", *RECORDS)
    run("import")
    assert Entry.objects.count() == 4


def test_markdown_gives_one_row_for_each_file_without_the_machines_path(run: Run, transcript: Path) -> None:
    write(transcript.parent / "poem.json", "roses are red")
    assert run("import", "--markdown", transcript.parent).out.splitlines() == [
        "| File | Format | Sessions | Steps | Calls | Results | Unpaired | Skipped |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        f"| `projects/{SESSION}.jsonl` | claude_code | 1 | 2 | 1 | 1 | 0 | 0 |",
        "| `projects/poem.json` | (not read) | 0 | 0 | 0 | 0 | 0 | 0 |",
    ]


def test_neither_a_file_name_nor_a_reason_can_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\x1b[2J[red]\xff.jsonl"
    Path(os.fsdecode(name)).write_text(json.dumps(RECORDS[0]) + "\n")
    out = run("import", tmp_path).out
    assert "\\x1b[2J[red]\\udcff.jsonl: claude_code" in out
    assert "\x1b" not in out


def test_ctrl_c_ends_the_import_with_one_sentence(
    run: Run, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("historyapp.core.importers.records.parse_object", interrupted)
    assert run("import", transcript).error.startswith("Stopped. Imported entries are kept")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.django_db
def test_on_a_terminal_a_bar_shows_the_bytes(transcript: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    call_command("import", str(transcript), stdout=terminal)
    assert 950 < transcript.stat().st_size < 1050
    assert "1.0/1.0 kB" in re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())


def test_a_pipe_among_the_files_does_not_block_the_others(run: Run, transcript: Path) -> None:
    pipe = transcript.with_name("0.jsonl")
    os.mkfifo(pipe)
    out = run("import", transcript.parent).out
    assert f"{pipe}: not read: it is a pipe or a device, not a file" in out
    assert "2 files: 1 imported, 1 not read." in out


def test_the_report_says_what_became_of_every_line(run: Run, transcript: Path) -> None:
    silent = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    write(transcript, *RECORDS, silent, silent, '{"broken', "")
    out = run("import", transcript).out
    counts = "8 lines: 4 with entries, 0 that continue an entry or describe the session, 3 left out, 1 blank"
    assert f"\n  {counts}\n" in out
    assert "left out 2 records that contain no history: 2 record of type file-history-snapshot" in out

"""``playhead rewind``, ``fork`` and ``export``: what they change, and that they ask before they destroy."""

import sys
from io import StringIO
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from historyapp.core.exporters import EXPORTERS
from historyapp.management.command_line import ACTOR
from historyapp.models import AuditRecord, Session
from historyapp.terminal.command_line import FORMATS
from tests.terminal.conftest import TITLE, Playhead


class Terminal(StringIO):
    """Standard input of a person who types an answer."""

    def isatty(self) -> bool:
        return True


def steps_of(session_id: UUID) -> int:
    return Session.objects.get(pk=session_id).steps


def test_a_rewind_cuts_off_later_steps_and_is_recorded(playhead: Playhead, session_id: UUID) -> None:
    printed = playhead("rewind", session_id, "--to-step", 1, "--reason", "wrong way", "--yes")
    assert printed.err == ""
    assert printed.out == "Rewound to step 1. Steps cut off: 2. They stay readable as a take.\n"
    assert steps_of(session_id) == 1
    assert AuditRecord.objects.get(action="rewind").actor == ACTOR


def test_a_negative_step_is_printed_with_its_number(playhead: Playhead, session_id: UUID) -> None:
    assert playhead("rewind", session_id, "--to-step", -1, "--yes").out == (
        "Rewound to step 3. Steps cut off: 0.\n"
    )


def test_no_confirmation_is_asked_for_without_a_terminal(playhead: Playhead, session_id: UUID) -> None:
    printed = playhead("rewind", session_id, "--to-step", 0)
    assert (printed.code, steps_of(session_id)) == (1, 3)
    assert "Add --yes" in printed.err


@pytest.mark.parametrize(("answer", "left"), [("yes\n", 1), ("y\n", 3), ("", 3)])
def test_only_the_answer_yes_rewinds(
    playhead: Playhead, session_id: UUID, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    printed = playhead("rewind", session_id, "--to-step", 1)
    assert printed.err.startswith(f"Rewind '{TITLE}' (3 steps) to step 1? Type yes: ")
    assert steps_of(session_id) == left


def test_a_fork_prints_the_new_session(playhead: Playhead, session_id: UUID) -> None:
    made = UUID(playhead("fork", session_id, "--at-step", 2, "--title", "the other way").out.strip())
    session = Session.objects.get(pk=made)
    assert (session.forked_from_id, session.steps, session.title) == (session_id, 2, "the other way")
    assert playhead("fork", session_id, "--json").answer["forked_from"] == str(session_id)
    assert playhead("fork", session_id, "--at-step", 9).code != 0


def test_the_formats_are_those_of_the_server() -> None:
    assert set(FORMATS) == set(EXPORTERS)


def test_an_export_is_written_to_a_file(playhead: Playhead, session_id: UUID, tmp_path: Path) -> None:
    out = tmp_path / "run.md"
    assert playhead("export", session_id, "--format", "markdown", "--out", out).err == f"Written: {out}\n"
    assert "go test ./..." in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["run.md"]


def test_an_html_file_leaves_out_text_of_people_on_request(
    playhead: Playhead, session_id: UUID, tmp_path: Path
) -> None:
    out = tmp_path / "run.html"
    options = ("--format", "html", "--without-inputs", "--out", out)
    assert playhead("export", session_id, *options).code == 0
    assert "Text that people wrote is hidden." in out.read_text()
    printed = playhead("export", session_id, "--without-inputs")
    assert printed.code != 0
    assert "cannot leave out inputs. Use html" in printed.err


def test_a_file_is_replaced_only_when_that_is_confirmed(
    playhead: Playhead, session_id: UUID, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    out.write_text("old")
    assert playhead("export", session_id, "--out", out).code == 1
    assert out.read_text() == "old"
    assert playhead("export", session_id, "--out", out, "--yes").code == 0
    assert out.read_text() != "old"


def test_an_export_that_breaks_off_does_not_change_the_file(
    playhead: Playhead, session_id: UUID, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: httpx.Response) -> object:
        yield b"half"
        raise httpx.ReadError("the connection is gone")

    monkeypatch.setattr(httpx.Response, "iter_bytes", broken)
    out = tmp_path / "run.jsonl"
    printed = playhead("export", session_id, "--out", out)
    assert (printed.code, list(tmp_path.iterdir())) == (3, [])


def test_a_folder_that_cannot_be_written_is_a_failure(
    playhead: Playhead, session_id: UUID, tmp_path: Path
) -> None:
    printed = playhead("export", session_id, "--out", tmp_path / "nowhere" / "x")
    assert printed.code == 1
    assert "cannot be written: No such file or directory." in printed.err


def test_an_export_to_a_terminal_is_refused(
    playhead: Playhead, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    printed = playhead("export", session_id)
    assert (printed.code, printed.out) == (1, "")

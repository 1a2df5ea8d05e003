"""Another process parses as this one does, errors included, and ends with its user.

Both estimate tokens: many of these tests start a process, and loading the tokenizer takes longest.
"""

import errno
import json
import marshal
import multiprocessing
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from io import BytesIO
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from runpy import run_path
from unittest.mock import Mock

import pytest

from historyapp.child import Child
from historyapp.child_on_demand import ChildOnDemand
from historyapp.core.entries import EntryDraft, SystemInstruction
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Source
from historyapp.core.prepared import prepare
from historyapp.models import Entry, Project
from historyapp.services.imports import parser
from historyapp.services.imports.files import import_file
from historyapp.services.imports.parser import (
    BATCH_BYTES,
    BATCH_OPERATIONS,
    MAX_KEPT_MEMORY,
    MAX_UNSENT_BYTES,
    PROCESS_ENDED,
    BatchSender,
    ParsedOperation,
    ParserProcess,
    RemoteParser,
    open_parser,
)
from tests.installation import LIGHT

ODD = "\x00 \ud800 日本"
PLAYHEAD = IMPORTERS["playhead_jsonl"]


@pytest.fixture(autouse=True)
def _tokens_are_estimated(lighter: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = run_path(str(LIGHT / "tokens" / "toktok" / "_toktok.py"))["Tokenizer"]
    monkeypatch.setattr("historyapp.core.tokens.tokenizer", lambda encoding: tokenizer(encoding, ""))


@pytest.fixture(scope="module")
def parsers(lighter: None) -> Iterator[ParserProcess]:
    """One process for all tests that do not end it: a start takes half a second."""
    with ParserProcess() as process:
        yield process


def kill(parsers: ParserProcess) -> None:
    assert parsers.pid
    os.kill(parsers.pid, signal.SIGKILL)


def transcript(folder: Path, entries: int, length: int = 0) -> Source:
    path = folder / "run.jsonl"
    header = {"playhead": 1, "kind": "session", "id": "s", "title": "a run"}
    lines = [header, {"session": "s", "kind": "nonsense"}]
    for n in range(1, entries + 1):
        entry = {"session": "s", "position": n, "kind": "model_input", "content": f"{n} {ODD}{'x' * length}"}
        lines.append({**entry, "created_at": "2026-01-01T00:00:00+00:00", "metadata": {"n": n, "odd": ODD}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Source(path.name, path.open("rb"), str(folder))


def parse(source: Source, process: ParserProcess | None) -> Iterator[ParsedOperation]:
    with open_parser(PLAYHEAD, source, process=process) as parser:
        yield from parser
        assert parser.position == Path(source.folder, source.name).stat().st_size


def test_both_parsers_give_the_same_operations(tmp_path: Path, parsers: ParserProcess) -> None:
    source = transcript(tmp_path, BATCH_OPERATIONS * 2 + 7)
    inline, apart = list(parse(source, None)), list(parse(source, parsers))
    assert [parsed.operation for parsed in apart] == [parsed.operation for parsed in inline]
    appended = [one.operation for one in inline if isinstance(one.operation, Append)]
    assert len(appended) == BATCH_OPERATIONS * 2 + 7
    assert [one.prepared for one in apart if one.prepared] == [prepare(one.draft) for one in appended]


def test_imports_with_both_parsers_store_the_same(db: None, tmp_path: Path, parsers: ParserProcess) -> None:
    source = transcript(tmp_path, 30)
    stored = []
    for process in (None, parsers):
        project = Project.objects.create(name=f"with {process}")
        report = import_file(project, source, process=process)
        assert (report.total("added"), report.damaged_count, report.error) == (30, 1, "")
        entries = Entry.objects.filter(session__project=project).order_by("position")
        stored.append(list(entries.values_list("position", "kind", "body", "metadata", "tokens", "totals")))
    assert stored[0] == stored[1]


def test_the_process_reports_errors_of_the_file(tmp_path: Path, parsers: ParserProcess) -> None:
    path = tmp_path / "noise.jsonl"
    path.write_text("noise\n")
    with path.open("rb") as stream:
        parsed = parse(Source(path.name, stream, str(tmp_path)), parsers)
        with pytest.raises(UnreadableTranscript, match=r"noise\.jsonl: nothing in it can be read"):
            list(parsed)
    gone = Source("gone.jsonl", path.open("rb"), str(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(parse(gone, parsers))


def test_one_process_parses_file_after_file(tmp_path: Path, parsers: ParserProcess) -> None:
    workers = set()
    for entries in (3, 5):
        with open_parser(PLAYHEAD, transcript(tmp_path, entries), process=parsers) as parser:
            assert sum(one.prepared is not None for one in parser) == entries
        workers.add(parsers.pid)
    assert len(workers) == 1


def test_the_process_continues_after_a_short_file_that_was_not_read_to_its_end(
    tmp_path: Path, parsers: ParserProcess
) -> None:
    workers = set()
    for entries in (3, 5, 7):
        with open_parser(PLAYHEAD, transcript(tmp_path, entries), process=parsers) as parser:
            next(iter(parser))
        workers.add(parsers.pid)
    assert len(workers) == 1
    assert parsers.pid


def test_the_process_returns_the_operations_before_an_error(tmp_path: Path, parsers: ParserProcess) -> None:
    source = transcript(tmp_path, 150)
    with Path(source.folder, source.name).open("a") as file:
        file.write(json.dumps({"playhead": 99, "kind": "session", "id": "s"}) + "\n")
    parsed = list[ParsedOperation]()
    with (
        open_parser(PLAYHEAD, source, process=parsers) as reader,
        pytest.raises(UnreadableTranscript, match="newer version"),
    ):
        parsed.extend(one for one in reader if one.prepared)
    assert len(parsed) == 150


def test_a_process_that_died_between_files_is_started_again(tmp_path: Path, parsers: ParserProcess) -> None:
    for _ in range(2):
        with open_parser(PLAYHEAD, transcript(tmp_path, 3), process=parsers) as parser:
            assert sum(one.prepared is not None for one in parser) == 3
        kill(parsers)


def test_a_process_that_dies_before_its_last_answer_is_noticed(
    tmp_path: Path, parsers: ParserProcess
) -> None:
    more_than_pipes_hold = transcript(tmp_path, 2_000, length=1_000)
    with open_parser(PLAYHEAD, more_than_pipes_hold, process=parsers) as parser:
        kill(parsers)  # before any answer, unless the machine is busy
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(parser)


def test_a_process_that_cannot_be_started_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    source = transcript(tmp_path, 3)
    with ParserProcess() as process:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", fail)
            with (
                pytest.raises(OSError, match="temporarily"),
                open_parser(PLAYHEAD, source, process=process),
            ):
                pass
        with open_parser(PLAYHEAD, source, process=process) as parser:
            assert sum(one.prepared is not None for one in parser) == 3


def test_a_file_that_is_abandoned_does_not_affect_the_next_one(
    tmp_path: Path, parsers: ParserProcess
) -> None:
    with open_parser(PLAYHEAD, transcript(tmp_path, BATCH_OPERATIONS * 20), process=parsers) as parser:
        next(iter(parser))
    with open_parser(PLAYHEAD, transcript(tmp_path, 7), process=parsers) as parser:
        assert sum(one.prepared is not None for one in parser) == 7


def test_large_entries_are_sent_in_small_batches(tmp_path: Path, parsers: ParserProcess) -> None:
    source = transcript(tmp_path, 10, length=BATCH_BYTES // 4)
    with open_parser(PLAYHEAD, source, process=parsers) as parser:
        entries = (one for one in parser if one.prepared)
        next(entries)
        assert parser.position < Path(source.folder, source.name).stat().st_size / 2
        assert sum(1 for _ in entries) == 9


def test_the_process_ends_with_its_user(tmp_path: Path) -> None:
    with (
        ParserProcess() as process,
        open_parser(PLAYHEAD, transcript(tmp_path, BATCH_OPERATIONS * 20), process=process) as parser,
    ):
        next(iter(parser))
        pid = process.pid
        assert pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_dies_is_noticed(tmp_path: Path, parsers: ParserProcess) -> None:
    with open_parser(PLAYHEAD, transcript(tmp_path, BATCH_OPERATIONS * 20), process=parsers) as reader:
        operations = iter(reader)
        next(operations)
        kill(parsers)
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(operations)


def test_a_process_that_dies_within_a_message_is_noticed() -> None:
    ours, theirs = multiprocessing.Pipe()
    with ours:
        os.write(theirs.fileno(), struct.pack("!i", 100) + b"not a hundred bytes")
        theirs.close()
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(RemoteParser(ours, lambda: UnreadableTranscript(PROCESS_ENDED)))


@pytest.mark.parametrize(("memory", "ends"), [(MAX_KEPT_MEMORY, False), (MAX_KEPT_MEMORY + 1, True)])
def test_a_process_with_much_memory_ends_after_its_file(tmp_path: Path, memory: int, ends: bool) -> None:
    """Otherwise it keeps it, and the next file would be refused if it is small."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        theirs.send_bytes(marshal.dumps(("end", 0, None)))
        limit = nullcontext(lambda: False)
        child = Mock(spec=Child, pipe=ours, memory=lambda: memory, limited_memory=lambda most: limit)
        process = ParserProcess()
        process._process = Mock(spec=ChildOnDemand, send=lambda request: child)
        with process.parse(PLAYHEAD, transcript(tmp_path, 0)) as parser:
            list(parser)
    assert process._process.stop.called == ends


@pytest.mark.parametrize(("folder", "entries"), [("a", 5), ("", 2)])
def test_an_uploaded_file_stores_a_limited_multiple_of_its_size(
    folder: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Codex file of 0.3 MB stored 70 MB: each developer message repeated 100 KB of instructions."""
    monkeypatch.setattr(parser, "BASE_STORED", 300)
    most = parser._most_stored(Source("run.jsonl", BytesIO(b"x" * 10), folder))
    append = Append("s", EntryDraft(SystemInstruction(text="x" * 256)))
    batches = parser._batches(iter([append] * 5), most)
    assert len(next(batches)) == entries
    with nullcontext() if folder else pytest.raises(UnreadableTranscript, match="take more than 620 bytes"):
        assert list(batches) == []


def test_a_very_large_entry_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that answered 1,000 open calls of one output became an entry of 280 MB."""
    entries = [Append("s", EntryDraft(SystemInstruction(text="x" * length))) for length in (900, 1100)]
    monkeypatch.setattr(parser, "MAX_ENTRY", 1024)
    batches = parser._batches(iter(entries), inf)
    assert len(next(batches)) == 1
    with pytest.raises(UnreadableTranscript, match="An entry takes 1,113 bytes of JSON"):
        next(batches)


@pytest.fixture
def sender() -> Iterator[tuple[BatchSender, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs, ThreadPoolExecutor(max_workers=1) as executor:
        yield BatchSender(theirs, executor), ours
        ours.close()


def test_unsent_messages_wait_up_to_a_limit(sender: tuple[BatchSender, Connection]) -> None:
    def send(messages: int) -> None:
        for _ in range(messages):
            sender[0].send("batch", 0, b"x" * (MAX_UNSENT_BYTES // 4))

    with ThreadPoolExecutor(max_workers=1) as agent:
        try:
            assert agent.submit(send, 3).result(timeout=60) is None
            more = agent.submit(send, 3)
            with pytest.raises(TimeoutError):
                more.result(timeout=0.5)
            for _ in range(6):
                assert len(sender[1].recv_bytes()) > MAX_UNSENT_BYTES // 4
            more.result(timeout=60)
        finally:
            sender[1].close()  # otherwise a blocked sender is waited for


def test_a_sender_notices_a_closed_pipe(sender: tuple[BatchSender, Connection]) -> None:
    sender[1].close()
    with pytest.raises(ConnectionError):
        sender[0].send("end", 0)


def test_a_sender_stops_once_the_pipe_is_closed(sender: tuple[BatchSender, Connection]) -> None:
    def send() -> None:
        for _ in range(1000):
            sender[0].send("batch", 0, b"x")
            time.sleep(0.001)

    sender[1].close()
    with pytest.raises(ConnectionError):
        send()

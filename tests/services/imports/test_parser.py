"""Reading beside gives what reading here gives, errors included, and ends with whoever reads."""

import errno
import json
import multiprocessing
import os
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Append, Source
from historyapp.core.prepared import prepare
from historyapp.models import Entry, Project
from historyapp.services.imports.files import import_file
from historyapp.services.imports.parser import (
    BATCH,
    BATCH_SIZE,
    MOST_UNSENT,
    BatchSender,
    ParsedOperation,
    ParserProcess,
    ProcessParser,
    open_parser,
)

ODD = "\x00 \ud800 日本"
PLAYHEAD = IMPORTERS["playhead_jsonl"]


@pytest.fixture
def reading() -> Iterator[ParserProcess]:
    with ParserProcess() as process:
        yield process


def transcript(folder: Path, entries: int, length: int = 0) -> Source:
    path = folder / "run.jsonl"
    header = {"playhead": 1, "kind": "session", "id": "s", "title": "a run"}
    lines = [header, {"session": "s", "kind": "nonsense"}]
    for n in range(1, entries + 1):
        said = {"session": "s", "position": n, "kind": "model_input", "content": f"{n} {ODD}{'x' * length}"}
        lines.append({**said, "created_at": "2026-01-01T00:00:00+00:00", "metadata": {"n": n, "odd": ODD}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Source(path.name, path.open("rb"), str(folder))


def read(source: Source, *, beside: bool) -> Iterator[ParsedOperation]:
    with (
        ParserProcess() as process,
        open_parser(PLAYHEAD, source, beside=process if beside else None) as told,
    ):
        yield from told
        assert told.position == Path(source.folder, source.name).stat().st_size


def test_beside_reads_what_here_reads(tmp_path: Path) -> None:
    source = transcript(tmp_path, BATCH * 2 + 7)
    here, beside = list(read(source, beside=False)), list(read(source, beside=True))
    assert [told.operation for told in beside] == [told.operation for told in here]
    appended = [told.operation for told in here if isinstance(told.operation, Append)]
    assert len(appended) == BATCH * 2 + 7
    assert [told.prepared for told in beside if told.prepared] == [prepare(told.draft) for told in appended]


def test_an_import_beside_stores_what_an_import_here_stores(
    db: None, tmp_path: Path, reading: ParserProcess
) -> None:
    source = transcript(tmp_path, 30)
    stored = []
    for process in (None, reading):
        project = Project.objects.create(name=f"beside: {process}")
        report = import_file(project, source, beside=process)
        assert (report.total("added"), report.damaged_count, report.error) == (30, 1, "")
        entries = Entry.objects.filter(session__project=project).order_by("position")
        stored.append(list(entries.values_list("position", "kind", "body", "metadata", "tokens", "totals")))
    assert stored[0] == stored[1]


def test_what_is_wrong_with_the_file_is_told_beside_too(tmp_path: Path) -> None:
    path = tmp_path / "noise.jsonl"
    path.write_text("noise\n")
    with path.open("rb") as stream:
        told = read(Source(path.name, stream, str(tmp_path)), beside=True)
        with pytest.raises(UnreadableTranscript, match=r"noise\.jsonl: nothing in it can be read"):
            list(told)
    gone = Source("gone.jsonl", path.open("rb"), str(tmp_path))
    with pytest.raises(FileNotFoundError):
        list(read(gone, beside=True))


def test_one_process_reads_file_after_file(tmp_path: Path, reading: ParserProcess) -> None:
    workers = set()
    for entries in (3, 5):
        with open_parser(PLAYHEAD, transcript(tmp_path, entries), beside=reading) as told:
            assert sum(one.prepared is not None for one in told) == entries
        workers |= {process.pid for process in multiprocessing.active_children()}
    assert len(workers) == 1


def test_what_is_read_before_a_fault_is_told_beside_too(tmp_path: Path, reading: ParserProcess) -> None:
    source = transcript(tmp_path, 150)
    with Path(source.folder, source.name).open("a") as file:
        file.write(json.dumps({"playhead": 99, "kind": "session", "id": "s"}) + "\n")
    told = list[ParsedOperation]()
    with (
        open_parser(PLAYHEAD, source, beside=reading) as reader,
        pytest.raises(UnreadableTranscript, match="newer version"),
    ):
        told.extend(one for one in reader if one.prepared)
    assert len(told) == 150


def test_a_process_that_died_between_files_is_started_anew(tmp_path: Path, reading: ParserProcess) -> None:
    for _ in range(2):
        with open_parser(PLAYHEAD, transcript(tmp_path, 3), beside=reading) as told:
            assert sum(one.prepared is not None for one in told) == 3
        for process in multiprocessing.active_children():
            process.kill()
            process.join()


def test_a_process_that_dies_before_its_first_answer_is_noticed(
    tmp_path: Path, reading: ParserProcess
) -> None:
    with open_parser(PLAYHEAD, transcript(tmp_path, 3), beside=reading) as told:
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(told)


def test_a_process_that_cannot_be_started_leaves_nothing_behind(
    tmp_path: Path, reading: ParserProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SpawnProcess) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    source = transcript(tmp_path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(SpawnProcess, "start", fail)
        with pytest.raises(OSError, match="temporarily"), open_parser(PLAYHEAD, source, beside=reading):
            pass
    with open_parser(PLAYHEAD, source, beside=reading) as told:
        assert sum(one.prepared is not None for one in told) == 3


def test_a_file_that_is_left_in_the_middle_does_not_spoil_the_next(
    tmp_path: Path, reading: ParserProcess
) -> None:
    with open_parser(PLAYHEAD, transcript(tmp_path, BATCH * 20), beside=reading) as told:
        next(iter(told))
    with open_parser(PLAYHEAD, transcript(tmp_path, 7), beside=reading) as told:
        assert sum(one.prepared is not None for one in told) == 7


def test_large_entries_are_handed_over_before_there_are_many(tmp_path: Path, reading: ParserProcess) -> None:
    source = transcript(tmp_path, 10, length=BATCH_SIZE // 4)
    with open_parser(PLAYHEAD, source, beside=reading) as told:
        entries = (one for one in told if one.prepared)
        next(entries)
        assert told.position < Path(source.folder, source.name).stat().st_size / 2
        assert sum(1 for _ in entries) == 9


def test_the_other_process_ends_with_whoever_asked(tmp_path: Path) -> None:
    with (
        ParserProcess() as process,
        open_parser(PLAYHEAD, transcript(tmp_path, BATCH * 20), beside=process) as told,
    ):
        next(iter(told))
        assert multiprocessing.active_children()
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_noticed(tmp_path: Path, reading: ParserProcess) -> None:
    with open_parser(PLAYHEAD, transcript(tmp_path, BATCH * 20), beside=reading) as reader:
        told = iter(reader)
        next(told)
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(told)


def test_a_process_that_dies_within_a_message_is_noticed() -> None:
    ours, theirs = multiprocessing.Pipe()
    with ours:
        os.write(theirs.fileno(), struct.pack("!i", 100) + b"not a hundred bytes")
        theirs.close()
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(ProcessParser(ours))


@pytest.fixture
def sender() -> Iterator[tuple[BatchSender, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs, ThreadPoolExecutor(max_workers=1) as executor:
        yield BatchSender(theirs, executor), ours
        ours.close()


def test_what_is_unsent_waits_up_to_a_bound(sender: tuple[BatchSender, Connection]) -> None:
    def send(messages: int) -> None:
        for _ in range(messages):
            sender[0].send("batch", 0, b"x" * (MOST_UNSENT // 4))

    with ThreadPoolExecutor(max_workers=1) as agent:
        try:
            assert agent.submit(send, 3).result(timeout=10) is None
            more = agent.submit(send, 3)
            with pytest.raises(TimeoutError):
                more.result(timeout=0.5)
            for _ in range(6):
                assert len(sender[1].recv_bytes()) > MOST_UNSENT // 4
            more.result(timeout=10)
        finally:
            sender[1].close()  # else an agent that waits for ever is waited for


def test_a_sender_notices_that_nobody_receives(sender: tuple[BatchSender, Connection]) -> None:
    sender[1].close()
    with pytest.raises(ConnectionError):
        sender[0].send("end", 0)


def test_a_sender_does_not_go_on_for_nobody(sender: tuple[BatchSender, Connection]) -> None:
    def send() -> None:
        for _ in range(1000):
            sender[0].send("batch", 0, b"x")
            time.sleep(0.001)

    sender[1].close()
    with pytest.raises(ConnectionError):
        send()

"""Reading beside gives what reading here gives, errors included, and ends with whoever reads."""

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Source
from historyapp.core.tokens import entry_tokens
from historyapp.models import Entry, Project
from historyapp.services.imports import import_file
from historyapp.services.reading import BATCH, Read, open_reader

ODD = "\x00 \ud800 日本"
PLAYHEAD = IMPORTERS["playhead_jsonl"]


def transcript(folder: Path, entries: int) -> Source:
    path = folder / "run.jsonl"
    header = {"playhead": 1, "kind": "session", "id": "s", "title": "a run"}
    lines = [header, {"session": "s", "kind": "nonsense"}]
    for n in range(1, entries + 1):
        said = {"session": "s", "position": n, "kind": "model_input", "content": f"{n} {ODD}"}
        lines.append({**said, "created_at": "2026-01-01T00:00:00+00:00", "metadata": {"n": n, "odd": ODD}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Source(path.name, path.open("rb"), str(folder))


def read(source: Source, *, beside: bool) -> Iterator[Read]:
    with open_reader(PLAYHEAD, source, beside=beside) as reader:
        yield from reader
        assert reader.position == Path(source.folder, source.name).stat().st_size


def test_beside_reads_what_here_reads(tmp_path: Path) -> None:
    source = transcript(tmp_path, BATCH * 2 + 7)
    here, beside = list(read(source, beside=False)), list(read(source, beside=True))
    assert [told.operation for told in beside] == [told.operation for told in here]
    entries = [told for told in beside if told.body is not None]
    assert len(entries) == BATCH * 2 + 7
    assert [told.tokens for told in entries] == [entry_tokens(t.operation.draft.body) for t in entries]  # type: ignore[union-attr]


def test_an_import_beside_stores_what_an_import_here_stores(db: None, tmp_path: Path) -> None:
    source = transcript(tmp_path, 30)
    stored = []
    for beside in (False, True):
        project = Project.objects.create(name=f"beside: {beside}")
        report = import_file(project, source, beside=beside)
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


def test_the_other_process_ends_when_nobody_reads_on(tmp_path: Path) -> None:
    with open_reader(PLAYHEAD, transcript(tmp_path, BATCH * 50), beside=True) as reader:
        next(iter(reader))
        assert multiprocessing.active_children()
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_noticed(tmp_path: Path) -> None:
    with open_reader(PLAYHEAD, transcript(tmp_path, BATCH * 50), beside=True) as reader:
        told = iter(reader)
        next(told)
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(UnreadableTranscript, match="has ended"):
            list(told)

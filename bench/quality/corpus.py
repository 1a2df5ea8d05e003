"""Transcripts without a database: the live entries of each session, grouped into steps."""

import pickle
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path, PurePath

from historyapp.core.entries import Entry, ModelInput, text_of
from historyapp.core.episodes import Episode, group_episodes
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import detect
from historyapp.core.importers.base import Append, RewindTo, SessionStart, Source

_NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_BENCHMARK = re.compile(r"([A-Za-z0-9-]+)__([A-Za-z0-9-]+)-\d+")
"""The name of a task of SWE-bench, ``django__django-13964``, in a file's name."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One session of a file."""

    format: str
    file: str
    session: str
    episodes: list[Episode]
    inputs: list[Entry]
    fixed: list[Entry]
    """Instructions and notebooks."""

    @property
    def project(self) -> str:
        """What the agent worked on: the name of a benchmark task, or what comes before ``__`` in the file's
        name, or else the file's folder and the beginning of its name.
        """
        path = PurePath(self.file)
        task = _BENCHMARK.search(path.name) if self.format in ("mini_swe_agent", "swe_agent") else None
        if task:
            return "__".join(task.groups())
        name, mark, _ = path.name.partition("__")
        return name if mark else f"{path.parent}/{path.name.partition('-')[0]}"

    @property
    def is_untouched(self) -> bool:
        """Whether its project is in the third that nobody looked at while policies were developed."""
        return sha256(self.project.encode()).digest()[0] % 3 == 0


@dataclass(slots=True)
class _Log:
    """A session while its file is read. Maps a position to its entry and the position before it."""

    entries: dict[int, tuple[Entry | None, int]] = field(default_factory=dict)
    format: str = ""
    head: int = 0
    live: int = 0

    def append(self, operation: Append) -> None:
        self.head += 1
        draft = operation.draft
        entry = Entry(self.head, draft.body, draft.created_at or _NO_TIME, draft.metadata)
        self.entries[self.head] = (entry, self.live)
        self.live = self.head

    def rewind(self, to_position: int) -> None:
        self.head += 1
        self.entries[self.head] = (None, to_position)
        self.live = self.head

    def fork(self, position: int) -> "_Log":
        return _Log(dict(self.entries), self.format, position, position)

    def lineage(self) -> list[Entry]:
        found = []
        position = self.live
        while position:
            entry, position = self.entries[position]
            if entry is not None:
                found.append(entry)
        return found[::-1]


def load(folder: Path, cache: Path | None = None, *, every: int = 1) -> list[Recorded]:
    """The sessions of the folder's files that can be imported, or those of the cache if it exists.

    Args:
        every: 5 reads every fifth file.
    """
    if cache and cache.exists():
        found: list[Recorded] = pickle.loads(cache.read_bytes())
        return found
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()][::every]
    sessions = [session for path in files for session in _read(path, folder)]
    if cache:
        cache.write_bytes(pickle.dumps(sessions))
    return sessions


def joined(sessions: Iterable[Recorded]) -> list[Recorded]:
    """One long session for each project: its sessions one after the other, the earliest first."""
    projects: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    for session in sessions:
        if session.episodes:
            projects[session.format, session.project].append(session)
    return [
        _join(sorted(found, key=lambda session: session.episodes[0].started_at))
        for found in projects.values()
    ]


def _join(sessions: list[Recorded]) -> Recorded:
    whole = replace(sessions[0], episodes=[], inputs=[], fixed=sessions[0].fixed)
    for session in sessions:
        last = whole.episodes[-1].last_position if whole.episodes else 0
        shift = max([last, *(entry.position for entry in whole.inputs)])
        steps = len(whole.episodes)
        whole.inputs.extend(entry._replace(position=entry.position + shift) for entry in session.inputs)
        whole.episodes.extend(
            replace(
                episode,
                number=episode.number + steps,
                first_position=episode.first_position + shift,
                last_position=episode.last_position + shift,
            )
            for episode in session.episodes
        )
    return whole


def _read(path: Path, folder: Path) -> Iterator[Recorded]:
    logs = _logs(path)
    for session, log in logs.items():
        entries = log.lineage()
        inputs = [e for e in entries if isinstance(e.body, ModelInput) and text_of(e.body.content).strip()]
        fixed = [e for e in entries if e.kind in ("system_instruction", "memory_notebook")]
        name = str(path.relative_to(folder))
        yield Recorded(log.format, name, session, list(group_episodes(entries)), inputs, fixed)


def read_file(path: Path) -> Iterator[list[Entry]]:
    """The live entries of each session of a file, oldest first."""
    for log in _logs(path).values():
        yield log.lineage()


def _logs(path: Path) -> dict[str, _Log]:
    """The sessions of a file; empty if it is not a transcript."""
    logs: dict[str, _Log] = {}
    with path.open("rb") as stream:
        source = Source(path.name, stream, str(path.parent))
        try:
            importer = detect(source)
            for operation in importer.read(source):
                match operation:
                    case SessionStart(session=session, forked_from=fork):
                        parent = logs[fork[0]].fork(fork[1]) if fork else _Log()
                        logs[session] = replace(parent, format=importer.name)
                    case Append(session=session):
                        logs[session].append(operation)
                    case RewindTo(session=session, to_position=position):
                        logs[session].rewind(position)
        except UnreadableTranscript:
            return {}
    return logs

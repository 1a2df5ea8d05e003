"""Finds transcripts on the user's disk."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

SUFFIXES = (".jsonl", ".json", ".traj")
"""In folders, only files with these suffixes are read. Files that the user names may have any suffix."""


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """A file to import."""

    path: Path
    label: str
    """The path relative to the parent of the folder that the user named. It is the same on every machine."""
    size: int = 0
    """The size in bytes."""
    error: str = ""
    """Why the file cannot be read."""


def default_folders() -> list[Path]:
    """The folders in which Claude Code and Codex store sessions, whether they exist or not."""
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
    codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "sessions"
    return [claude, codex]


def find_transcripts(paths: Iterable[Path]) -> Iterator[TranscriptFile]:
    """The files at ``paths`` and in the folders at ``paths`` with subfolders, ordered by name, each once."""
    seen: set[Path] = set()
    for path in paths:
        for transcript in _in_folder(path) if path.is_dir() else (_file(path, path.parent),):
            if transcript.path.absolute() not in seen:
                seen.add(transcript.path.absolute())
                yield transcript


def _in_folder(folder: Path) -> Iterator[TranscriptFile]:
    errors: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=errors.append):
        folders.sort()
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES):
                yield _file(Path(parent, name), folder.parent)
    for error in errors:
        path = Path(error.filename)
        label = path.relative_to(folder.parent).as_posix()
        yield TranscriptFile(path, label, error=error.strerror or str(error))


def _file(path: Path, base: Path) -> TranscriptFile:
    label = path.relative_to(base).as_posix()
    try:
        status = path.stat()
    except OSError as error:
        return TranscriptFile(path, label, error=error.strerror or str(error))
    if not S_ISREG(status.st_mode):
        return TranscriptFile(path, label, error="it is a pipe or a device, not a file")
    return TranscriptFile(path, label, status.st_size)

"""Finding transcripts on the user's disk."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

SUFFIXES = (".jsonl", ".json", ".traj")
"""What is looked at in a folder. A file that is named is looked at whatever it is called."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file to import."""

    path: Path
    label: str
    """Its path from the folder that was named on, that folder included: the same on every machine."""
    size: int = 0
    """In bytes."""
    error: str = ""
    """Why it cannot be read."""


def usual_places() -> list[Path]:
    """The folders in which Claude Code and Codex keep their sessions, as far as they exist here."""
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
    codex = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "sessions"
    return [folder for folder in (claude, codex) if folder.is_dir()]


def find_transcripts(paths: Iterable[Path]) -> Iterator[Transcript]:
    """The files among ``paths`` and all below their folders, in order of name; each once."""
    seen: set[Path] = set()
    for path in paths:
        for found in _below(path) if path.is_dir() else (_look_at(path, path.parent),):
            if found.path.absolute() not in seen:
                seen.add(found.path.absolute())
                yield found


def _below(folder: Path) -> Iterator[Transcript]:
    refused: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=refused.append):
        folders.sort()
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES):
                yield _look_at(Path(parent, name), folder.parent)
    for error in refused:
        yield _unreadable(Path(error.filename), folder.parent, error)


def _look_at(path: Path, base: Path) -> Transcript:
    label = path.relative_to(base).as_posix()
    try:
        found = path.stat()
    except OSError as error:
        return _unreadable(path, base, error)
    if not S_ISREG(found.st_mode):
        return Transcript(path, label, error="it is a pipe or a device, not a file")
    return Transcript(path, label, found.st_size)


def _unreadable(path: Path, base: Path, error: OSError) -> Transcript:
    return Transcript(path, path.relative_to(base).as_posix(), error=error.strerror or str(error))

"""The commands in the documentation, run as a reader would run them.

A block marked ``console`` holds commands after ``$`` and below each what it prints.
``python -m tests.console FILE…`` runs the commands of Markdown files against a new server and writes what
they really print into the files.
"""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

from tests.client.server_process import free_port
from tests.forking import forked_playhead
from tests.installation import copy_migrated

ROOT = Path(__file__).parents[1]
WIDTH = 100
SECONDS = 600
"""The longest wait for the commands of a page, or for the demo. The machine may be busy."""
ELLIPSIS = "…"
"""A line of its own that stands for any number of lines."""

_PROGRAMS = ".bin"
"""The folder in a reader's home folder that holds ``playhead``."""
_PORT = "8791"
"""The port of the servers that pages tell the reader to start."""
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_SECRET = re.compile(r"(\bph_|\bwhsec_|/sign-in/)[\w+/=-]{40,}")
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|\+00:00))?"), "TIME"),
    (re.compile(r"\bph_[\w-]+"), "ph_KEY"),
    (re.compile(r"\bwhsec_[\w+/=-]+…?"), "whsec_SECRET"),
    (re.compile(r"\bmsg_[0-9a-f]{32}\b"), "msg_ID"),
    (re.compile(r'"next": "[^"]+"'), '"next": "CURSOR"'),
    (re.compile(r"\b\d+-\d+$|(?<=\bcursor\":\")\d+-\d+", re.MULTILINE), "CURSOR"),
)
_TRANSCRIPT = (
    {"type": "user", "message": {"role": "user", "content": "What does this folder hold?"}},
    {
        "type": "assistant",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}],
            "usage": {"input_tokens": 310, "output_tokens": 24},
        },
    },
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "shop.py\ntest_shop.py"}
            ],
        },
    },
    {
        "type": "assistant",
        "message": {
            "id": "msg_2",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "A module, shop.py, and its tests."}],
            "usage": {"input_tokens": 352, "output_tokens": 15},
        },
    },
)


@dataclass(frozen=True, slots=True)
class Example:
    """A command of the documentation and its documented output."""

    command: str
    printed: str


def examples(markdown: str) -> list[Example]:
    """All of a file's commands, in order. A command continues until its quotes are closed."""
    parsed: list[Example] = []
    for block in _BLOCK.findall(markdown):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = text.splitlines(keepends=True)
            end = next(n for n in range(1, len(lines) + 1) if _is_whole("".join(lines[:n])))
            parsed.append(Example("".join(lines[:end]).removesuffix("\n"), "".join(lines[end:])))
    return parsed


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\\n")


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader with a shell, a home folder that holds only one Claude Code session, and a running server."""

    address: str
    home: Path
    environment: dict[str, str]
    port: str = field(default_factory=lambda: str(free_port()))
    """The port of the reader's own server, in place of :data:`_PORT`, which another program may use."""

    def save_programs(self, markdown: str) -> None:
        """Saves each program of a page under the name in its first line."""
        for program, name in _PROGRAM.findall(markdown):
            (self.home / name).write_text(program.replace(_PORT, self.port))

    def run(self, commands: list[str]) -> list[str]:
        """What each command prints, errors included, run one after the other in one shell."""
        mark = "--- next command ---"
        script = "".join(f"{command}\necho '{mark}'\n" for command in commands).replace(_PORT, self.port)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        printed = _SECRET.sub(r"\1…", done.stdout)
        printed = printed.replace(str(self.home), "~").replace(self.address, "http://127.0.0.1:8000")
        printed = printed.replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{_PORT}")
        return [readable(text) for text in printed.split(f"{mark}\n")[: len(commands)]]


def _save_demo(home: Path, demo: Path) -> None:
    """Saves in a folder what the first start of Playhead leaves in a home folder."""
    database = home / ".playhead" / "playhead.sqlite3"
    with _started(home) as printed:
        end = time.monotonic() + SECONDS
        # Otherwise every server on a copy of the folder starts a worker for the runs that are left.
        while _under_way(database):
            assert time.monotonic() < end, "the runs of the demo do not end"
            time.sleep(0.1)
        while not _is_indexed(*_address_and_key(printed)):
            assert time.monotonic() < end, "the search does not find the demo"
    shutil.copytree(home, demo, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_PROGRAMS))


def _under_way(database: Path) -> int:
    """How many compression runs have not ended, and how many sessions wait for one."""
    runs = "SELECT COUNT(*) FROM historyapp_compressionrun WHERE state IN ('queued', 'running')"
    due = "SELECT COUNT(*) FROM historyapp_session WHERE compression_due"
    with closing(sqlite3.connect(database)) as file:
        return int(file.execute(f"SELECT ({due}) + ({runs})").fetchone()[0])


def _is_indexed(address: str, key: str) -> bool:
    """Searches, which adds steps to the index for a part of a second. Returns whether it has all of them."""
    request = Request(f"{address}/api/v1/search?q=parse&limit=1", headers={"Authorization": f"Bearer {key}"})
    with urlopen(request, timeout=SECONDS) as response:
        return json.load(response)["up_to_date"] is True


def _address_and_key(printed: str) -> tuple[str, str]:
    """The server's address and the API key in what ``playhead up`` prints."""
    address, key = re.findall(r"ready at (\S+)|API key +(\S+)", printed)
    return address[0], key[1]


NewReader = Callable[[], AbstractContextManager[Reader]]
"""Makes a reader who has just started Playhead, with the demo. There is one at a time."""


@contextmanager
def readers() -> Iterator[NewReader]:
    """Readers with the same home folder, and one process that runs the commands of them all.

    To load that process takes as long as all commands of a page.
    """
    with (
        TemporaryDirectory(prefix="playhead-docs-") as demo,
        TemporaryDirectory(prefix="playhead-docs-") as folder,
    ):
        home = Path(folder).resolve()
        copy_migrated(home / ".playhead")
        with forked_playhead(home / _PROGRAMS, _environment(home)):
            _save_demo(home, Path(demo))
            yield partial(_reader, Path(demo), home)


@contextmanager
def _reader(demo: Path, home: Path) -> Iterator[Reader]:
    _empty(home)
    shutil.copytree(demo, home, dirs_exist_ok=True)
    environment = _environment(home)
    _write_transcript(home / ".claude" / "projects" / "-home-me-shop")
    with _started(home) as printed:
        address, key = _address_and_key(printed)
        own = {"PLAYHEAD": f"{address}/api/v1", "KEY": key}
        own["PATH"] = f"{home / _PROGRAMS}{os.pathsep}{environment['PATH']}"
        yield Reader(address, home, environment | own)


def _empty(home: Path) -> None:
    """Deletes what an earlier reader left in the home folder."""
    for path in home.iterdir():
        if path.is_dir() and path.name != _PROGRAMS:
            shutil.rmtree(path)
        elif path.name != _PROGRAMS:
            path.unlink()


def _environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(home),
        "PLAYHEAD_HOME": str(home / ".playhead"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DATABASE_URL": "",
        "PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES": "127.0.0.1",
    }


@contextmanager
def _started(home: Path) -> Iterator[str]:
    """What ``playhead up`` prints until it serves; it is stopped afterwards."""
    command = [str(home / _PROGRAMS / "playhead"), "up", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        yield "".join(iter(server.stdout.readline, "  Ctrl-C stops it.\n"))
    finally:
        server.terminate()
        server.wait(timeout=SECONDS)


def _write_transcript(folder: Path) -> None:
    folder.mkdir(parents=True)
    session = "4f0c2a2e-3a71-4f4d-9a38-0c5b7a1d2e90"
    lines = [
        {**line, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": session}
        for n, line in enumerate(_TRANSCRIPT)
    ]
    text = "".join(
        json.dumps({**line, "timestamp": f"2026-01-05T09:30:0{n}Z"}) + "\n" for n, line in enumerate(lines)
    )
    (folder / f"{session}.jsonl").write_text(text)


def readable(printed: str) -> str:
    """The text with a line feed at its end; JSON indented as far as it does not fit into a line."""
    try:
        return f"{_indented(json.loads(printed))}\n"
    except ValueError:
        return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def _indented(value: Any, indent: str = "") -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= WIDTH or not value or not isinstance(value, (dict, list)):
        return flat
    inner = f"{indent}  "
    if isinstance(value, dict):
        items = [f"{json.dumps(name)}: {_indented(item, inner)}" for name, item in value.items()]
    else:
        items = [_indented(item, inner) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{end}"


def agrees(documented: str, printed: str) -> bool:
    """Whether the output is the documented one, apart from ids, times, keys and what ``…`` replaces."""
    parts = _constant(documented).split(f"{ELLIPSIS}\n")
    pattern = r"(?:.*\n)*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, _constant(printed)) is not None


def _constant(text: str) -> str:
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return "".join(
        f"{line.strip()}\n" if line.strip() == ELLIPSIS else f"{line.rstrip()}\n"
        for line in text.splitlines()
    )


def record(path: Path, reader: NewReader) -> int:
    """Writes the real output of a file's commands into it. Returns how many outputs changed."""
    markdown = path.read_text()
    with reader() as somebody:
        parsed = examples(markdown)
        somebody.save_programs(markdown)
        printed = somebody.run([example.command for example in parsed])
    changed, at = 0, 0
    for example, text in zip(parsed, printed, strict=True):
        right = agrees(example.printed, text)
        old = f"$ {example.command}\n{example.printed}"
        new = old if right else f"$ {example.command}\n{text}"
        at = markdown.index(old, at)
        markdown = markdown[:at] + new + markdown[at + len(old) :]
        at, changed = at + len(new), changed + (not right)
    path.write_text(markdown)
    return changed


if __name__ == "__main__":
    with readers() as reader:
        for name in sys.argv[1:]:
            print(f"{name}: {record(Path(name), reader)} changed")  # noqa: T201

"""The idle memory of ``playhead up`` after pages, after work, and after everything that a web process can do.

    python -m bench.memory_after_everything ../shared/corpus

After each part it waits until the server has been idle for 75 s. It imports eight transcripts of the folder.
"""

import json
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import psutil

from bench.machinery import action, home, report, result
from bench.memory import memory_of, port_and_key, start_up
from historyapp.core.exporters import EXPORTERS
from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.core.strategies import STRATEGIES

IDLE_SECONDS = 75
"""Longer than idle threads are kept."""
KEPT_SECONDS = 10
"""``PLAYHEAD_IDLE_SECONDS`` of the server, for its worker and the tokenizer's tables."""
FILES = 8
VISITS = 2
"""Visits of each kind of page, with different sessions, steps and options."""
MAX_PAGES = 600
RUNNING = ("queued", "running")
_LINK = re.compile(r'(href|hx-get|src)="(/[^"#]*)')
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+\b")


class Visitor:
    """A client of pages and of the API. It accepts any status, because some requests are meant to fail."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._cookies: dict[str, str] = {}
        self.statuses = Counter[int]()

    def sign_in(self, path: str) -> None:
        self.get(path)
        token = self._cookies["playhead_csrf"]
        self._send("POST", path, self._cookie() | {"X-CSRFToken": token})

    def get(self, path: str, *, fragment: bool = False) -> str:
        return self._send("GET", path, self._cookie() | ({"HX-Request": "true"} if fragment else {}))

    def _cookie(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}

    def call(self, method: str, path: str, body: object = None, **headers: str) -> str:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        common = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        return self._send(method, f"/api/v1{path}", {**common, **headers}, data)

    def _send(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> str:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=120)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        self.statuses[response.status] += 1
        for cookie in response.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        text = response.read().decode(errors="replace")
        connection.close()
        return text


def main() -> None:
    rows = []
    with home() as folder:
        process, printed = start_up(folder, KEPT_SECONDS, "--no-demo")
        parent = psutil.Process(process.pid)
        visitor = Visitor(*port_and_key(printed))

        def note(state: str) -> None:
            whole, resident = memory_of(parent)
            rows.append((state, f"{whole} MB (resident: {resident})", "150"))
            print(*rows[-1], flush=True)

        try:
            time.sleep(10)
            note("10 s after the start")
            session = _record(visitor, 30)
            visitor.sign_in(_sign_in_path(printed))
            kinds = _visit_pages(visitor, 1)
            visitor.get("/search?q=parser")
            _wait_until_idle(parent)
            note(f"idle after {kinds.total()} pages of {len(kinds)} kinds and a search")
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(_record, [visitor] * 4, [40] * 4))
            _wait_until_idle(parent)
            note("idle after four threads appended and built contexts")
            _do_everything(visitor, session)
            kinds = _visit_pages(visitor, VISITS)
            _wait_until_idle(parent)
            note(f"idle after everything, {kinds.total()} pages of {len(kinds)} kinds")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    print(f"Statuses: {dict(visitor.statuses)}")
    report("Idle memory of `playhead up`", rows)


def _wait_until_idle(parent: psutil.Process) -> None:
    while len(parent.children()) > 1:  # the worker
        time.sleep(1)
    time.sleep(IDLE_SECONDS)


def _sign_in_path(printed: str) -> str:
    match = re.search(r"Sign in +http://[^/]+(\S+)", printed)
    assert match
    return match[1]


def _record(visitor: Visitor, steps: int) -> str:
    session: str = json.loads(visitor.call("POST", "/sessions", {}))["id"]
    for number in range(steps):
        visitor.call("POST", f"/sessions/{session}/actions", action(number))
        visitor.call("POST", f"/sessions/{session}/results", result(number))
        visitor.call("POST", f"/sessions/{session}/contexts", {"max_tokens": 2048})
    return session


def _visit_pages(visitor: Visitor, visits: int) -> Counter[str]:
    """Follows links from the first page, to each kind of page a few times."""
    seen, kinds, waiting = {"/"}, Counter[str](), deque([("/", False)])
    while waiting and kinds.total() < MAX_PAGES:
        path, fragment = waiting.popleft()
        for attribute, link in _LINK.findall(visitor.get(path, fragment=fragment)):
            target = urljoin(path, unescape(link))
            kind = _ID.sub("N", urlsplit(target).path) + _keys(target)
            if target not in seen and kinds[kind] < visits and "/events" not in target:
                seen.add(target)
                kinds[kind] += 1
                waiting.append((target, attribute == "hx-get"))
    return kinds


def _keys(address: str) -> str:
    return "?" + "&".join(part.partition("=")[0] for part in urlsplit(address).query.split("&"))


def _do_everything(visitor: Visitor, session: str) -> None:
    """Imports, contexts, exports, compressions, an evaluation, and each read of the API."""
    for file in _transcripts(Path(sys.argv[1])):
        _import(visitor, file)
    imported = [session_id["id"] for session_id in json.loads(visitor.call("GET", "/sessions"))["items"]]
    schemas = json.loads(visitor.call("GET", "/openapi.json"))
    for session_id in imported:
        for policy, format in product(POLICIES, FORMATS):
            body = {"policy": policy, "format": format, "max_tokens": 4000}
            visitor.call("POST", f"/sessions/{session_id}/contexts", body)
        for format in EXPORTERS:
            visitor.call("GET", f"/sessions/{session_id}/export?format={format}")
    for session_id, strategy in product(imported[:4], STRATEGIES):
        _compress(visitor, session_id, strategy)
    visitor.call("POST", "/evaluations", {"sessions": imported[:3], "budgets": [2000]})
    for path, session_id in product(_reads(schemas), imported[:4]):
        visitor.call("GET", path.replace("{session_id}", session_id))
    for query in ("parser", "tool:read", "error OR failed", '"does not end"'):
        visitor.call("GET", f"/search?q={query.replace(' ', '%20')}")


def _reads(schemas: dict[str, dict[str, dict[str, object]]]) -> Iterator[str]:
    for path, operations in schemas["paths"].items():
        if "get" in operations and "events" not in path and "stream" not in path:
            path = path.removeprefix("/api/v1")
            yield re.sub(r"\{(?!session_id)\w+\}", "3", path)


def _transcripts(corpus: Path) -> list[Path]:
    """The largest file below 600 KB of each of eight folders."""
    folders = sorted(folder for folder in corpus.iterdir() if folder.is_dir())
    sizes = [
        sorted((file.stat().st_size, file) for file in folder.rglob("*") if 0 < file.stat().st_size < 600_000)
        for folder in folders
    ]
    return [file for _, file in sorted((files[-1] for files in sizes if files), reverse=True)[:FILES]]


def _import(visitor: Visitor, file: Path) -> None:
    head = f'--limit\r\nContent-Disposition: form-data; name="files"; filename="{file.name}"\r\n\r\n'
    body = head.encode() + file.read_bytes() + b"\r\n--limit--\r\n"
    visitor.call("POST", "/imports", body, **{"Content-Type": "multipart/form-data; boundary=limit"})


def _compress(visitor: Visitor, session: str, strategy: str) -> None:
    started = json.loads(visitor.call("POST", f"/sessions/{session}/compressions", {"strategy": strategy}))
    while started.get("state") in RUNNING:
        time.sleep(0.2)
        started = json.loads(visitor.call("GET", f"/sessions/{session}/compressions/{started['id']}"))


if __name__ == "__main__":
    main()

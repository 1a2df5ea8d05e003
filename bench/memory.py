"""The memory of the processes of ``playhead up``: idle, at work, and idle again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from bench.machinery import ROOT, Client, action, home, report, result

IDLE_SECONDS = 5
STEPS = 40


def main() -> None:
    with home() as folder:
        process, printed = start_up(folder, IDLE_SECONDS, "--no-demo")
        port, key = port_and_key(printed)
        try:
            figures = _measure(psutil.Process(process.pid), Client(port, _headers(key)))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    rows = [
        (what, f"{whole} MB (resident: {processes})", bound) for what, (whole, processes), bound in figures
    ]
    report("Memory of all processes of `playhead up`", rows)


def start_up(folder: Path, idle_seconds: int, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The process of ``playhead up``, and what it printed until it was ready."""
    environment = os.environ | {"PLAYHEAD_HOME": str(folder), "PLAYHEAD_IDLE_SECONDS": str(idle_seconds)}
    command = [sys.executable, "manage.py", "up", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    printed = ""
    while "Ctrl-C" not in printed:
        printed += process.stdout.readline()
    return process, printed


def port_and_key(printed: str) -> tuple[int, str]:
    key, port = re.search(r"API key +(\S+)", printed), re.search(r"http://\S+?:(\d+)", printed)
    assert key
    assert port
    return int(port[1]), key[1]


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


def _measure(parent: psutil.Process, client: Client) -> list[tuple[str, tuple[int, str], str]]:
    time.sleep(10)
    idle = memory_of(parent)
    session = client.json("POST", "/api/v1/sessions", {})["id"]
    for number in range(STEPS):
        client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
        client.send("POST", f"/api/v1/sessions/{session}/results", result(number))
    recording = memory_of(parent)
    body = {"strategy": "simple_extract"}
    run = client.json("POST", f"/api/v1/sessions/{session}/compressions", body)["id"]
    while json.loads(client.send("GET", f"/api/v1/sessions/{session}/compressions/{run}"))["state"] in (
        "queued",
        "running",
    ):
        time.sleep(0.1)
    compressing = memory_of(parent)
    time.sleep(IDLE_SECONDS * 2 + 5)
    return [
        ("10 s after the start", idle, "150"),
        (f"after {STEPS} steps were recorded", recording, ""),
        ("at the end of a run with the local summariser", compressing, ""),
        (f"idle for {IDLE_SECONDS * 2 + 5} s (limit: {IDLE_SECONDS} s)", memory_of(parent), "150"),
    ]


def memory_of(parent: psutil.Process) -> tuple[int, str]:
    """Megabytes of all processes together, each shared page counted once, and the resident ones of each."""
    processes = [parent, *parent.children(recursive=True)]
    own, files = 0, Counter[str]()
    for process in processes:
        own += int(re.findall(r"Pss_Anon: +(\d+)", _read(process, "smaps_rollup"))[0])
        files |= _file_pages(_read(process, "smaps"))
    resident = [process.memory_info().rss // 1_000_000 for process in processes]
    return (own + files.total()) * 1024 // 1_000_000, " + ".join(map(str, resident))


def _file_pages(mappings: str) -> Counter[str]:
    """Kilobytes of each file that are in memory. Processes share these pages."""
    sizes = Counter[str]()
    path = ""
    for line in mappings.splitlines():
        name, _, value = line.partition(":")
        if name in ("Rss", "Anonymous"):
            sizes[path] += int(value.split()[0]) * (1 if name == "Rss" else -1)
        elif "-" in name.partition(" ")[0]:
            path = line.partition("/")[2]
    return sizes


def _read(process: psutil.Process, name: str) -> str:
    return Path(f"/proc/{process.pid}/{name}").read_text()


if __name__ == "__main__":
    main()

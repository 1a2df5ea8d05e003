"""The cost of open streams for a server that also receives appends, and the delay of their events.

``python -m bench.streams [EVENTS] [MODELS] [RATE]`` opens 500 streams of the events of ten sessions, and 200
streams of a model that sends a piece every 0.1 s, while 20 steps a second are appended. Playhead itself has
no streams of models: ``bench/streams_asgi.py`` adds one. Model and readers are separate processes.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import psutil

from bench.batches import entries
from bench.machinery import KEY, Client, home, machine, playhead, report

SESSIONS = 10
PIECE_SECONDS = 0.1
EVENT = b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a word or two"}}\n\n'
SECONDS = 20.0
OPENING_SECONDS = 0.01
"""The pause between opening two streams: the server refuses too many requests of one key at once."""


class Load(NamedTuple):
    events: int = 500
    models: int = 200
    rate: int = 20
    """Steps appended in a second."""


def main(load: Load) -> None:
    with home() as folder, _process(_serve_model) as model:
        os.environ["BENCH_MODEL_PORT"] = str(model.recv())
        os.environ["PLAYHEAD_CLIENT_STREAMS"] = os.environ["PLAYHEAD_CLIENT_CONNECTIONS"] = "5000"
        with playhead(folder, "bench.streams_asgi:application") as port:
            title = f"{load.events} event streams, {load.models} model streams, {load.rate} steps a second"
            report(f"{title} ({machine()})", _measure(port, load))


def _measure(port: int, load: Load) -> list[tuple[str, str, str]]:
    client = Client(port)
    settings = {"settings": {"compress_automatically": False}}
    sessions = [client.json("POST", "/api/v1/sessions", settings)["id"] for _ in range(SESSIONS)]
    (server,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if any(open.laddr.port == port for open in process.net_connections() if open.status == "ESTABLISHED")
    )
    _append(port, sessions, load)
    empty = server.memory_full_info().uss
    before = _append(port, sessions, load)
    with _process(_read_streams, port, load, sessions) as readers:
        readers.recv()  # all streams are open
        time_before = sum(server.cpu_times()[:2])
        with_streams = _append(port, sessions, load)
        share = (sum(server.cpu_times()[:2]) - time_before) / SECONDS
        memory = server.memory_full_info().uss - empty
        readers.send(None)
        delays: list[float] = readers.recv()
    idle = before + _append(port, sessions, load)
    expected = len(with_streams) * load.events // SESSIONS
    slowdown = statistics.median(with_streams) / statistics.median(idle) - 1
    return [
        ("events received, of those expected", f"{len(delays):,} of {expected:,}", "all"),
        ("events late by: median, p95, p99", _percentiles(delays), "p95 300 ms"),
        ("processor time of the server, of one core", f"{share * 100:.0f} %", "100 %"),
        ("memory that the streams take", f"{memory / 1e6:.0f} MB", "200 MB"),
        ("a step in one POST without streams: median, p99", _figures(idle), ""),
        ("with streams: median, p99", _figures(with_streams), ""),
        ("a step takes longer with streams, median", f"{slowdown * 100:+.0f} %", "15 %"),
    ]


def _append(port: int, sessions: list[str], load: Load) -> list[float]:
    """Appends at the load's rate, to one session after another. Returns the milliseconds of each POST."""
    client, started, times = Client(port), time.monotonic(), []
    for number in range(int(SECONDS * load.rate) // SESSIONS * SESSIONS):
        time.sleep(max(0.0, started + number / load.rate - time.monotonic()))
        begin = time.perf_counter()
        client.send("POST", f"/api/v1/sessions/{sessions[number % SESSIONS]}/entries", entries(number, 1))
        times.append((time.perf_counter() - begin) * 1000)
    time.sleep(0.5)
    return times


def _figures(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} ms, {statistics.quantiles(times, n=100)[98]:.1f} ms"


def _percentiles(seconds: list[float]) -> str:
    hundredths = statistics.quantiles(seconds, n=100)
    return ", ".join(f"{hundredths[n - 1] * 1000:.0f} ms" for n in (50, 95, 99))


@contextlib.contextmanager
def _process(coroutine: Any, *arguments: Any) -> Iterator[Any]:
    """Runs a coroutine in a process of its own, and yields a pipe to it."""
    pipe, child_pipe = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_run, args=(coroutine, child_pipe, *arguments), daemon=True)
    process.start()
    try:
        yield pipe
    finally:
        process.kill()
        process.join()


def _run(coroutine: Any, *arguments: Any) -> None:
    asyncio.run(coroutine(*arguments))


async def _serve_model(pipe: Any) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                writer.write(EVENT)
                await writer.drain()
                await asyncio.sleep(PIECE_SECONDS)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _read_streams(pipe: Any, port: int, load: Load, sessions: list[str]) -> None:
    """Opens all streams. After a message through the pipe, it sends the delay of each event in seconds."""
    delays: list[float] = []
    paths = [f"/api/v1/sessions/{sessions[n % SESSIONS]}/stream" for n in range(load.events)]
    readers = [_read(port, path, delays) for path in paths]
    readers += [_read(port, "/bench/model", None) for _ in range(load.models)]
    tasks = []
    for reader in readers:
        tasks.append(asyncio.ensure_future(reader))
        await asyncio.sleep(OPENING_SECONDS)
    await asyncio.sleep(1)
    pipe.send("open")
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
    pipe.send(delays)
    await asyncio.gather(*tasks)


async def _read(port: int, path: str, delays: list[float] | None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    headers = f"Host: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
    while line := await reader.readline():
        if delays is not None and line.startswith(b"data: "):
            at = datetime.fromisoformat(json.loads(line[6:])["at"]).timestamp()
            delays.append(time.time() - at)
    raise SystemExit(f"{path} ended")


if __name__ == "__main__":
    main(Load(*map(int, sys.argv[1:])))

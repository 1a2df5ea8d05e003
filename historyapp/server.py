"""Serves HTTP with granian: one web process with an event loop and threads. It ends with its parent.

Only the web process imports Django, so the parent stays small.
"""

import errno
import gc
import http.client
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from historyapp.processes import CANCEL_SECONDS, REQUEST_SECONDS, end_with_parent, handle_signals_at_once

STOP_SECONDS = ceil(REQUEST_SECONDS + CANCEL_SECONDS)
"""Seconds after which the web process is killed if it has not stopped."""
CONNECTIONS = 8000
"""The maximum number of open connections. If the system allows fewer open files, half of that number."""

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (only if the user chooses it)
"""Addresses that mean "every interface", and the addresses at which this machine reaches the server."""


class CannotListen(Exception):
    """The address is in use, or does not belong to this machine. The message gives the reason."""


def claim(host: str, port: int) -> tuple[str, int]:
    """Checks that the server can listen, and returns the IP address and the port; for port 0, any free port.

    granian shares its port (SO_REUSEPORT): a second server would start without an error and receive half of
    the first server's requests. A plain bind fails instead.

    Raises:
        CannotListen: when the bind fails.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            ip, port, *_ = probe.getsockname()
            return str(ip), int(port)
    except UnicodeError as error:
        raise CannotListen(f"Cannot listen on {host[:100]!r}: this is not a host name.") from error
    except OSError as error:
        reason = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
        raise CannotListen(f"Cannot listen on {host}:{port}: {reason}.") from error


class WebServer(MPServer):
    """Granian, which says why its web process ended."""

    def shutdown(self, exit_code: int = 0) -> None:
        if self.interrupt_children and not self.interrupt_signal:
            print(end_of_web_process(self.wrks[0].inner.exitcode), file=sys.stderr)  # noqa: T201
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]


def end_of_web_process(exit_code: int | None) -> str:
    """Why Playhead stops, for the person who started it.

    Args:
        exit_code: of the web process; negative: the signal that killed it.
    """
    reason = "ended unexpectedly" if exit_code is None else f"ended with exit code {exit_code}"
    if exit_code is not None and exit_code < 0:
        memory = ", perhaps because memory ran out" if exit_code == -signal.SIGKILL else ""
        reason = f"was killed (signal {-exit_code}{memory})"
    return f"The web process {reason}, so Playhead stops. Start it again: all confirmed entries are stored."


Running = Callable[[], bool]
"""Whether the server still accepts requests."""


def serve(
    ip: str,
    port: int,
    threads: int,
    *,
    head_seconds: int,
    logging: dict[str, Any],
    on_ready: Callable[[Running], None],
    on_load: Callable[[], None],
) -> None:
    """Serves until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        threads: the number of threads for requests that read, and the same number for requests that write.
        head_seconds: the time limit for receiving the head of a request, including the wait since the
            previous request.
        on_ready: runs in a thread when the server responds.
        on_load: runs in the web process after Django is loaded.

    Raises:
        SystemExit: when the web process ended without a signal.
    """
    max_files = _raise_open_files()
    server = WebServer(
        "historyapp.asgi:application",
        address=ip,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,  # HTTP/2 in granian limits neither idle connections nor unpacked headers
        workers=1,
        loop=Loops.uvloop,
        websockets=False,
        backpressure=min(CONNECTIONS, max_files // 2),
        http1_settings=HTTP1Settings(header_read_timeout=head_seconds * 1000),
        log_level=LogLevels.error,
        log_dictconfig=logging,
        workers_kill_timeout=STOP_SECONDS,
    )
    announcer = threading.Thread(target=_announce, args=(server, ip, port, on_ready), daemon=True)
    server.on_startup(announcer.start)
    # granian would reload on SIGHUP when a terminal is closed, even under nohup, which ignores this signal.
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    on_hangup = signal.SIG_IGN if ignored else server.signal_handler_interrupt
    server.on_startup(lambda: signal.signal(signal.SIGHUP, on_hangup))
    server.on_startup(handle_signals_at_once)
    server.serve(target_loader=partial(_load_application, os.getpid(), threads, on_load))
    announcer.join(timeout=STOP_SECONDS)


def _raise_open_files() -> int:
    """Raises the limit of open files for this process and the web process to the system's maximum."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * CONNECTIONS if hard_limit == resource.RLIM_INFINITY else min(2 * CONNECTIONS, hard_limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard_limit))
    return limit


def _load_application(parent: int, threads: int, on_load: Callable[[], None], target: str) -> Any:
    """Runs in the web process: makes it end with its parent, then loads Django."""
    # A killed parent cannot kill it when its time to stop is over.
    end_with_parent(parent, STOP_SECONDS)
    os.setpgid(0, 0)  # Ctrl-C goes only to the parent, which then stops this process
    # This handler is used until granian sets its own. A SIGTERM within milliseconds of the fork is lost; the
    # process is then killed when its time to stop is over.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    handle_signals_at_once()

    gc.disable()  # modules stay loaded, so the collector would only add a sixth to the start time
    from historyapp.asgi import make_front

    front = make_front(threads)
    on_load()
    gc.enable()
    return front


def _announce(server: Any, ip: str, port: int, on_ready: Callable[[Running], None]) -> None:
    def running() -> bool:
        return not (server.interrupt_signal or server.interrupt_children)

    # The web process is a fork: a lock that this thread holds at the fork would stay locked there forever.
    while running() and not any(worker.is_alive() for worker in server.wrks):
        time.sleep(0.02)
    while running() and not _responds(ip, port):
        time.sleep(0.02)
    if running():
        on_ready(running)


def _responds(ip: str, port: int) -> bool:
    client = http.client.HTTPConnection(EVERYWHERE.get(ip, ip), port, timeout=5)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status == 200
    except OSError:
        return False
    finally:
        client.close()

"""``playhead up`` starts from an empty folder and stops cleanly."""

import http.client
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from historyapp.supervisor import STOP_SECONDS
from tests.commands.visits import signed_in, visit_pages
from tests.examples import thorough
from tests.installation import copy_migrated, light_processes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOOTPRINT = 135_000_000
"""The maximum number of bytes of an idle server here. On 2026-11-26 it took 127 MB."""

ORPHAN = """
import os, socket, sys, time
from pathlib import Path
from historyapp.running_servers import announced
server = socket.create_server(("127.0.0.1", 0))
with announced(Path(sys.argv[1]), f"http://127.0.0.1:{server.getsockname()[1]}"):
    if os.fork():
        server.close()
        os.kill(os.getpid(), 9)
    time.sleep(0.1)
    print(server.getsockname()[1], flush=True)
    time.sleep(5)
    os._exit(0)
"""


class Up:
    """A running ``playhead up``, with what it printed until it was ready."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        environment = {**os.environ, "PLAYHEAD_HOME": str(home), "DATABASE_URL": ""}
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.printed = ""
        assert self.process.stdout
        for line in self.process.stdout:
            self.printed += line
            if "Ctrl-C" in line:
                break
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    @property
    def port(self) -> int:
        match = re.search(r"^Playhead ready at (http://\S+)$", self.printed, re.MULTILINE)
        assert match, self.printed
        return urlsplit(match[1]).port or 0

    def get(self, path: str, **headers: str) -> int:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        client.request("GET", path, headers=headers)
        return client.getresponse().status

    def stop(self, how: signal.Signals) -> int:
        """The exit code. Afterwards ``printed`` has the whole output, and none of its processes is left."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        # Its web process and its worker may each take their seconds of grace, one after the other.
        rest, _ = self.process.communicate(timeout=3 * STOP_SECONDS + 10)
        self.printed += rest
        _, left = psutil.wait_procs(self.family, timeout=10)
        assert left == []
        return self.process.returncode


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return copy_migrated(tmp_path / "home")


@pytest.fixture
def up(home: Path) -> Iterator[Up]:
    yield from _until_killed(Up(home, "--no-demo"))


@pytest.fixture(scope="module")
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The first start with an empty folder, for several tests. The last of them kills it."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch, light_processes():
        patch.setenv("PLAYHEAD_IDLE_SECONDS", "2")
        home = folder / "option"
        up = Up(folder / "variable", "--no-demo", "--home", str(home), "--host", "localhost")
    up.home = home
    yield from _until_killed(up)


@pytest.fixture(scope="module")
def orphaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A data folder and the port of its killed server, whose web process finishes a request meanwhile."""
    home = copy_migrated(tmp_path_factory.mktemp("nohup") / "home")
    command = [sys.executable, "-c", ORPHAN, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        yield home, int(killed.stdout.readline())


@pytest.fixture(scope="module")
def up_under_nohup(orphaned: tuple[Path, int]) -> Iterator[Up]:
    home, port = orphaned
    with pytest.MonkeyPatch.context() as patch, hangup(signal.SIG_IGN):
        patch.setenv("PLAYHEAD_IDLE_SECONDS", "2")
        up = Up(home, "--no-demo", "--port", str(port))
    yield from _until_killed(up)


@pytest.fixture(scope="module")
def browser(shared_up: Up) -> Iterator[httpx.Client]:
    with signed_in(shared_up.printed) as client:
        yield client


def _until_killed(up: Up) -> Iterator[Up]:
    yield up
    if up.process.poll() is None:
        up.stop(signal.SIGKILL)


@contextmanager
def hangup(handler: signal.Handlers) -> Iterator[None]:
    """Processes that the block starts inherit this handler of SIGHUP."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.thorough
def test_the_server_listens_on_the_default_host_and_ctrl_c_stops_it_cleanly(home: Path) -> None:
    up = Up(home, "--no-demo", "--host", "127.0.0.1")
    assert up.get("/readyz") == 200
    assert up.stop(signal.SIGINT) == 0
    assert up.printed.endswith("Ctrl-C stops it.\n")


def test_a_start_waits_for_the_last_request_of_a_killed_server(
    orphaned: tuple[Path, int], up_under_nohup: Up
) -> None:
    """The killed web process finishes the request before it ends, and holds the port until then."""
    assert up_under_nohup.port == orphaned[1], up_under_nohup.printed
    assert up_under_nohup.get("/readyz") == 200


def test_an_idle_server_loads_only_what_it_needs(up_under_nohup: Up) -> None:
    """Django is in the web process alone; spaCy, the SDKs and Celery are nowhere before they are needed."""
    parent, (web,) = psutil.Process(up_under_nohup.process.pid), up_under_nohup.family
    loaded = {process.pid: [map.path for map in process.memory_maps()] for process in (parent, web)}
    assert not [path for path in loaded[parent.pid] if "pydantic_core" in path]
    assert not [path for path in loaded[web.pid] if "/spacy/" in path or "/numpy/" in path]
    memory = memory_when_idle(
        lambda: sum(process.memory_info().rss for process in (parent, web)), 130_000_000
    )
    assert memory < 130_000_000


def test_under_nohup_the_server_outlives_its_terminal_and_ctrl_c_for_the_group_stops_it_cleanly(
    up_under_nohup: Up,
) -> None:
    up = up_under_nohup
    up.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        up.process.wait(timeout=1)
    assert up.get("/readyz") == 200
    assert psutil.Process(up.process.pid).children(recursive=True) == up.family
    os.killpg(up.process.pid, signal.SIGINT)
    assert up.wait() == 0
    assert up.printed.endswith("Ctrl-C stops it.\n")


def test_a_first_start_makes_the_folder_of_the_option_which_wins_over_the_variable(shared_up: Up) -> None:
    link = rf"Sign in +http://localhost:{shared_up.port}/sign-in/\S{{20,}}\n"
    assert re.search(link, shared_up.printed)
    assert re.search(r"API key +ph_\S{20,}\n", shared_up.printed)
    assert f"Data      {shared_up.home}\n" in shared_up.printed
    assert [path.name for path in shared_up.home.parent.iterdir()] == ["option"]
    assert shared_up.get("/readyz") == 200


@pytest.mark.parametrize("times", [2, thorough(3)])
def test_the_memory_of_an_idle_server_is_small_again_after_work(
    shared_up: Up, browser: httpx.Client, times: int
) -> None:
    """Counting tokens takes most memory, and pages load templates. An idle server releases the tables."""
    for _ in range(times):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(record_with_contexts, [shared_up] * 4))
        with api_of(shared_up) as api:
            visit_pages(api, browser)
        assert memory_when_idle(lambda: footprint(shared_up), FOOTPRINT) <= FOOTPRINT


def memory_when_idle(measure: Callable[[], int], bound: int) -> int:
    """The memory as soon as it is within the bound, or after 20 s: an idle server releases it in steps."""
    deadline = time.monotonic() + 20
    while (memory := measure()) > bound and time.monotonic() < deadline:
        time.sleep(0.5)
    return memory


def footprint(up: Up) -> int:
    """The memory of the web process and its parent, which share other pages."""
    return int(up.family[0].memory_info().rss + psutil.Process(up.process.pid).memory_full_info().uss)


def record_with_contexts(up: Up) -> None:
    text = "The parser drops the last line when the file does not end in a newline. " * 40
    with api_of(up) as api:
        session = api.post("/sessions", json={"settings": {"compress_automatically": False}}).json()["id"]
        for number in range(3):
            steps = [
                {"kind": "model_output", "use_tool": {"name": "read", "arguments": {"path": f"{number}.py"}}},
                {"kind": "tool_results", "results": [{"status": "success", "outputs": f"{number} {text}"}]},
            ]
            api.post(f"/sessions/{session}/entries", json={"entries": steps}).raise_for_status()
            api.post(f"/sessions/{session}/contexts", json={"max_tokens": 2048}).raise_for_status()


def api_of(up: Up) -> httpx.Client:
    key = re.findall(r"API key +(\S+)", up.printed)[0]
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=f"http://127.0.0.1:{up.port}/api/v1", headers=headers, timeout=30)


def compress(up: Up) -> psutil.Process:
    """Compresses a session. Returns the worker process that did it."""
    with api_of(up) as api:
        session = api.post("/sessions", json={}).json()["id"]
        steps = [
            {"kind": "model_output", "use_tool": {"name": "ls"}},
            {"kind": "tool_results", "results": [{"status": "success", "outputs": "a.py"}]},
        ]
        api.post(f"/sessions/{session}/entries", json={"entries": steps * 8}).raise_for_status()
        started = api.post(f"/sessions/{session}/compressions", json={"strategy": "simple_extract"})
        path = f"/sessions/{session}/compressions/{started.json()['id']}"
        for _ in range(600):
            if api.get(path).json()["state"] == "succeeded":
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"the run has not ended: {api.get(path).text}")
    web, *_ = up.family
    (worker,) = [child for child in psutil.Process(up.process.pid).children() if child.pid != web.pid]
    return worker


@pytest.mark.django_db
def test_a_second_server_on_the_port_of_a_living_one_is_refused_at_once(
    shared_up: Up, settings: Settings
) -> None:
    settings.PLAYHEAD_HOME = shared_up.home
    with pytest.raises(CommandError, match="another program listens there"):
        call_command("up", "--port", str(shared_up.port))


def test_a_database_of_a_newer_version_is_refused_in_one_sentence(home: Path) -> None:
    newer_database(home / "playhead.sqlite3")
    assert refused(home, DATABASE_URL="") == (
        f"CommandError: A newer Playhead has migrated this database: {version('playhead')} does not know the "
        "migration 9999_future. Install Playhead 99.1 or newer.\n"
    )


def newer_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        names = "(app, name, applied) VALUES ('historyapp', '9999_future', '2099-01-01 00:00:00')"
        file.execute(f"INSERT INTO django_migrations {names}")
        file.execute("INSERT INTO historyapp_release VALUES ('99.1', '2099-01-01 00:00:00')")
        file.commit()


def playhead(home: Path, *arguments: str) -> str:
    """What a command prints on this data folder."""
    command = [sys.executable, str(ROOT / "manage.py"), *arguments, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_sign_in_link_made_later_leads_to_the_running_server(shared_up: Up) -> None:
    link = playhead(shared_up.home, "sign-in")
    assert link.startswith(f"http://localhost:{shared_up.port}/sign-in/")
    assert shared_up.get(urlsplit(link.strip()).path) == 200


def test_a_worker_starts_for_a_run_and_a_kill_of_the_server_leaves_no_process(
    shared_up: Up,
) -> None:
    """The next start, right after the kill, has the same key and a new link to sign in.

    A crash of its web process ends it.
    """
    again = kill_with_worker_and_start(shared_up)
    keys, links = (
        [re.findall(pattern, up.printed) for up in (shared_up, again)]
        for pattern in (r"API key +(ph_\S{20,})\n", r"/sign-in/(\S+)")
    )
    assert keys[0] == keys[1] != []
    assert links[0] != links[1]
    again.family[0].kill()
    assert again.wait() == 1
    assert "The web process was killed (signal 9, perhaps because memory ran out)" in again.printed
    assert "Traceback" not in again.printed


@pytest.mark.thorough
@pytest.mark.parametrize("_", range(9))
def test_a_kill_leaves_no_web_process_or_worker_and_an_immediate_start_works(up: Up, _: int) -> None:
    assert kill_with_worker_and_start(up).stop(signal.SIGTERM) == 0


def kill_with_worker_and_start(up: Up) -> Up:
    """Kills a server that has a worker, and starts another one with its folder and port."""
    up.family.append(compress(up))
    up.process.kill()
    up.process.wait()
    with hangup(signal.SIG_DFL):  # these tests may run under nohup
        again = Up(up.home, "--no-demo", "--host", "0.0.0.0", "--port", str(up.port))
    assert again.port == up.port, again.printed
    assert again.get("/readyz") == 200
    assert up.wait() == -signal.SIGKILL
    return again


def refused(home: Path, *options: str, **variables: str) -> str:
    """The error of an ``up`` that does not start: one line, without a traceback."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "up", *options],
        env={**os.environ, "PLAYHEAD_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.django_db
def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reason = f"Cannot listen on 127.0.0.1:{port}: another program listens there."
        with pytest.raises(CommandError) as raised:
            call_command("up", "--port", str(port))
    assert str(raised.value) == f"{reason} Choose another with --port (make up PORT=9000)."


@pytest.mark.django_db
@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "x" * 300])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(CommandError, match=r"^Cannot listen on "):
        call_command("up", "--host", host)


def test_a_database_that_stays_unreachable_is_reported_without_the_password(tmp_path: Path) -> None:
    output = refused(tmp_path, DATABASE_URL="postgresql://alice:secret@127.0.0.1:1/history")
    waiting, reason = output.splitlines()
    assert waiting.startswith("Waiting up to 10 s for the database: connection failed: ")
    assert reason.startswith("CommandError: The database cannot be used: ")
    assert "secret" not in output


@pytest.mark.parametrize("options", [("--threads", "0"), ("--port", "70000"), ("--port", "http")])
def test_invalid_options_are_refused(options: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match=repr(options[1])):
        call_command("up", *options)

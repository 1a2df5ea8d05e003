"""How much slower a project's appends are on SQLite while a worker works for another project.

``python -m bench.worker_writes [kind …]``. Only one process writes to SQLite at a time, and the others poll.
For each kind of work, 3,000 items wait in one project, and a process does them in a loop, as a thread of a
worker does; another project appends meanwhile. Each is measured twice, on copies of one database: with
transactions that follow each other at once, and with those that give way. Idle times are measured between
them.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

from bench.machinery import KEY, ROOT, Client, action, home, playhead, report, server
from bench.machinery import result as tool_result

ITEMS = 3_000
MAX_SECONDS = 10.0
"""Work that takes longer is ended."""
APPEND_PAUSE = 0.01
"""Seconds between two appends."""
NICENESS = 10


@dataclass
class Measured:
    """The times of appends, alone and meanwhile, and how long the work took."""

    idle: list[float]
    times: list[float]
    seconds: float

    def row(self) -> str:
        return f"{_text(self.times)} ({len(self.times)} appends, work {self.seconds:.1f} s)"


def main(kinds: list[str]) -> None:
    rows = []
    with home() as folder:
        filled = folder / "filled"
        with playhead(filled):
            pass
        assert _run("fill", filled, gives_way=False).wait() == 0
        for kind in kinds or list(_WORK):
            assert _run(f"prepare {kind}", filled, gives_way=False).wait() == 0
            found = []
            for gives_way in (False, True):
                copy = shutil.copytree(filled, folder / "copy")
                found.append(_measure(kind, copy, gives_way=gives_way))
                shutil.rmtree(copy)
            idle = _text([time for measured in found for time in measured.idle])
            rows.append((kind, f"idle {idle}; {'; '.join(measured.row() for measured in found)}", ""))
    report("Appends while a worker writes: at once, and giving way (median, p99, largest)", rows)


def _measure(kind: str, folder: Path, *, gives_way: bool) -> Measured:
    environment = {"PLAYHEAD_HOME": str(folder), "PLAYHEAD_API_KEY": KEY, "DEBUG": ""}
    with server("historyapp.asgi:application", environment, "/healthz") as port:
        _appends(port, _for_seconds(3))  # the first ones load the tokenizer's tables
        idle = _appends(port, _for_seconds(4))
        process = _run(kind, folder, gives_way=gives_way)
        assert process.stdout
        assert process.stdout.readline() == "begin\n"
        begun = time.monotonic()
        times = _appends(port, lambda: process.poll() is None)
        measured = Measured(idle, times, time.monotonic() - begun)
        print(kind, gives_way, process.stdout.read().strip(), measured.row(), os.getloadavg(), flush=True)
    return measured


def _for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _text(times: list[float]) -> str:
    """Median, p99 and largest in milliseconds."""
    figures = statistics.median(times), statistics.quantiles(times, n=100)[98], max(times)
    return ", ".join(f"{1000 * figure:.1f}" for figure in figures) + " ms"


def _appends(port: int, goes_on: Callable[[], bool]) -> list[float]:
    client = Client(port)
    session = client.json("POST", "/api/v1/sessions", {"settings": {"compress_automatically": False}})["id"]
    times, number = list[float](), 0
    while goes_on():
        number += 1
        begun = time.perf_counter()
        client.send("POST", f"/api/v1/sessions/{session}/actions", action(number))
        times.append(time.perf_counter() - begun)
        client.send("POST", f"/api/v1/sessions/{session}/results", tool_result(number))
        time.sleep(APPEND_PAUSE)
    return times


def _run(kind: str, folder: Path, *, gives_way: bool) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_API_KEY": KEY, "DEBUG": ""}
    if kind == "fill":
        environment["PLAYHEAD_SYNCHRONOUS"] = "OFF"
    code = f"from bench.worker_writes import in_process; in_process({kind!r}, {gives_way})"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def in_process(kind: str, gives_way: bool) -> None:
    """Runs in a process with Django."""
    from historyapp.services.transactions import giving_way

    if kind == "fill":
        _fill()
        return
    name = kind.removeprefix("prepare ")
    prepare, work = _WORK[name]
    if kind != name:
        prepare()
        return
    os.nice(NICENESS)
    end = time.monotonic() + MAX_SECONDS
    print("begin", flush=True)
    with giving_way() if gives_way else nullcontext():
        result = work(lambda: time.monotonic() >= end)
    print("ended" if time.monotonic() < end else "stopped", json.dumps(result, default=str), flush=True)


def _fill() -> None:
    """A project with sessions of one step, and one session of as many steps."""
    from historyapp.models import Project
    from historyapp.services.append import append
    from historyapp.services.sessions import create_session
    from tests.services.drafts import ask

    project = Project.objects.create(name="busy")
    text = "Look at src/app/module_7.py and src/lib/parser.py. " * 4
    for number in range(ITEMS):
        session = create_session(project)
        append(project, session.pk, [ask(text), _act(number), _ok(number)])
    session = create_session(project, names={"title": "long"})
    for start in range(0, ITEMS, 100):
        drafts = [f(number) for number in range(start, start + 100) for f in (_act, _ok)]
        append(project, session.pk, drafts)


def _act(number: int) -> Any:
    from tests.services.drafts import act

    return act("read", path=f"src/module_{number}.py")


def _ok(number: int) -> Any:
    from tests.services.drafts import ok

    return ok(outputs=f"def module_{number}(): pass\n" * 20)


def _nothing() -> None:
    pass


def _busy() -> Any:
    from historyapp.models import Project

    return Project.objects.get(name="busy")


def _sessions() -> list[UUID]:
    from historyapp.models import Session

    return list(Session.objects.filter(project=_busy()).values_list("pk", flat=True))


def _figures_feed(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.figures.feed import follow_changes

    return follow_changes(should_stop)


def _name_indexes(should_stop: Callable[[], bool]) -> Any:
    from historyapp.models import Session
    from historyapp.services.names.index import catch_up

    for done, id in enumerate(_sessions()):
        catch_up(Session.objects.get(pk=id).lineage(), 5, limit=None)
        if should_stop():
            return done
    return None


def _text_blocks(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.text_index import index_text

    for done, id in enumerate(_sessions()):
        index_text(id, should_stop)
        if should_stop():
            return done
    return None


def _search(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.search.index import catch_up

    return catch_up(_busy().pk, should_stop)


def _request_run() -> None:
    from historyapp.models import Session
    from historyapp.services.compression.request import RunRequest
    from historyapp.services.compression.start import start_run

    session = Session.objects.get(title="long")
    start_run(_busy(), session.pk, RunRequest(strategy="simple_extract"))


def _process_run(should_stop: Callable[[], bool]) -> Any:
    from historyapp.models import CompressionRun
    from historyapp.services.compression.run import process_run
    from historyapp.services.summary_writers.writers import WRITER

    run = CompressionRun.objects.get()
    process_run(run.pk, should_stop, WRITER, should_stop)
    run.refresh_from_db()
    return run.done, run.total


def _due_sessions() -> None:
    from historyapp.models import Session

    Session.objects.filter(project=_busy()).update(compression_due=True)


def _start_runs(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.compression.start import due_sessions
    from historyapp.tasks import start_due_runs

    while due_sessions() and not should_stop():
        start_due_runs()
    return len(due_sessions())


def _request_evaluation() -> None:
    from historyapp.services.evaluations.start import EvaluationRequest, start_evaluation

    start_evaluation(_busy(), EvaluationRequest(_sessions()[-100:], budgets=(4000,), policies=("live",)))


def _evaluate(should_stop: Callable[[], bool]) -> Any:
    from historyapp.models import Evaluation
    from historyapp.services.evaluations.work import process_evaluation

    return process_evaluation(Evaluation.objects.get().pk, should_stop)


def _add_webhook() -> None:
    from historyapp.models import Webhook
    from historyapp.services.webhooks.endpoints import create_webhook

    create_webhook(_busy(), "https://example.com/")
    Webhook.objects.update(transaction_id=0, change_id=0)


class _Target(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def _send_webhooks(should_stop: Callable[[], bool]) -> Any:
    from django.conf import settings

    from historyapp.models import Webhook, WebhookDelivery
    from historyapp.services.webhooks.delivery import process_webhook

    target = ThreadingHTTPServer(("127.0.0.1", 0), _Target)
    Thread(target=target.serve_forever, daemon=True).start()
    settings.PLAYHEAD_WEBHOOK_PRIVATE_ADDRESSES = [ip_network("127.0.0.0/8")]
    webhook = Webhook.objects.get()
    Webhook.objects.update(url=f"http://127.0.0.1:{target.server_port}/")
    while not should_stop():
        process_webhook(webhook.pk, should_stop)
        if not WebhookDelivery.objects.pending(webhook).exists():
            break
    return dict.fromkeys(
        WebhookDelivery.objects.values_list("state", flat=True)
    ), WebhookDelivery.objects.count()


def _stale_outcomes() -> None:
    from historyapp.models import Episode, StaleOutcomes

    Episode.objects.update(kind="", target="")
    StaleOutcomes.objects.bulk_create(StaleOutcomes(session_id=id) for id in _sessions())


def _outcomes(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.outcomes import compute_outcomes

    return compute_outcomes(should_stop)


def _hide_sessions() -> None:
    from historyapp.models import Session
    from historyapp.services.deletions import hide
    from historyapp.services.transactions import writing

    with writing():
        for session in Session.objects.filter(pk__in=_sessions()[:300]):
            hide(session, "")


def _deletions(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.deletions import delete_hidden_sessions

    return delete_hidden_sessions()


def _put_messages() -> None:
    from historyapp.services.queue import put

    put("other", *map(str, range(ITEMS)))


def _take_messages(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.queue import size, take

    while take("other") is not None and not should_stop():
        pass
    return size("other")


def _count_ahead(should_stop: Callable[[], bool]) -> Any:
    from historyapp.services.figures.run_figures import count_ahead

    for done, id in enumerate(reversed(_sessions())):
        count_ahead(id, should_stop)
        if should_stop():
            return done
    return None


_WORK: dict[str, tuple[Callable[[], None], Callable[[Callable[[], bool]], Any]]] = {
    "figures": (_nothing, _figures_feed),
    "names": (_nothing, _name_indexes),
    "search": (_nothing, _search),
    "text": (_nothing, _text_blocks),
    "run": (_request_run, _process_run),
    "automatic runs": (_due_sessions, _start_runs),
    "evaluation": (_request_evaluation, _evaluate),
    "webhooks": (_add_webhook, _send_webhooks),
    "outcomes": (_stale_outcomes, _outcomes),
    "deletions": (_hide_sessions, _deletions),
    "messages": (_put_messages, _take_messages),
    "run figures": (_nothing, _count_ahead),
}

if __name__ == "__main__":
    main(sys.argv[1:])

"""How fast a browser shows sessions of 100, 10,000 and 100,000 steps.

``python -m bench.pages [STEPS…]`` starts a server and a headless Chromium on this machine. Each visit has a
cache of its own; the lengths alternate, so that a disturbance affects all. The longest length is compared
with the shortest.
"""

import json
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from bench.machinery import ROOT, home, playhead, report
from tests.browser.chromium import FLAGS, find

LENGTHS = (100, 10_000, 100_000)
VISITS = 9
STEPPED, JUMPED = 60, 20
"""Steps that are reached one after the other with the key →, and by typing a number."""
REST = 50
"""Milliseconds between two keys. A person presses no faster, and the next step is fetched meanwhile."""
WINDOW = {"width": 1440, "height": 930}
PAGES = {"session": "/sessions/{}?step=-1", "overview": "/sessions/{}/overview", "list": "/"}
TIMES = """() => {
    const [visit] = performance.getEntriesByType("navigation");
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    return [paint.startTime, Math.max(paint.startTime, visit.domContentLoadedEventEnd)];
}"""
NOTE_PAINTS = """() => {
    window.painted = [];
    let sent = null;
    const send = (event) => (sent = event.timeStamp);
    for (const name of ["keydown", "submit"]) document.addEventListener(name, send, true);
    const channel = new MessageChannel();
    channel.port1.onmessage = () => window.painted.push(performance.now() - sent);
    new MutationObserver(() => requestAnimationFrame(() => channel.port2.postMessage(null)))
        .observe(document.getElementById("step"), { childList: true });
}"""
"""A message that is sent before a frame arrives after the frame was painted."""


@dataclass
class Visits:
    """The visits of one page at one length: milliseconds, and transferred bytes with headers."""

    paint: list[float] = field(default_factory=list)
    usable: list[float] = field(default_factory=list)
    wire: list[float] = field(default_factory=list)
    script: list[float] = field(default_factory=list)


def main(*lengths: str) -> None:
    """Measures in a database of its own."""
    steps = [int(length) for length in lengths] or list(LENGTHS)
    with home() as folder, playhead(folder) as port:
        prepared = json.loads(inside(str(folder), f"prepare({steps})").splitlines()[-1])
        with _browser() as browser:
            visitor = _Visitor(browser, f"http://127.0.0.1:{port}", prepared["cookie"])
            sessions = dict(zip(steps, prepared["sessions"], strict=True))
            for name, path in PAGES.items():
                visited = sessions if "{}" in path else {steps[0]: sessions[steps[0]]}
                report(f"The {name} page in Chromium", _page_rows(visitor, path, visited))
            report("Step under the playhead painted", _step_rows(visitor, sessions))


def inside(folder: str, code: str) -> str:
    environment = {**os.environ, "PLAYHEAD_HOME": folder, "PLAYHEAD_SYNCHRONOUS": "OFF"}
    shell = [sys.executable, "manage.py", "shell", "--no-imports", "-c"]
    command = [*shell, f"from bench.pages import prepare; {code}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def prepare(lengths: Sequence[int]) -> None:
    """Fills the sessions, counts their overviews and prints a cookie of the owner. Runs inside Django."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from bench.fill import fill
    from historyapp.models import Session
    from historyapp.models.history import History
    from historyapp.services.figures.run_figures import count_run

    fill(tuple(lengths))
    sessions = list(Session.objects.order_by("created_at"))
    for session in sessions:
        count_run(History(session))
    client = Client()
    client.force_login(User.objects.get(is_superuser=True))
    cookie = {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
    }
    print(json.dumps({"cookie": cookie, "sessions": [str(session.pk) for session in sessions]}))


@contextmanager
def _browser() -> Iterator[Browser]:
    program = find()
    if program is None:
        raise SystemExit("There is no Chromium. Install it, or name it: CHROMIUM=/path/to/chromium")
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=program, args=FLAGS)) as browser,
    ):
        yield browser


@dataclass(frozen=True)
class _Visitor:
    browser: Browser
    address: str
    cookie: dict[str, Any]

    @contextmanager
    def page(self) -> Iterator[Page]:
        """A window with an empty cache, signed in."""
        with self.browser.new_context(base_url=self.address, viewport=WINDOW) as context:
            context.add_cookies([{**self.cookie, "url": self.address}])
            context.route("**/events", lambda route: route.abort())  # with a stream, a page is never idle
            yield context.new_page()

    def visit(self, path: str, visits: Visits) -> None:
        """Adds one visit's figures."""
        with self.page() as page:
            sizes = _sizes_by_kind(page)
            page.goto(path, wait_until="networkidle")
            paint, usable = page.evaluate(TIMES)
            visits.paint.append(paint)
            visits.usable.append(usable)
            visits.wire.append(sum(sizes.values()))
            visits.script.append(sizes["Script"])

    def steps(self, session: str, length: int) -> tuple[list[float], list[float]]:
        """Milliseconds from a key to the painted step, for the key → and for typed numbers."""
        anywhere = random.Random(length).sample(range(1, length + 1), JUMPED)
        with self.page() as page:
            page.goto(f"/sessions/{session}?step={length // 3}", wait_until="networkidle")
            page.evaluate(NOTE_PAINTS)
            for count in range(1, STEPPED + 1):
                page.keyboard.press("ArrowRight")
                page.wait_for_function("count => window.painted.length >= count", arg=count)
                page.wait_for_timeout(REST)
            for count, step in enumerate(anywhere, STEPPED + 1):
                page.fill("[data-number]", str(step))
                page.press("[data-number]", "Enter")
                page.wait_for_function("count => window.painted.length >= count", arg=count)
                page.wait_for_load_state("networkidle")
            painted: list[float] = page.evaluate("window.painted")
            return painted[:STEPPED], painted[STEPPED:]


def _sizes_by_kind(page: Page) -> dict[str, float]:
    """Counts the transferred bytes from now on, by kind of resource."""
    kinds: dict[str, str] = {}
    sizes: dict[str, float] = defaultdict(float)

    def note_kind(event: dict[str, Any]) -> None:
        kinds[event["requestId"]] = event["type"]

    def note_size(event: dict[str, Any]) -> None:
        sizes[kinds.get(event["requestId"], "Other")] += event["encodedDataLength"]

    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.responseReceived", note_kind)
    wire.on("Network.loadingFinished", note_size)
    return sizes


def _page_rows(visitor: _Visitor, path: str, sessions: dict[int, str]) -> list[tuple[str, str, str]]:
    visits_by_length = {length: Visits() for length in sessions}
    visitor.visit(path.format(sessions[min(sessions)]), Visits())  # the server reads its templates
    for _ in range(VISITS):
        for length, session in sessions.items():
            visitor.visit(path.format(session), visits_by_length[length])
    rows = []
    for length, visits in visits_by_length.items():
        name = f"{length:,} steps: "
        rows += [
            (f"{name}first contentful paint", _spread(visits.paint), "500 ms"),
            (f"{name}usable", _spread(visits.usable), "1,000 ms"),
            (f"{name}bytes transferred, and the part that is script", _sizes(visits), "150 KB, 60 KB"),
        ]
    if len(visits_by_length) == 1:
        return rows
    shortest, longest = visits_by_length[min(visits_by_length)], visits_by_length[max(visits_by_length)]
    compared = f"{max(visits_by_length):,} to {min(visits_by_length):,} steps"
    rows.append((f"first contentful paint: {compared}", _ratio(longest.paint, shortest.paint), "1.3"))
    rows.append((f"usable: {compared}", _ratio(longest.usable, shortest.usable), "1.3"))
    return rows


def _step_rows(visitor: _Visitor, sessions: dict[int, str]) -> list[tuple[str, str, str]]:
    rows = []
    for length, session in sessions.items():
        next_ones, anywhere = visitor.steps(session, length)
        rows.append((f"{length:,} steps: the next step", _p95(next_ones), "p95 100 ms"))
        rows.append((f"{length:,} steps: a step anywhere", _p95(anywhere), "p95 100 ms"))
    return rows


def _spread(times: Sequence[float]) -> str:
    return f"**{statistics.median(times):.0f} ms** ({min(times):.0f} to {max(times):.0f})"


def _sizes(visits: Visits) -> str:
    wire, script = statistics.median(visits.wire) / 1000, statistics.median(visits.script) / 1000
    return f"**{wire:.0f} KB**, {script:.0f} KB"


def _ratio(longest: Sequence[float], shortest: Sequence[float]) -> str:
    return f"**{statistics.median(longest) / statistics.median(shortest):.2f}**"


def _p95(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):.0f} ms, **p95 {statistics.quantiles(times, n=20)[-1]:.0f} ms**"


if __name__ == "__main__":
    main(*sys.argv[1:])

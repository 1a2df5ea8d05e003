"""Lighthouse's scores of the session, overview and list pages, signed in.

``python -m bench.lighthouse [STEPS]`` starts a server with a session of 1,000 steps, or of another number.
Lighthouse is not part of this project: install it with ``npm install -g lighthouse``, or name the program:
``LIGHTHOUSE=/path/to/it``.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bench.machinery import home, playhead, report
from bench.pages import PAGES, inside
from tests.browser.chromium import FLAGS, find

STEPS = 1_000
CATEGORIES = ("performance", "accessibility", "best-practices")
PRESETS = {"desktop": ["--preset=desktop"], "phone": []}
"""The phone is simulated: a slow network, and a processor four times as slow."""
PATIENCE = 180
"""Seconds for one page."""


def main(steps: str = str(STEPS)) -> None:
    """Measures in a database of its own."""
    program = os.environ.get("LIGHTHOUSE") or shutil.which("lighthouse")
    if not program:
        raise SystemExit("Lighthouse is needed: npm install -g lighthouse")
    with home() as folder, playhead(folder) as port:
        prepared = json.loads(inside(str(folder), f"prepare([{int(steps)}])").splitlines()[-1])
        address = f"http://127.0.0.1:{port}"
        rows = []
        with _signed_in(folder / "profile", {**prepared["cookie"], "url": address}) as debugger:
            for name, path in PAGES.items():
                for preset, options in PRESETS.items():
                    page = address + path.format(prepared["sessions"][0])
                    result = _run([program, page, f"--port={debugger}", *options])
                    rows.append((f"{name}, {preset}", _scores(result), "95"))
        report(f"Lighthouse: {', '.join(CATEGORIES)}", rows)


@contextmanager
def _signed_in(profile: Path, cookie: dict[str, Any]) -> Iterator[int]:
    """Starts a Chromium that has the cookie, and yields the port of its debugger.

    With Lighthouse's own option for headers, requests of scripts would be sent without the cookie.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    flags = [*FLAGS, f"--remote-debugging-port={port}"]
    program = find()
    with sync_playwright() as playwright:
        launch = playwright.chromium.launch_persistent_context
        with closing(launch(profile, executable_path=program, args=flags)) as context:
            context.add_cookies([cookie])
            yield port


def _run(command: list[str]) -> dict[str, Any]:
    """Lighthouse's report on one page."""
    options = [
        f"--only-categories={','.join(CATEGORIES)}",
        "--output=json",
        "--quiet",
        "--disable-storage-reset",
    ]
    done = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE, timeout=PATIENCE)
    scores: dict[str, Any] = json.loads(done.stdout)
    if scores["finalDisplayedUrl"] != command[1]:
        raise SystemExit(f"{command[1]} leads to {scores['finalDisplayedUrl']}, which is another page.")
    return scores


def _scores(result: dict[str, Any]) -> str:
    """The score of each category, out of 100, and what took points."""
    scores = [f"**{100 * result['categories'][name]['score']:.0f}**" for name in CATEGORIES]
    missed = [
        audit["id"]
        for name in CATEGORIES
        for audit in result["categories"][name]["auditRefs"]
        if audit["weight"]
        and (result["audits"][audit["id"]]["score"] or 0) < 0.9
        and result["audits"][audit["id"]]["scoreDisplayMode"] != "notApplicable"
    ]
    return ", ".join(scores) + (f" (below 90: {', '.join(missed)})" if missed else "")


if __name__ == "__main__":
    main(*sys.argv[1:])

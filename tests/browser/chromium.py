"""Finds a Chromium for the tests. As a program, it installs one if none is found.

``CHROMIUM`` may name the program.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from playwright.sync_api import sync_playwright

# The shell draws no windows and takes a third less processor time than the whole browser.
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
PLACES = (
    "/snap/bin/chromium",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--in-process-gpu",  # fewer processes take a tenth less processor time
    "--enable-features=NetworkServiceInProcess2",
    # Each page compiles its scripts again, so optimizing them takes longer than it saves.
    "--js-flags=--no-maglev,--no-turbofan",
    "--disable-quic",
    "--no-first-run",
]
APT = ["apt-get", "--quiet", "--quiet", "--yes"]


def find() -> Path | None:
    """The first Chromium of ``CHROMIUM``, the PATH, the usual places and playwright's own folder."""
    named = os.environ.get("CHROMIUM")
    on_path = (shutil.which(name) for name in NAMES)
    # The last one starts playwright, which takes a second: it is skipped if there is another one.
    candidates = [named] if named else chain(on_path, PLACES, _downloaded())
    return next((Path(place) for place in candidates if place and Path(place).is_file()), None)


def _downloaded() -> Iterable[str]:
    with sync_playwright() as playwright:
        yield playwright.chromium.executable_path


def install() -> Path | None:
    """Installs Debian's package if root may install it, or else playwright's download."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        _run([*APT, "update"])
        for package in NAMES[:2]:
            if find() is None:
                _run([*APT, "--no-install-recommends", "install", package])
    if find() is None:
        _run([sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"])
    return find()


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)


if __name__ == "__main__":
    if not (find() or install()):
        sys.exit(
            "The browser tests need Chromium. Install it, or name it: CHROMIUM=/path/to/chromium make test"
        )

"""The demo: sessions of a small agent that works in a temporary folder and records what it does.

The agent's decisions are scripted; its tools and their results are real. It uses only the public HTTP API.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from historyapp.demo import audit, release, repair
from historyapp.demo.recorder import DemoFailed

SESSIONS = 4
"""The number of sessions of a complete demo; each has the tag ``demo``."""

__all__ = ["SESSIONS", "DemoFailed", "run", "run_with"]


def run(base_url: str, api_key: str) -> list[str]:
    """Records the demo on a running server. It may be run again, even after a crash: nothing is added twice.

    Args:
        base_url: scheme, host and port.

    Returns:
        The ids of its sessions.

    Raises:
        DemoFailed: when the server refuses a request or does not respond.
    """
    with httpx.Client(
        base_url=f"{base_url.rstrip('/')}/api/v1",
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=30,
        trust_env=False,  # the server is local, so no proxy is used
    ) as api:
        return run_with(api)


def run_with(api: httpx.Client) -> list[str]:
    """Like :func:`run`, with a client that has the server's address and the key."""
    ids: list[str] = []
    for script in (audit, repair, release):
        with TemporaryDirectory(prefix="playhead-demo-") as folder:
            ids += script.run(api, Path(folder))
    return ids

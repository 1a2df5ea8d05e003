"""The demo: sessions that a small agent really runs in a temporary folder while they are recorded.

What the agent decides is written down; what its tools answer is not. It records through the public HTTP API
and knows nothing else of the server.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from historyapp.demo import audit, release, repair
from historyapp.demo.recorder import DemoFailed

SESSIONS = 4
"""How many sessions there are when all has been recorded; each carries the tag ``demo``."""

__all__ = ["SESSIONS", "DemoFailed", "run", "run_with"]


def run(base_url: str, api_key: str) -> list[str]:
    """Records the demo on a running server; doing it again, also after a crash, adds nothing.

    Args:
        base_url: scheme, host and port.

    Returns:
        The ids of its sessions.

    Raises:
        DemoFailed: when the server refuses a call or does not answer.
    """
    with httpx.Client(
        base_url=f"{base_url.rstrip('/')}/api/v1",
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=30,
        trust_env=False,  # the server is ours: no proxy in between
    ) as api:
        return run_with(api)


def run_with(api: httpx.Client) -> list[str]:
    """The same through a client that knows the server's address and carries the key."""
    ids: list[str] = []
    for script in (audit, repair, release):
        with TemporaryDirectory(prefix="playhead-demo-") as folder:
            ids += script.run(api, Path(folder))
    return ids

"""The server's pools of threads."""

from functools import partial

from historyapp.front.attempts import PasswordAttempts
from historyapp.front.connections import close_connection, renew_connection
from historyapp.front.large_requests import PROCESSES
from historyapp.front.pool_names import CALLS, CHECKS, KNOWN_DEVICES, LARGE_REQUESTS, PASSWORDS
from historyapp.front.pools import Hooks, Pool, RankedPool
from historyapp.services.connections import release_connection

CALL_THREADS, SPARE_CALL_THREADS, TRANSFER_THREADS = 48, 16, 2
"""Model calls mostly wait for a provider. Transfers use the processor: more threads only slow others."""
CALL_SPACING = 0.02
"""Seconds between the starts of two model calls. Each takes about 15 ms of processor time in its process."""
KEYS = "API keys"
"""The pool of the thread that looks up unknown API keys."""


def make_pools(threads: int, max_wait: float, attempts: PasswordAttempts) -> dict[str, Pool]:
    """All pools, by name.

    Args:
        threads: the number of threads of the pool for reads, and of the pool for writes.
        max_wait: the longest wait for a thread, in seconds.
        attempts: the passwords that each address has sent.
    """
    hooks = Hooks(end=close_connection)
    kept = partial(Pool, max_wait=max_wait, keeps_thread=True, hooks=hooks._replace(idle=renew_connection))
    ending = partial(Pool, max_wait=max_wait, keeps_thread=False, hooks=hooks)
    long = hooks._replace(after_job=release_connection)
    # Checking a password takes a third of a second of computing, by design.
    passwords = RankedPool(PASSWORDS, 1, max_wait=max_wait, keeps_thread=False, hooks=hooks)
    passwords.rank = attempts.number
    return {
        "reads": kept("reads", threads, spare=threads),
        "writes": kept("writes", threads, spare=threads),
        CALLS: ending("model calls", CALL_THREADS, spare=SPARE_CALL_THREADS, spacing=CALL_SPACING),
        PASSWORDS: passwords,
        KNOWN_DEVICES: ending(KNOWN_DEVICES, 1),
        KEYS: ending(KEYS, 1),
        # One of each owner at a time.
        LARGE_REQUESTS: Pool(LARGE_REQUESTS, 1, spare=PROCESSES - 1, max_wait=max_wait, keeps_thread=False),
        # They respond even while all threads wait for the database.
        CHECKS: ending("health checks", 4),
        "transfers": ending("exports and imports", TRANSFER_THREADS, spare=TRANSFER_THREADS, hooks=long),
    }

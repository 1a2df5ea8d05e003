"""The database settings from ``DATABASE_URL``: SQLite, configured for durable concurrent use, or
PostgreSQL."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from historyapp import env
from historyapp.data_folder import SQLITE_FILE

SQLITE = "django.db.backends.sqlite3"
POSTGRESQL = "django.db.backends.postgresql"
LIMITED_POSTGRESQL = "historyapp.postgresql"
"""The same, with a limit for the connections of long work."""
SYNCHRONOUS = ("FULL", "NORMAL", "OFF")

_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA cache_size=-32000",
    "PRAGMA mmap_size=268435456",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA secure_delete=ON",  # overwrites what is deleted, also where SQLite was built without it
)

CONNECTION_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq. The last is in milliseconds, the other times are in seconds. Without them, a thread
waits up to two hours for a machine that is gone. The URL can override them."""


def database(home: Path) -> dict[str, Any]:
    """Django's settings for the database; without ``DATABASE_URL``, for an SQLite file in ``home``."""
    synchronous = env.choice("PLAYHEAD_SYNCHRONOUS", SYNCHRONOUS)
    url = env.text("DATABASE_URL")
    if not url:
        return _sqlite({"ENGINE": SQLITE, "NAME": home / SQLITE_FILE}, synchronous)
    try:
        config: dict[str, Any] = {**dj_database_url.parse(url)}
    except (ValueError, dj_database_url.UnknownSchemeError):
        config = {}
    if config.get("ENGINE") not in (SQLITE, POSTGRESQL) or config["NAME"] in ("", ":memory:"):
        raise ImproperlyConfigured(  # without the URL, which can contain a password
            "DATABASE_URL must look like postgresql://user:password@host:5432/name or sqlite:////folder/file.sqlite3."
        )
    if config["ENGINE"] == SQLITE:
        return _sqlite(config, synchronous)
    options = {**CONNECTION_TIMEOUTS, **config.get("OPTIONS", {})}
    if synchronous:  # otherwise the server's own setting applies
        commit = "on" if synchronous == "FULL" else "off"
        options["options"] = f"{options.get('options', '')} -c synchronous_commit={commit}".strip()
    kept = {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
    return {**config, **kept, "ENGINE": LIMITED_POSTGRESQL, "OPTIONS": options}


def _sqlite(config: dict[str, Any], synchronous: str) -> dict[str, Any]:
    """Transactions are IMMEDIATE, so that writers wait for each other at BEGIN instead of failing later."""
    pragmas = (*_SQLITE_PRAGMAS, f"PRAGMA synchronous={synchronous or 'FULL'}")
    options = {
        "timeout": env.number("PLAYHEAD_WRITE_SECONDS", default=20, maximum=3600),
        "transaction_mode": "IMMEDIATE",
        "init_command": ";".join(pragmas),
    }
    with suppress(OSError):  # the file may not exist yet; opening the database reports other errors
        Path(config["NAME"]).chmod(0o600)  # SQLite's other files get the same mode
    return {**config, "CONN_MAX_AGE": None, "OPTIONS": {**config.get("OPTIONS", {}), **options}}

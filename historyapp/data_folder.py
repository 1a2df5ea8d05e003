"""The data folder: where it is, and whether Playhead has stored anything in it."""

from pathlib import Path

from historyapp import env

SQLITE_FILE = "playhead.sqlite3"
"""The name of the SQLite file in the folder."""


def data_folder() -> Path:
    """The folder that ``PLAYHEAD_HOME`` names, by default ``.playhead`` in the current folder."""
    return Path(env.text("PLAYHEAD_HOME", ".playhead")).expanduser().resolve()


def missing_data() -> str:
    """Why commands find no data, and what to do; empty if there is a database. Creates nothing."""
    has_url = any(map(env.text, ("DATABASE_URL", "DATABASE_URL_FILE")))
    if has_url or (data_folder() / SQLITE_FILE).exists():
        return ""
    return (
        f"There is no Playhead data in {data_folder()}. Run the command in the folder in which Playhead was "
        "started, or give its data folder with --home. `playhead up` starts Playhead with a new data folder."
    )

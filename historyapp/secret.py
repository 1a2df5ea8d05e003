"""The server's secret key, created once per installation."""

import os
import secrets
import tempfile
from pathlib import Path


def secret_key(path: Path) -> str:
    """The key in ``path``, created (mode 0600) if missing. Processes that start together get the same key."""
    if not path.exists():
        descriptor, draft = tempfile.mkstemp(prefix=".secret_key-", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process has created the key
        finally:
            Path(draft).unlink()
    return path.read_text(encoding="ascii").strip()

"""Serves static files from their packages. Names that contain a hash are cached forever.

Django's own hashed names need ``collectstatic`` and a writable folder. This works in a checkout, an installed
wheel and a read-only container, and takes a few milliseconds at start.
"""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from whitenoise.middleware import WhiteNoiseMiddleware


def hashed(name: str, path: str | Path) -> str:
    """``css/app.css`` → ``css/app.1f3a5b7c9d0e.css``, with a hash of the file at ``path``."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}.{digest}{dot}{suffix}" if dot and stem else f"{name}.{digest}"


class HashedStorage(StaticFilesStorage):
    """The storage that ``{% static %}`` uses."""

    def url(self, name: str | None) -> str:
        if settings.DEBUG or not name:
            return super().url(name)
        # A page with many icons has 40 of these addresses. Django parses the base address for each of them.
        if name not in self._urls:
            path = finders.find(name)
            if path is None:
                raise ValueError(f"There is no static file {name!r}.")
            self._urls[name] = super().url(hashed(name, path))
        return self._urls[name]

    @cached_property
    def _urls(self) -> dict[str, str]:
        return {}


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Serves each file under its own name, cached for a minute, and under its hashed name, cached forever."""

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: Any = None) -> None:
        super().add_file_to_dictionary(url, path, stat_cache=stat_cache)
        super().add_file_to_dictionary(hashed(url, path), path, stat_cache=stat_cache)

    def immutable_file_test(self, path: str, url: str) -> bool:
        return not url.endswith(Path(path).name)

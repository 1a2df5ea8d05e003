"""Serves static files from their packages. Names that contain a hash are cached forever.

Django's own hashed names need ``collectstatic`` and a writable folder. This works in a checkout, an installed
wheel and a read-only container, and takes a few milliseconds at start.

Files that pages load together are joined: the headers of 40 small files take more bytes than the files save.
"""

import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from io import BytesIO
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import NOT_ALLOWED_RESPONSE, Response

JOINED = {
    "joined/styles.css": [
        "css/tokens.css",
        "css/base.css",
        "css/controls.css",
        "css/sessions.css",
        "css/timeline.css",
        "css/session.css",
        "css/find.css",
        "css/replay.css",
        "css/step.css",
        "css/tools.css",
        "css/context.css",
        "css/overview.css",
        "css/figures.css",
        "css/evaluations.css",
        "css/notes.css",
        "css/origins.css",
        "css/compression.css",
        "css/compare.css",
        "css/search.css",
        "css/sharing.css",
        "css/palette.css",
        "css/code.css",
    ],
    "joined/page.js": ["js/page.js", "js/presses.js", "js/copy.js", "js/times.js"],
    "joined/session.js": [
        "js/playhead.js",
        "js/bars.js",
        "js/key_table.js",
        "js/keys.js",
        "js/replay.js",
        "js/timeline.js",
        "js/panes.js",
        "js/pane_tabs.js",
        "js/folds.js",
        "js/live.js",
        "js/find.js",
        "js/context.js",
        "js/summaries.js",
        "js/notes.js",
        "js/origins.js",
    ],
}
"""The names of the files that pages load together, in their order. A script is a module without imports."""


def hashed(name: str, content: bytes) -> str:
    """``css/app.css`` → ``css/app.1f3a5b7c9d0e.css``, with a hash of the content."""
    digest = hashlib.sha256(content).hexdigest()[:12]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}.{digest}{dot}{suffix}" if dot and stem else f"{name}.{digest}"


def content_of(name: str) -> bytes:
    """The content of a static file, or of joined ones.

    Raises:
        ValueError: when there is no such file.
    """
    if name in JOINED:
        join = _join_scripts if name.endswith(".js") else b"".join
        return join([content_of(part) for part in JOINED[name]])
    path = finders.find(name)
    if path is None:
        raise ValueError(f"There is no static file {name!r}.")
    return Path(path).read_bytes()


def _join_scripts(modules: list[bytes]) -> bytes:
    """Each module keeps names of its own, and an error in one does not stop the next one."""
    return b"".join([b"try {\n%s} catch (error) { reportError(error); }\n" % module for module in modules])


class HashedStorage(StaticFilesStorage):
    """The storage that ``{% static %}`` uses."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._urls = dict[str, str]()

    def url(self, name: str | None) -> str:
        if settings.DEBUG or not name:
            return super().url(name)
        # A page with many icons has 40 of these addresses. Django parses the base address for each of them.
        if name not in self._urls:
            self._urls[name] = super().url(hashed(name, content_of(name)))
        return self._urls[name]


class JoinedFile:
    """Serves joined files. WhiteNoise's files are each on a disk.

    Args:
        is_hashed: whether its address contains the hash, so that browsers can keep it for ever.
    """

    def __init__(self, name: str, *, is_hashed: bool) -> None:
        self._name = name
        age = "max-age=315360000, public, immutable" if is_hashed else "max-age=60, public"
        self._headers = [("Content-Type", f'{guess_type(name)[0]}; charset="utf-8"'), ("Cache-Control", age)]

    def get_response(self, method: str, _headers: Mapping[str, str]) -> Response:
        """As WhiteNoise's ``StaticFile`` does."""
        if method not in ("GET", "HEAD"):
            return NOT_ALLOWED_RESPONSE
        content = BytesIO(content_of(self._name)) if method == "GET" else None
        return Response(HTTPStatus.OK, self._headers, content)


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Serves each file under its own name, cached for a minute, and under its hashed name, cached forever."""

    def add_files_from_finders(self) -> None:
        super().add_files_from_finders()
        for name in JOINED:
            self.files[self.static_prefix + name] = JoinedFile(name, is_hashed=False)
            address = self.static_prefix + hashed(name, content_of(name))
            self.files[address] = JoinedFile(name, is_hashed=True)

    def find_file(self, url: str) -> Any:
        """With ``DEBUG``, files are looked up at each request, so that edits are seen."""
        name = url.removeprefix(self.static_prefix)
        return JoinedFile(name, is_hashed=False) if name in JOINED else super().find_file(url)

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: Any = None) -> None:
        super().add_file_to_dictionary(url, path, stat_cache=stat_cache)
        super().add_file_to_dictionary(hashed(url, Path(path).read_bytes()), path, stat_cache=stat_cache)

    def immutable_file_test(self, path: str, url: str) -> bool:
        return not url.endswith(Path(path).name)

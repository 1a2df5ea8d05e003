"""Converts an ASGI scope to a WSGI environment (PEP 3333)."""

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from historyapp.wire.problems import HeadTooLarge

Scope = dict[str, Any]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MAX_PATH = 4096
"""The maximum length of a path in bytes. Decoding 60 KB of escapes takes the event loop 8 ms."""
MAX_HEAD = 1 << 14
"""The maximum length of the query and the headers in bytes, without ``_ADDRESSES``, as in Node.js.
Django's parser of cookies takes 7 ms for 32 KB of semicolons, and may run for 200 strangers at once.
"""
MAX_ADDRESSES = 2 * MAX_HEAD
"""The maximum length of the headers ``_ADDRESSES`` in bytes. Browsers repeat the address of a page in them,
so a page with a long query could otherwise be opened, but not updated."""
MAX_MEDIA_TYPE = 1000
"""The maximum length of ``Content-Type`` in bytes. Django's parser takes 0.14 s for 16 KB of semicolons. That
of a form with files is about 70 bytes long."""
_ADDRESSES = (b"referer", b"hx-current-url")
MAX_NAME = 200
"""The maximum length of a header's name in bytes. Longer headers are left out, because names are cached."""
_CONSTANT = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
    "wsgi.input_terminated": True,
}


def check_head(scope: Scope) -> None:
    """Checks the length of a request's path, query and headers, before anything reads them.

    The event loop reads some of them, while all other clients wait.

    Raises:
        HeadTooLarge: if they are too long.
    """
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    if len(path) > MAX_PATH and (size := len(path.partition(b"?")[0])) > MAX_PATH:
        raise HeadTooLarge(f"The path has {size:,} bytes, but at most {MAX_PATH:,} are accepted. Shorten it.")
    headers = scope["headers"]
    addresses = sum(len(value) for name, value in headers if name in _ADDRESSES)
    if addresses > MAX_ADDRESSES:
        raise HeadTooLarge(
            f"The headers Referer and HX-Current-URL have {addresses:,} bytes, but at most "
            f"{MAX_ADDRESSES:,} are accepted. Leave them out."
        )
    media_type = sum(len(value) for name, value in headers if name == b"content-type")
    if media_type > MAX_MEDIA_TYPE:
        raise HeadTooLarge(
            f"The header Content-Type has {media_type:,} bytes, but at most {MAX_MEDIA_TYPE:,} are accepted. "
            "Shorten it."
        )
    size = len(query) + sum(len(name) + len(value) for name, value in headers) - addresses
    if size > MAX_HEAD:
        raise HeadTooLarge(
            f"The query and the headers have {size:,} bytes, but at most {MAX_HEAD:,} are accepted. Shorten "
            "them. In a browser, delete the cookies of this host: programs on other ports set some of them."
        )


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by lower-case name. Repeated headers are joined as RFC 9110 and RFC 6265 require."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in headers:
            value = headers[name] + (b"; " if name == b"cookie" else b",") + value
        headers[name] = value
    return headers


def environ_of(scope: Scope, headers: dict[bytes, bytes], body: IO[bytes]) -> dict[str, Any]:
    """The WSGI environment. Text is latin-1, as PEP 3333 requires."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = unquote_to_bytes(raw) if b"%" in raw else raw
    server, client = scope.get("server") or ("", 0), scope.get("client") or ("", 0)
    environ = {
        **_CONSTANT,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": path.partition(b"?")[0].decode("latin-1") if raw is path else path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": body,
    }
    for name, value in headers.items():
        if len(name) <= MAX_NAME and (variable := _variable(name)):
            environ[variable] = value.decode("latin-1")
    return environ


@lru_cache(maxsize=512)
def _variable(name: bytes) -> str:
    """The variable of a header. Empty for a name with an underscore, which could imitate another header."""
    if b"_" in name:
        return ""
    text = name.decode("latin-1").upper().replace("-", "_")
    return text if name in (b"content-type", b"content-length") else f"HTTP_{text}"

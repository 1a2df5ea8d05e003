"""The HTTP API as the commands use it, on a remote server or in this process.

Responses stay plain JSON: ``--json`` prints them unchanged, and loading pydantic takes 250 ms.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # its command line takes 170 ms to load

import httpx  # noqa: E402

from historyapp.terminal.errors import CommandFailed, Unreachable, WrongUsage  # noqa: E402
from historyapp.terminal.safe_text import safe_line  # noqa: E402

if TYPE_CHECKING:
    from historyapp.client import Playhead

ROOT = "/api/v1"
TIMEOUT_SECONDS = 30.0
MAX_ITEMS = 500
"""The maximum number of items on one page of the API."""
_KEY = re.compile(r"[!-~]{1,500}")
_UNAVAILABLE = (429, 502, 503, 504)
_MAX_ERROR = 2000
_MAX_BODY = 256 * 2**20
"""The maximum size of a response in memory, decompressed: 3 MB of gzip can hold 3 GB of blanks."""

JsonObject = dict[str, Any]


class Server:
    """One project of a Playhead server.

    Args:
        address: ``http://HOST:PORT`` or ``https://HOST``, with or without ``/api/v1``.
        key: an API key.
        transport: sends the requests; None: over the network.

    Raises:
        WrongUsage: when the address or the key is not valid.
    """

    def __init__(self, address: str, key: str, transport: httpx.BaseTransport | None = None) -> None:
        self.address = _checked_address(address)
        if not _KEY.fullmatch(key):
            raise WrongUsage("The API key must be visible ASCII characters without spaces, such as ph_…")
        self._key, self._transport = key, transport
        self.work: Callable[[str, float], bool] | None = None
        """On a local data folder: works on an evaluation for at most the given seconds. Returns whether there
        was work to do."""
        self._http = httpx.Client(
            base_url=self.address + ROOT,
            headers={"Authorization": f"Bearer {key}", "User-Agent": "playhead-terminal"},
            timeout=TIMEOUT_SECONDS,
            transport=transport,
        )

    def get(self, path: str, **query: Any) -> JsonObject:
        """The response to a GET. Query parameters that are None are left out."""
        params = {name: value for name, value in query.items() if value is not None}
        return self._request("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any]) -> JsonObject:
        """The response to a POST. Fields of the body that are None are left out."""
        content = {name: value for name, value in body.items() if value is not None}
        return self._request("POST", path, json=content, headers={"Idempotency-Key": uuid4().hex})

    def get_list(self, path: str, limit: int, *, at_once: int = MAX_ITEMS, **query: Any) -> JsonObject:
        """The first ``limit`` items of a list as one page. Its ``next`` is the cursor of the following items.

        Args:
            at_once: the largest page size of this list.
        """
        page = self.get(path, limit=min(limit, at_once), **query)
        while page["next"] is not None and len(page["items"]) < limit:
            page_size = min(limit - len(page["items"]), at_once)
            next_page = self.get(path, **{**query, "limit": page_size, "cursor": page["next"]})
            page = {**next_page, "items": [*page["items"], *next_page["items"]]}
        return page

    @contextmanager
    def download(
        self, path: str, *, media_type: str | None = None, **query: Any
    ) -> Iterator[Iterator[bytes]]:
        """The body of a response in chunks.

        Args:
            media_type: the requested type, or None for any type.

        Raises:
            Unreachable: also during reading, when the connection ends early.
        """
        params = {name: value for name, value in query.items() if value is not None}
        try:
            headers = {"Accept": media_type} if media_type else {}
            with self._http.stream("GET", path, params=params, headers=headers) as response:
                if not response.is_success:
                    raise self._error_of(response.status_code, self._read(response))
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def client(self) -> "Playhead":
        """The Python client for the same server, which follows streams of events."""
        from historyapp.client import Playhead

        return Playhead(self.address, self._key, transport=self._transport)

    def _request(self, method: str, path: str, **options: Any) -> JsonObject:
        try:
            with self._http.stream(method, path, **options) as response:
                body = self._read(response)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not response.is_success:
            raise self._error_of(response.status_code, body)
        content = _read_object(body)
        if content is None:
            raise Unreachable(
                f"{self.address} does not respond as a Playhead server does. Check the address."
            )
        return content

    def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > _MAX_BODY:
                raise Unreachable(f"{self.address} sends more than {_MAX_BODY // 2**20} MB. Ask for less.")
        return bytes(body)

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        reason = safe_line(str(error)) or type(error).__name__
        return Unreachable(
            f"{self.address} cannot be reached: {reason}. Check the address, and that Playhead runs there."
        )

    def _error_of(self, status: int, body: bytes) -> CommandFailed:
        problem = _read_object(body) or {}
        detail = safe_line(str(problem.get("detail") or problem.get("title") or ""))[:_MAX_ERROR]
        if status in _UNAVAILABLE:
            detail = detail or f"{self.address} responded with status {status}."
            return Unreachable(f"{detail} Run the command again later.")
        if not detail:
            return Unreachable(
                f"{self.address} responded with status {status}, but not as Playhead does. Check the address."
            )
        return WrongUsage(detail) if status == 422 else CommandFailed(detail)


def api_path(*parts: object) -> str:
    """A path of the API, with each part escaped."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def _read_object(body: bytes) -> JsonObject | None:
    """The JSON object of a response, or None if the body is not an object."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _checked_address(address: str) -> str:
    try:
        parts = urlsplit(address.strip())
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        httpx.URL(address.strip())
    except (ValueError, httpx.InvalidURL):
        is_valid = False
    if not is_valid or parts.query or parts.fragment:
        raise WrongUsage(
            f"{safe_line(address)!r} is not the address of a server. Use http://HOST:PORT or https://HOST."
        )
    return address.strip().rstrip("/").removesuffix(ROOT)

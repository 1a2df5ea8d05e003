"""Clients of the official SDKs, created at the first model call and cached by key and base URL.

Keys come from the environment and are passed only to the SDKs. The SDKs' own retries are disabled, see
``retries``.
"""

import gc
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import Any

from historyapp.core.errors import Invalid
from historyapp.llm.network import http_client


@dataclass(frozen=True, slots=True, repr=False)
class Sdk:
    """A provider's SDK and a client of it."""

    module: ModuleType
    """Both SDKs use the same names for their exceptions and for ``Stream``."""
    client: Any
    key: str


@dataclass(frozen=True, slots=True)
class SdkSource:
    """Creates a provider's :class:`Sdk`."""

    package: str
    client: str
    access: Callable[[], tuple[str, str]]
    """Returns the key and the address in the environment, without importing the SDK, which takes a second.
    Raises ``Invalid`` if the key is missing, or one of them is malformed. The error names the variable."""

    def __call__(self) -> Sdk:
        """Raises ``Invalid`` as ``access``."""
        return _shared_sdk(self.package, self.client, *self.access())


def _openai_access() -> tuple[str, str]:
    """For OpenAI, or the compatible server that ``OPENAI_BASE_URL`` names (with its ``/v1``)."""
    key = _key("OPENAI_API_KEY", os.environ.get("OPENAI_API_KEY"))
    return key, _url("OPENAI_BASE_URL", os.environ.get("OPENAI_BASE_URL"), "https://api.openai.com/v1")


def _anthropic_access() -> tuple[str, str]:
    """For Anthropic, or the compatible server that ``ANTHROPIC_BASE_URL`` names (without ``/v1``)."""
    key = _key("ANTHROPIC_API_KEY", os.environ.get("ANTHROPIC_API_KEY"))
    url = _url("ANTHROPIC_BASE_URL", os.environ.get("ANTHROPIC_BASE_URL"), "https://api.anthropic.com")
    return key, url


openai_sdk = SdkSource("openai", "OpenAI", _openai_access)
anthropic_sdk = SdkSource("anthropic", "Anthropic", _anthropic_access)

_locks = {"openai": Lock(), "anthropic": Lock()}
"""Calls of one provider do not wait for the import of the other's SDK, which takes seconds."""


def _shared_sdk(package: str, client: str, key: str, url: str) -> Sdk:
    """The SDK with its client, created once by one thread: reading the certificates takes 20 ms of computing,
    and many calls can begin at the same time."""
    with _locks[package]:
        return _create_sdk(package, client, key, url)


@lru_cache(maxsize=4)
def _create_sdk(package: str, client: str, key: str, url: str) -> Sdk:
    with _without_collector():
        module = import_module(package)
    options = {"api_key": key, "base_url": url, "max_retries": 0, "http_client": http_client(module)}
    return Sdk(module, getattr(module, client)(**options), key)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pauses the garbage collector while modules are imported: each of its runs would stop all threads."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


def _key(variable: str, value: str | None) -> str:
    key = (value or "").strip()
    if not key:
        raise Invalid(f"There is no key for this model's provider: set {variable}.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise Invalid(f"{variable} is not a key: it must be ASCII characters without spaces.")
    return key


def _url(variable: str, value: str | None, default: str) -> str:
    url = (value or "").strip() or default
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise Invalid(f"{variable} must look like {default}.")
    return url

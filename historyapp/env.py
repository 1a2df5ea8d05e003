"""Typed settings from environment variables. Errors are one sentence and name the variable."""

import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.http.request import split_domain_port

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SECRETS = (
    "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "PLAYHEAD_API_KEY", "PLAYHEAD_METRICS_TOKEN", "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
)  # fmt: skip
"""Variables that :func:`read_secrets` takes from files."""
_SIZE = re.compile(r"(\d{1,15})\s*([KMG]?)(?:i?B)?", re.IGNORECASE)


def text(name: str, default: str = "") -> str:
    """The variable without surrounding space. An empty variable counts as unset."""
    return os.environ.get(name, "").strip() or default


def read_secrets() -> None:
    """Sets each of ``SECRETS`` from the file that ``NAME_FILE`` names, as container runtimes mount secrets.

    If the variable itself is set, it takes precedence.
    """
    for name in SECRETS:
        path = text(f"{name}_FILE")
        if not path or text(name):
            continue
        try:
            os.environ[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:  # a UnicodeDecodeError would repeat the secret
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ImproperlyConfigured(f"{name}_FILE={path} cannot be read: {reason}.") from None


def boolean(name: str, default: bool = False) -> bool:
    """``1 true yes on`` or ``0 false no off``, in any case."""
    value = text(name).lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}.")


def choice(name: str, options: Sequence[str], default: str = "") -> str:
    """One of ``options`` (upper case), written in any case."""
    value = text(name, default).upper()
    if value and value not in options:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(options)}, not {value!r}.")
    return value


def size(name: str, default: int) -> int:
    """Bytes: a whole number with an optional binary unit, as in ``33554432``, ``32M`` or ``32 MiB``."""
    value = text(name)
    if not value:
        return default
    match = _SIZE.fullmatch(value)
    if match is None or int(match[1]) == 0:
        raise ImproperlyConfigured(f"{name} must be a size such as 33554432 or 32M, not {value!r}.")
    return int(match[1]) * _UNITS[match[2].upper()]


def number(name: str, default: int, minimum: int = 1, maximum: int = 1_000_000) -> int:
    """A whole number within its bounds."""
    value = text(name)
    if not value:
        return default
    if not value.isascii() or not value.isdecimal() or not minimum <= int(value[:20]) <= maximum:
        raise ImproperlyConfigured(
            f"{name} must be a whole number from {minimum} to {maximum:,}, not {value!r}."
        )
    return int(value)


def redis(name: str) -> str:
    """A ``redis://`` or ``rediss://`` address, or an empty string. The error never repeats it."""
    value = text(name)
    if value and not re.fullmatch(r"rediss?://\S+", value):
        raise ImproperlyConfigured(f"{name} must look like redis://[:password@]host:6379/0.")
    return value


def rates(name: str) -> dict[str, str]:
    """``provider=calls/period`` pairs, as in ``openai=500/minute, anthropic=50/minute``."""
    rates = {}
    for word in words(name):
        provider, _, rate = word.partition("=")
        if not provider or not re.fullmatch(r"[1-9]\d{0,8}/(second|minute|hour|day)", rate):
            raise ImproperlyConfigured(f"{name} must look like openai=500/minute, not {word!r}.")
        rates[provider] = rate
    return rates


def file(name: str) -> Path | None:
    """The path of a readable file, or None."""
    value = text(name)
    if not value:
        return None
    path = Path(value).expanduser().resolve()
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise ImproperlyConfigured(f"{name} must name a file that can be read, not {value!r}.")
    return path


def words(name: str) -> list[str]:
    """A list separated by commas or spaces."""
    return [word for word in re.split(r"[,\s]+", text(name)) if word]


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Networks as in ``10.0.0.0/8, 127.0.0.1``, or ``true`` for all; empty: none."""
    if text(name).lower() in {"", "0", "1", "true", "false", "yes", "no", "on", "off"}:
        return [ip_network("0.0.0.0/0"), ip_network("::/0")] if boolean(name) else []
    try:
        return [ip_network(word) for word in words(name)]
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} must be true, false, or networks such as 10.0.0.0/8: {error}."
        ) from None


def origin(name: str) -> str:
    """``scheme://host[:port]`` without a path, or an empty string."""
    value = text(name).rstrip("/")
    if value and not is_origin(value):
        raise ImproperlyConfigured(f"{name} must look like https://playhead.example.org, not {value!r}.")
    return value


def is_origin(value: str) -> bool:
    """Whether a text is ``http`` or ``https``, a host that a request can name, and at most a port."""
    try:
        parts = urlsplit(value)
        is_complete = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:
        return False
    return (
        is_complete
        and split_domain_port(parts.netloc)[0] != ""
        and value == f"{parts.scheme}://{parts.netloc}"
    )


def token(name: str) -> str:
    """A secret that fits in an HTTP header, or an empty string. The error never repeats its value."""
    value = text(name)
    if value and not re.fullmatch(r"[\x21-\x7e]{16,200}", value):
        raise ImproperlyConfigured(f"{name} must be 16 to 200 ASCII characters without spaces.")
    return value

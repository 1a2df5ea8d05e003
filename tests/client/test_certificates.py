"""All clients of a process share the trusted certificates, because loading them takes 20 ms."""

import ssl
from typing import Any

import pytest

from historyapp.client import AsyncPlayhead, Playhead


@pytest.mark.parametrize("kind", [Playhead, AsyncPlayhead])
def test_a_further_client_loads_no_certificates_and_trusts_no_other(
    kind: type[Playhead] | type[AsyncPlayhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind("https://127.0.0.1:9", "ph_any")
    monkeypatch.delattr("ssl.create_default_context")
    transport: Any = kind("https://127.0.0.1:9", "ph_any")._http._transport
    used = transport._pool._ssl_context
    assert used.verify_mode == ssl.CERT_REQUIRED
    assert used.check_hostname

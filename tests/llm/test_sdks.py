"""Keys and addresses."""

import gc
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from historyapp.core.errors import Invalid
from historyapp.llm import sdks
from historyapp.llm.errors import TimedOut
from historyapp.llm.request import TimeLimits
from historyapp.llm.sdks import Sdk, anthropic_sdk, openai_sdk
from historyapp.llm.transport import Connection, Deadline

VARIABLES = [("OPENAI", openai_sdk), ("ANTHROPIC", anthropic_sdk)]


def test_the_sdks_are_not_imported_before_a_call() -> None:
    code = (
        "import sys, historyapp.llm.model_calls, historyapp.llm.completions\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'django') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_calls_that_begin_together_create_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client reads the system's certificates, which takes 20 ms of computing."""
    created = list[str]()

    def make_client(api_key: str, **options: Any) -> object:
        time.sleep(0.05)
        created.append(api_key)
        return object()

    monkeypatch.setattr(sdks, "import_module", lambda package: SimpleNamespace(OpenAI=make_client))
    monkeypatch.setattr(sdks, "http_client", lambda module: None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-together")
    with ThreadPoolExecutor(4) as threads:
        clients = {id(sdk.client) for sdk in threads.map(lambda _: openai_sdk(), range(4))}
    assert created == ["sk-together"]
    assert len(clients) == 1


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_pauses_while_an_sdk_is_imported(
    was_enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    during = list[bool]()

    def import_module(package: str) -> object:
        during.append(gc.isenabled())
        return SimpleNamespace(Anthropic=lambda **options: object())

    monkeypatch.setattr(sdks, "import_module", import_module)
    monkeypatch.setattr(sdks, "http_client", lambda module: None)
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"sk-collector-{was_enabled}")
    try:
        (gc.enable if was_enabled else gc.disable)()
        anthropic_sdk()
        assert (during, gc.isenabled()) == ([False], was_enabled)
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize(("vendor", "sdk"), VARIABLES)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_named(
    vendor: str, sdk: object, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{vendor}_API_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv(f"{vendor}_API_KEY", value)
    with pytest.raises(Invalid, match=f"set {vendor}_API_KEY"):
        sdk()  # type: ignore[operator]


@pytest.mark.parametrize(("vendor", "sdk"), VARIABLES)
@pytest.mark.parametrize("value", ["sk-two words", "sk-ключ", "sk-line\nX-Evil: 1"])
def test_an_invalid_key_is_refused_and_not_repeated(
    vendor: str, sdk: object, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{vendor}_API_KEY", value)
    with pytest.raises(Invalid, match=f"{vendor}_API_KEY is not a key") as caught:
        sdk()  # type: ignore[operator]
    assert "sk-" not in caught.value.detail


@pytest.mark.parametrize(("vendor", "sdk"), VARIABLES)
@pytest.mark.parametrize(
    "value", ["example.org", "ftp://example.org", "http://", "http://me:secret@example.org"]
)
def test_an_invalid_address_is_refused_and_not_repeated(
    vendor: str, sdk: object, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{vendor}_API_KEY", "sk-1")
    monkeypatch.setenv(f"{vendor}_BASE_URL", value)
    with pytest.raises(Invalid, match=f"{vendor}_BASE_URL must look like") as caught:
        sdk()  # type: ignore[operator]
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize(("vendor", "sdk"), VARIABLES)
def test_a_client_is_made_once_for_each_key(
    vendor: str, sdk: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{vendor}_BASE_URL", "http://127.0.0.1:9")
    made = []
    for key in ("sk-one", "sk-one", "sk-two"):
        monkeypatch.setenv(f"{vendor}_API_KEY", key)
        made.append(sdk())  # type: ignore[operator]
    assert made[0] is made[1]
    assert made[0].client is not made[2].client
    assert "sk-one" not in repr(made[0])


@pytest.mark.parametrize(("vendor", "sdk"), VARIABLES)
def test_connections_through_a_proxy_have_the_same_limits(
    vendor: str, sdk: Callable[[], Sdk], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv(f"{vendor}_API_KEY", "sk-proxy")
        monkeypatch.setenv(f"{vendor}_BASE_URL", "http://models.example/v1")
        connection = Connection(sdk(), vendor, Deadline(TimeLimits(connect=5, read=5, total=0.1)))
        with pytest.raises(TimedOut, match=r"longer than 0\.1 seconds"):
            connection.post("/x", {})

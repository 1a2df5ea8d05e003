"""Environment variables become Django's settings; the defaults are safe."""

import runpy
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from historyapp import settings as loaded

VARIABLES = ("ALLOWED_HOSTS", "DATABASE_URL", "DEBUG", "PLAYHEAD_BASE_URL", "PLAYHEAD_MAX_BODY", "SECRET_KEY")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLAYHEAD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def settings() -> dict[str, Any]:
    return runpy.run_path(loaded.__file__)


def test_only_the_owner_can_read_the_data_folder(home: Path) -> None:
    assert settings()["PLAYHEAD_HOME"] == home
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_data_folder_is_found_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLAYHEAD_HOME")
    monkeypatch.chdir(tmp_path)
    assert settings()["PLAYHEAD_HOME"] == tmp_path / ".playhead"


def test_the_error_of_a_data_folder_that_cannot_be_created_names_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write_text("a file is in the way")
    monkeypatch.setenv("PLAYHEAD_HOME", str(home / "below"))
    with pytest.raises(ImproperlyConfigured, match=f"PLAYHEAD_HOME={home}/below cannot be used"):
        settings()


def test_the_secret_key_survives_a_restart() -> None:
    assert settings()["SECRET_KEY"] == settings()["SECRET_KEY"]


def test_a_secret_key_from_the_environment_leaves_no_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "given by the operator")
    assert settings()["SECRET_KEY"] == "given by the operator"
    assert list(home.iterdir()) == []


def test_debugging_is_off_and_only_local_hosts_are_allowed_by_default() -> None:
    read = settings()
    assert read["DEBUG"] is False
    assert read["ALLOWED_HOSTS"] == ["localhost", "127.0.0.1", "[::1]"]
    assert read["SESSION_COOKIE_SECURE"] is False


def test_a_public_https_address_is_allowed_trusted_and_gets_secure_cookies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLAYHEAD_BASE_URL", "https://playhead.example:8443")
    read = settings()
    assert "playhead.example" in read["ALLOWED_HOSTS"]
    assert read["CSRF_TRUSTED_ORIGINS"] == ["https://playhead.example:8443"]
    assert read["SESSION_COOKIE_SECURE"] is True
    assert read["CSRF_COOKIE_SECURE"] is True


def test_the_body_limit_also_applies_to_django(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_MAX_BODY", "2M")
    assert settings()["DATA_UPLOAD_MAX_MEMORY_SIZE"] == settings()["PLAYHEAD_MAX_BODY"] == 2 << 20


def test_no_page_may_run_inline_scripts_or_be_framed() -> None:
    directives = settings()["CONTENT_SECURITY_POLICY"]["DIRECTIVES"]
    assert not any("unsafe" in str(source) for sources in directives.values() for source in sources)
    assert directives["default-src"] == directives["frame-ancestors"] == ["'none'"]


def test_a_transaction_may_take_less_time_than_writes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings()["PLAYHEAD_TRANSACTION_SECONDS"] == 5
    monkeypatch.setenv("PLAYHEAD_WRITE_SECONDS", "4")
    assert settings()["PLAYHEAD_TRANSACTION_SECONDS"] == 2
    monkeypatch.setenv("PLAYHEAD_TRANSACTION_SECONDS", "3")
    assert settings()["PLAYHEAD_TRANSACTION_SECONDS"] == 3
    for value in ("4", "9", "0", "soon"):
        monkeypatch.setenv("PLAYHEAD_TRANSACTION_SECONDS", value)
        with pytest.raises(ImproperlyConfigured, match="PLAYHEAD_TRANSACTION_SECONDS"):
            settings()

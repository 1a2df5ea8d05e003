"""The secret key is created once, readable only by its owner."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from historyapp.secret import secret_key


def test_the_key_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    assert secret_key(path) == secret_key(path)
    assert len(secret_key(path)) >= 50


def test_only_the_owner_can_read_the_key(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    secret_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: secret_key(tmp_path / "secret_key"), range(64)))
    assert len(keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]

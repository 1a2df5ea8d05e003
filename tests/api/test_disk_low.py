"""While the disk is nearly full, requests that store more than they send are refused, and appends are not."""

from types import SimpleNamespace
from typing import Any

import pytest

from historyapp.core.usage import MAX_MODELS
from historyapp.services.disk_space import check_disk_space
from historyapp.wire.problems import DiskLow
from tests.api.agent import Agent
from tests.api.test_problems import assert_problem

GB = 1 << 30


def set_free(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 100 * GB) -> None:
    disk = SimpleNamespace(free=free, total=total)
    monkeypatch.setattr("historyapp.services.disk_space.shutil.disk_usage", lambda _: disk)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/forks", {}),
        ("/rewinds", {}),
        ("/rewinds/3/undo", {}),
        ("/contexts", {}),
        ("/compressions", {"from_step": 1, "to_step": 1}),
        ("/comparisons", {"from_step": 1, "to_step": 1, "sides": [{"strategy": "simple_extract"}] * 2}),
    ],
)
def test_derived_data_is_not_stored(
    run: Agent, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    run.step("ls", 1)
    assert run.post("/rewinds", {"to_position": 2}).status == 201
    set_free(monkeypatch, GB - 1)
    before = run.get("").body
    assert_problem(run.post(path, body), 507, "PLAYHEAD_DISK_ALARM")
    assert run.get("").body == before


def test_appends_and_unrecorded_contexts_go_on(run: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 0)
    run.step("ls", 1)
    assert run.post("/contexts", {"record": False}).status == 200
    assert_problem(run.post("/contexts", {}), 507, "Send `record: false`")


@pytest.mark.parametrize(("models", "status"), [(4, 201), (MAX_MODELS, 507)])
def test_appends_that_would_store_long_totals_of_many_models_are_refused(
    run: Agent, monkeypatch: pytest.MonkeyPatch, models: int, status: int
) -> None:
    """Each entry stores them, so 48 bytes would become more than a thousand."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    usage = dict.fromkeys(names, 9_999_999_990)
    outputs = [
        {
            "kind": "model_output",
            "text": "a",
            "metadata": {"model": f"a-provider/a-name-of-a-model-of-46-characters-{number}", "usage": usage},
        }
        for number in range(models)
    ]
    assert run.post("/entries", {"entries": outputs}).status == 201
    set_free(monkeypatch, 0)
    notes = [{"kind": "debug_log", "category": "", "message": ""}] * 100
    assert run.post("/entries", {"entries": notes}).status == status
    assert run.post("/entries", {"entries": notes[:10]}).status == 201


def test_a_small_disk_needs_a_tenth_of_its_space(monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, GB // 5, total=2 * GB)
    check_disk_space()
    set_free(monkeypatch, GB // 5 - 1, total=2 * GB)
    with pytest.raises(DiskLow, match="has 214,748,363 bytes"):
        check_disk_space()

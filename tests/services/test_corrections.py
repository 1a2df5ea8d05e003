"""Usage corrects token counts, for each model of each project."""

import pytest

from historyapp.models import Project
from historyapp.services.corrections import BilledCall, correction_of, learned_factor, update_corrections


def factor(project: Project, model: str) -> float | None:
    return learned_factor(correction_of(project.pk, model))


def test_no_factor_is_known_before_the_first_model_call(project: Project) -> None:
    assert correction_of(project.pk, "llama-9") is None
    assert factor(project, "llama-9") is None
    assert correction_of(project.pk, "") is None


def test_the_factor_covers_all_model_calls_and_is_rounded_up(project: Project) -> None:
    update_corrections(project.pk, [BilledCall("llama-9", 1000, 1100, 1200)])
    calls = [BilledCall("llama-9", 1000, 1200, 1101), BilledCall("llama-9", 2000, 2400, 2200)]
    update_corrections(project.pk, calls)
    known = correction_of(project.pk, "llama-9")
    assert known is not None
    assert known.calls == 3
    assert learned_factor(known) == 1.13
    assert known.error == pytest.approx((100 + 299) / 4501)


def test_each_model_and_each_project_has_its_own_factor(project: Project) -> None:
    other = Project.objects.create(name="Charlie's")
    update_corrections(project.pk, [BilledCall("llama-9", 100, 100, 150)])
    assert factor(project, "llama-8") is None
    assert factor(other, "llama-9") is None


def test_exact_counts_stay_exact_and_show_their_error(project: Project) -> None:
    update_corrections(project.pk, [BilledCall("gpt-5", 100, 100, 104)])
    assert factor(project, "gpt-5") is None
    known = correction_of(project.pk, "gpt-5")
    assert known is not None
    assert known.error == pytest.approx(4 / 104)


@pytest.mark.parametrize(("ours", "billed"), [(100, 0), (100, 49), (100, 401), (0, 100), (100, 10**12)])
def test_usage_of_another_request_does_not_change_the_factor(
    project: Project, ours: int, billed: int
) -> None:
    update_corrections(project.pk, [BilledCall("llama-9", ours, ours, billed)])
    assert correction_of(project.pk, "llama-9") is None

"""Results made to fit."""

from bench.quality.costs import METER
from historyapp.core.policies.clipping import clip_result

LONG = "\n".join(
    [*(f"{number} collected the same file" for number in range(30_000)), "1 failed: the total\n"]
)


def test_a_long_result_fills_its_room() -> None:
    clipped = clip_result(LONG, 20_000, 1, METER)
    assert 15_000 < METER.text(clipped) <= 20_000


def test_a_clipped_long_result_keeps_its_first_and_its_last_line() -> None:
    for room in (200, 2_000, 20_000):
        clipped = clip_result(LONG, room, 1, METER)
        assert clipped.startswith("0 collected the same file\n")
        assert "\n1 failed: the total\n[clipped: step 1 has it all]" in clipped
        assert METER.text(clipped) <= room

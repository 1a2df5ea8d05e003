"""Money is printed with the date of the prices."""

import pytest

from historyapp.services.prices import money_text


@pytest.mark.parametrize(
    ("micros", "as_of", "printed"),
    [
        (2_100, "2025-11-30", "for $0.0021 at the prices of 2025-11-30"),
        (0, "2025-11-30", "for $0.00 at the prices of 2025-11-30"),
        (2_100, "", "for $0.0021"),
        (None, "2025-11-30", "at a price that is not in the list of 2025-11-30"),
        (None, "", "at an unknown price"),
    ],
)
def test_money_is_printed_with_the_date_of_the_prices(micros: int | None, as_of: str, printed: str) -> None:
    assert money_text(micros, as_of) == printed

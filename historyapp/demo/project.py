"""The small project that the demo's agent repairs: an invoice library with two bugs and tests for them."""

README = """\
# tally

Invoices for a small shop: lines, a discount and tax.

Run the tests with `python -m unittest discover`.
"""

MONEY = '''\
"""Amounts of money as decimals, never as floats."""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def parse_amount(text: str) -> Decimal:
    """The amount that a person typed, such as ``12.50`` or ``1,299.50``."""
    return Decimal(text.strip())


def to_cents(amount: Decimal) -> Decimal:
    """Rounded to whole cents, halves up, as the tax office does it."""
    return amount.quantize(CENT, ROUND_HALF_UP)
'''

INVOICE = '''\
"""Invoices: lines, a discount on all of them, and tax."""

from dataclasses import dataclass, field
from decimal import Decimal

from tally.money import to_cents


@dataclass(frozen=True)
class Line:
    name: str
    price: Decimal
    quantity: int = 1


@dataclass
class Invoice:
    tax_rate: Decimal
    discount_rate: Decimal = Decimal(0)
    lines: list[Line] = field(default_factory=list)

    @property
    def net(self) -> Decimal:
        return sum((line.price * line.quantity for line in self.lines), Decimal(0))

    @property
    def discount(self) -> Decimal:
        return to_cents(self.net * self.discount_rate)

    @property
    def tax(self) -> Decimal:
        return to_cents(self.net * self.tax_rate)

    @property
    def total(self) -> Decimal:
        return to_cents(self.net - self.discount + self.tax)
'''

TEST_MONEY = """\
import unittest
from decimal import Decimal

from tally.money import parse_amount, to_cents


class MoneyTest(unittest.TestCase):
    def test_a_plain_amount(self):
        self.assertEqual(parse_amount(" 12.50 "), Decimal("12.50"))

    def test_an_amount_with_a_thousands_separator(self):
        self.assertEqual(parse_amount("1,299.50"), Decimal("1299.50"))

    def test_halves_round_up(self):
        self.assertEqual(to_cents(Decimal("0.125")), Decimal("0.13"))
"""

TEST_INVOICE = """\
import unittest
from decimal import Decimal

from tally.invoice import Invoice, Line


def two_lamps(discount="0"):
    return Invoice(Decimal("0.19"), Decimal(discount), [Line("lamp", Decimal("50.00"), 2)])


class InvoiceTest(unittest.TestCase):
    def test_without_a_discount(self):
        self.assertEqual(two_lamps().total, Decimal("119.00"))

    def test_tax_is_on_the_discounted_price(self):
        self.assertEqual(two_lamps(discount="0.10").tax, Decimal("17.10"))

    def test_the_parts_add_up_to_the_total(self):
        invoice = two_lamps(discount="0.10")
        self.assertEqual(invoice.net - invoice.discount + invoice.tax, invoice.total)

    def test_an_empty_invoice_costs_nothing(self):
        self.assertEqual(Invoice(Decimal("0.19")).total, Decimal("0.00"))
"""

FILES = {
    "README.md": README,
    "tally/__init__.py": "",
    "tally/money.py": MONEY,
    "tally/invoice.py": INVOICE,
    "tests/__init__.py": "",
    "tests/test_money.py": TEST_MONEY,
    "tests/test_invoice.py": TEST_INVOICE,
}

"""The ledgers that the demo's auditor reads: three years, by month, with five hidden faults."""

from decimal import Decimal
from random import Random

YEARS = ("2023", "2024", "2025")
HIDDEN_FAULTS = ("2023-07", "2024-02", "2024-11", "2025-03", "2025-09")
"""In this order: swapped digits, a letter among the digits, a wrong encoding, a missing file, a double
booking."""

_ACCOUNTS = ("rent", "wages", "paper", "post", "sales", "repairs", "power", "insurance", "travel", "training")


def months(year: str) -> list[str]:
    """``2023-01`` to ``2023-12``."""
    return [f"{year}-{month:02}" for month in range(1, 13)]


def ledger_files() -> dict[str, bytes]:
    """``{path: content}`` of every ledger. The content is always the same."""
    random = Random(20230101)  # noqa: S311  (sample data, the same each time)
    opening = Decimal("10000.00")
    files: dict[str, bytes] = {}
    for month in (month for year in YEARS for month in months(year)):
        rows, closing = _month(month, opening, random)
        content = _with_fault(month, rows, closing)
        if content is not None:
            files[f"ledger/{month}.csv"] = content
        opening = closing
    return files


def _month(month: str, opening: Decimal, random: Random) -> tuple[list[str], Decimal]:
    """The rows ``date,reference,account,amount``, beginning with the opening balance, and the closing
    balance."""
    rows, balance = [f"{month}-01,opening,,{opening}"], opening
    days = sorted(random.randint(1, 28) for _ in range(random.randint(6, 30)))
    for number, day in enumerate(days, start=1):
        amount = Decimal(random.randint(-90000, 100000)) / 100
        balance += amount
        rows.append(f"{month}-{day:02},{month}/{number:02},{random.choice(_ACCOUNTS)},{amount:.2f}")
    return rows, balance


def _with_fault(month: str, rows: list[str], closing: Decimal) -> bytes | None:
    """The file's content, or None for the missing month."""
    encoding = "utf-8"
    match month:
        case "2023-07":
            closing += Decimal("27.00")
        case "2024-02":
            rows[3] = rows[3].rsplit(",", 1)[0] + ",1O4.50"
        case "2024-11":
            date, reference, _, amount = rows[2].split(",")
            rows[2], encoding = f"{date},{reference},café,{amount}", "latin-1"
        case "2025-03":
            return None
        case "2025-09":
            rows.insert(5, rows[4])
    lines = ("date,reference,account,amount", *rows, f"{month}-28,closing,,{closing}")
    return "".join(f"{line}\n" for line in lines).encode(encoding)

"""A short session with parallel tool calls, errors, an interruption, a rewind, a summary and a fork."""

from pathlib import Path

import httpx

from historyapp.demo import project
from historyapp.demo.agent import ScriptedAgent, ScriptedToolCall
from historyapp.demo.recorder import DemoRecorder
from historyapp.demo.tools import Toolbox

INSTRUCTION = """\
You repair small Python projects. Look before you edit, run the tests after every edit, and never change a \
test to make it pass. Ask the user when the intent is unclear. Say what you changed and why."""

NOTEBOOK = """\
- Project: tally, invoices for a small shop
- Tests: run_tests runs all of them
- Two reports from the shop: amounts over 1,000 are refused; discounted invoices come out too high"""

ANSWERS = {
    "Is tax due": "On what the customer really pays, so after the discount.",
    "Which version": "1.4.1, it only repairs things.",
}

PARSE = ("    return Decimal(text.strip())", '    return Decimal(text.strip().replace(",", ""))')
TAX = ("to_cents(self.net * self.tax_rate)", "to_cents((self.net - self.discount) * self.tax_rate)")
TOTAL = (
    "to_cents(self.net - self.discount + self.tax)",
    "to_cents((self.net + self.tax) * (1 - self.discount_rate))",
)
EXPECTED = ('Decimal("17.10")', 'Decimal("19.00")')
TAXABLE = (
    """\
    @property
    def tax(self) -> Decimal:
        return to_cents(self.net * self.tax_rate)
""",
    '''\
    @property
    def taxable(self) -> Decimal:
        """What tax is due on; the tax report adds it up."""
        return self.net - self.discount

    @property
    def tax(self) -> Decimal:
        return to_cents(self.taxable * self.tax_rate)
''',
)
TAXABLE_TEST = (
    "    def test_an_empty_invoice_costs_nothing(self):",
    """\
    def test_the_taxable_amount_is_after_the_discount(self):
        self.assertEqual(two_lamps(discount="0.10").taxable, Decimal("90.00"))

    def test_an_empty_invoice_costs_nothing(self):""",
)

CHANGES = """\
# Changes

## 1.4.1

- Amounts with a thousands separator, such as 1,299.50, are read.
- Tax is on the discounted price.
"""


def run(api: httpx.Client, folder: Path) -> list[str]:
    """Records the session and its fork. Returns their ids."""
    tools = Toolbox(folder, ANSWERS)
    tools.fill({name: text.encode() for name, text in project.FILES.items()})
    agent = ScriptedAgent.start(
        api,
        "repair",
        tools,
        title="Repair the invoice totals in tally",
        agent="repair-agent",
        tags=["demo", "python", "bugfix"],
    )
    look_around(agent)
    repair_amounts(agent)
    before_tax = agent.checkpoint()
    try_a_wrong_repair(agent)
    agent.session.post("rewinds", episodes=2, reason="The total was right by accident; tax was still wrong.")
    agent.return_to(before_tax)
    repair_tax(agent)
    agent.return_to(before_tax)
    fork = repair_in_fork(agent)
    return [agent.session.id, fork.id]


def look_around(agent: ScriptedAgent) -> None:
    """Steps 1 to 5."""
    agent.begin(
        INSTRUCTION,
        NOTEBOOK,
        "The shop says that invoice totals are wrong, see the notebook. Please find out why and repair it.",
    )
    agent.act("First, what is there?", "list_folder", path=".")
    agent.act_in_parallel(
        "Three files matter for a start; they can be read at once.",
        ScriptedToolCall("read_file", {"path": "README.md"}),
        ScriptedToolCall("read_file", {"path": "tally/money.py"}),
        ScriptedToolCall("read_file", {"path": "tally/invoice.py"}),
    )
    agent.act("Do the tests already show the two reports?", "run_tests")
    agent.act("Discounts may have a module of their own.", "read_file", path="tally/discount.py")
    agent.act("They do not. Where is the discount used, then?", "grep", pattern="discount", path="tally")


def repair_amounts(agent: ScriptedAgent) -> None:
    """Steps 6 to 8, the last of them stopped by the user, and a summary of the first five."""
    agent.act(
        "parse_amount passes the comma to Decimal, which refuses it. Take separators out first.",
        "edit_file",
        path="tally/money.py",
        old_string=PARSE[0],
        new_string=PARSE[1],
    )
    agent.act("One failure should be gone.", "run_tests")
    agent.propose(
        "The invoice computes 19.00 of tax where the test wants 17.10. Perhaps the test is out of date.",
        "edit_file",
        path="tests/test_invoice.py",
        old_string=EXPECTED[0],
        new_string=EXPECTED[1],
    )
    agent.interrupt("No: the tests are right, the tax office checked those figures. Repair the invoice.")
    agent.session.post(
        "summaries",
        from_step=1,
        to_step=5,
        text=(
            "tally has two modules, money.py and invoice.py, and seven tests. Two fail: parse_amount refuses "
            "1,299.50 (Decimal takes no comma), and tax is computed on the price before the discount. "
            "There is no module for discounts; invoice.py does it all."
        ),
    )


def try_a_wrong_repair(agent: ScriptedAgent) -> None:
    """Steps 9 and 10, which the rewind turns into a take."""
    agent.act(
        "Taking the discount off the total as a whole gives 107.10, which is what the customer should pay.",
        "edit_file",
        path="tally/invoice.py",
        old_string=TOTAL[0],
        new_string=TOTAL[1],
    )
    agent.act("Is everything green now?", "run_tests")


def repair_tax(agent: ScriptedAgent) -> None:
    """Steps 9 to 15, after the rewind."""
    agent.act("Better to ask than to guess.", "ask_user", question="Is tax due before or after the discount?")
    agent.act(
        "So tax is on net minus discount, and the total follows from its parts.",
        "edit_file",
        path="tally/invoice.py",
        old_string=TAX[0],
        new_string=TAX[1],
    )
    agent.act("All seven should pass.", "run_tests")
    agent.write_notebook(
        f"{NOTEBOOK}\n- Both repaired; the user confirmed that tax is due after the discount"
    )
    agent.act("The shop will want to know.", "ask_user", question="Which version will this be?")
    agent.act("Write it down.", "write_file", path="CHANGES.md", content=CHANGES)
    agent.answer(
        "Tests pass, changes are written down.",
        "Both reports are repaired, and all seven tests pass:\n\n"
        "- `tally/money.py`: `parse_amount` takes thousands separators out before it reads the number.\n"
        "- `tally/invoice.py`: tax is computed on the price **after** the discount, as you confirmed.\n\n"
        "`CHANGES.md` says so for version 1.4.1. No test was changed.",
    )
    agent.receive("Thank you. Does any other code compute tax?")
    agent.act("A search tells.", "grep", pattern="tax", path="tally")
    agent.answer(
        "Only the invoice does.", "No. Only `tally/invoice.py` does, and everything goes through it."
    )
    agent.session.finish()


def repair_in_fork(agent: ScriptedAgent) -> DemoRecorder:
    """The fork: the same first eight steps, another design."""
    fork = agent.session.fork(at_step=8, title="Repair the invoice totals, with a taxable amount")
    other = ScriptedAgent(fork, agent.tools)
    other.return_to(agent.checkpoint())
    other.receive("Try it with a property for the taxable amount: the tax report could use that too.")
    for thoughts, path, (old, new) in (
        ("Name the amount that tax is due on.", "tally/invoice.py", TAXABLE),
        ("A property that others use deserves a test.", "tests/test_invoice.py", TAXABLE_TEST),
    ):
        other.act(thoughts, "edit_file", path=path, old_string=old, new_string=new)
    other.act("Eight tests now.", "run_tests")
    other.answer(
        "Green.",
        "`Invoice.taxable` is the price after the discount, `tax` is computed from it, and a test says so. "
        "All eight tests pass.",
    )
    fork.finish()
    return fork

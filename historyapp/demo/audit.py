"""A long session: three years of ledgers, read and checked one by one."""

from pathlib import Path

import httpx

from historyapp.demo.agent import ScriptedAgent, ScriptedToolCall
from historyapp.demo.ledgers import HIDDEN_FAULTS, YEARS, ledger_files, months
from historyapp.demo.tools import Toolbox

INSTRUCTION = """\
You audit ledgers. Read every file before you check it, look closer at whatever does not balance, and report \
facts: file, line, figure. Correct nothing yourself."""

ODD = r"[^ -~]|,-?[0-9]*[A-Za-z][A-Za-z0-9.]*$|closing"
"""Lines with non-ASCII characters or letters in the amount, and the closing balance."""

Faults = dict[str, str]
"""For each faulty month, why the check fails."""


def run(api: httpx.Client, folder: Path) -> list[str]:
    """Records the session and returns its id."""
    tools = Toolbox(folder)
    tools.fill(ledger_files())
    agent = ScriptedAgent.start(
        api,
        "audit",
        tools,
        title="Audit the ledgers of 2023 to 2025",
        agent="ledger-auditor",
        tags=["demo", "audit", "finance"],
    )
    agent.begin(
        INSTRUCTION,
        "Nothing checked yet.",
        "Please check all monthly ledgers of 2023 to 2025: does each add up, and is one missing?",
    )
    agent.act("How many are there?", "list_folder", path="ledger")
    steps, faults = 1, Faults()
    for year in YEARS:
        taken, year_faults = check_year(agent, year)
        faults |= year_faults
        agent.write_notebook(f"Checked up to December {year}. Faulty so far: {', '.join(faults)}.")
        agent.session.post(
            "summaries",
            from_step=steps + 1,
            to_step=steps + taken,
            text=f"All ledgers of {year} were read and checked. "
            f"Faulty: {', '.join(year_faults)}; the others balance.",
            key_points=[f"{month}: {reason}" for month, reason in year_faults.items()],
        )
        steps += taken
    answer_and_review(agent, faults)
    agent.session.finish()
    return [agent.session.id]


def check_year(agent: ScriptedAgent, year: str) -> tuple[int, Faults]:
    """Checks twelve months. Returns the number of steps and the faults."""
    steps, faults = 0, Faults()
    for month in months(year):
        path = f"ledger/{month}.csv"
        agent.act(f"{month}: read it first.", "read_file", path=path)
        checked = agent.act(f"{month}: does it add up?", "check_ledger", path=path)
        steps += 2
        if checked["status"] == "error":
            faults[month] = checked["reason"]
            agent.act_in_parallel(
                f"{month} fails. Which of its lines are odd, and is it mentioned elsewhere?",
                ScriptedToolCall("grep", {"pattern": ODD, "path": path}),
                ScriptedToolCall("grep", {"pattern": f"{month}/0[1-5]", "path": "ledger"}),
            )
            steps += 1
    return steps, faults


def answer_and_review(agent: ScriptedAgent, faults: Faults) -> None:
    """Records the final answer, and a review that says how many of the hidden faults it names."""
    total = sum(len(months(year)) for year in YEARS)
    lines = [f"- **{month}**: {reason}" for month, reason in faults.items()]
    agent.answer(
        "Every month is checked.",
        f"{total - len(faults)} of {total} months check out. These do not:\n\n" + "\n".join(lines),
    )
    score = len(set(faults) & set(HIDDEN_FAULTS)) / len(HIDDEN_FAULTS)
    body = {
        "kind": "review",
        "analysis": f"Names {len(faults)} months; {len(HIDDEN_FAULTS)} hold a hidden fault.",
        "score": score,
        "passed": score == 1 and len(faults) == len(HIDDEN_FAULTS),
    }
    agent.session.post("entries", entries=[body])

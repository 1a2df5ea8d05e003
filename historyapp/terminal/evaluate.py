"""``playhead evaluate``: measures how much of what the next actions used is in contexts."""

import time
from argparse import ArgumentTypeError, Namespace
from typing import Any

from historyapp.management.exit_codes import FAILED
from historyapp.terminal.errors import CommandFailed, WrongUsage
from historyapp.terminal.output import Column, Output, dollars_text, note, progress_bar
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import JsonObject, Server, api_path
from historyapp.terminal.sessions import find_session

AGENT_SESSIONS = 20
"""The maximum number of an agent's sessions that are evaluated."""
_WAIT_SECONDS = 1.0
_MAX_NAMED = 5
_CAUTION = (
    "Recall is the share of the identifiers in the next action that were in the context. It does not say "
    "whether the agent would have done better. docs/evaluate.md lists further limits."
)
COLUMNS = (
    Column("Policy"),
    Column("Budget", number=True),
    Column("Recall", number=True),
    Column("Grounded", number=True),
    Column("Behind the best", number=True),
    Column("Tokens", number=True),
    Column("Cached", number=True),
    Column("Cost of 1,000", number=True),
    Column("Refused", number=True),
)


def evaluate(server: Server, output: Output, options: Namespace) -> int | None:
    """Starts an evaluation, waits for it and prints its results.

    The exit code is 1 if nothing was measured.
    """
    evaluation = _read(server, options.result) if options.result else _start(server, options)
    if options.wait:
        evaluation = _wait(server, evaluation)
    if options.json:
        output.json(evaluation)
    elif evaluation["state"] == "running":
        output.line(f"The evaluation is running: playhead evaluate --result {evaluation['id']}")
    else:
        _print_results(output, evaluation)
    is_over = evaluation["state"] != "running"
    return FAILED if is_over and evaluation["results"] is None else None


def number_list(text: str) -> list[int]:
    """Parses budgets in tokens, separated by commas."""
    try:
        numbers = [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 <= number < 2**31 for number in numbers):
        raise ArgumentTypeError(f"{text!r} is not a list of budgets such as 2000,8000")
    return numbers


def _start(server: Server, options: Namespace) -> JsonObject:
    if bool(options.sessions) == bool(options.agent):
        raise WrongUsage("Name sessions, or an agent with --agent.")
    if options.agent:
        page = server.get("/sessions", agent=options.agent, limit=AGENT_SESSIONS)
        ids = [item["id"] for item in page["items"]]
        if not ids:
            raise CommandFailed(f"There is no session of the agent {safe_line(options.agent)}.")
    else:
        ids = [find_session(server, name)["id"] for name in options.sessions]
    policies = options.policies.split(",") if options.policies else None
    body = {"sessions": ids, "budgets": options.budgets, "policies": policies, "model": options.model}
    return server.post("/evaluations", body)


def _read(server: Server, id: str) -> JsonObject:
    return server.get(api_path("evaluations", id))


def _wait(server: Server, evaluation: JsonObject) -> JsonObject:
    """Waits until the evaluation ends, and returns it. On a local data folder, this process does the work."""
    id, pause = evaluation["id"], 0.1
    try:
        with progress_bar("Evaluating") as set_share:
            while evaluation["state"] == "running":
                set_share(evaluation["progress"])
                if server.work is None or not server.work(id, _WAIT_SECONDS):
                    time.sleep(pause)
                    pause = min(2 * pause, _WAIT_SECONDS)
                evaluation = _read(server, id)
    except KeyboardInterrupt:
        note(f"The evaluation was not cancelled. `playhead evaluate --result {id}` waits for it again.")
        raise
    return evaluation


def _print_results(output: Output, evaluation: JsonObject) -> None:
    results = evaluation["results"]
    if results is None:
        note("Nothing could be measured.")
    else:
        steps = f"{results['steps']:,} step{'' if results['steps'] == 1 else 's'}"
        sessions = f"{results['sessions']:,} session{'' if results['sessions'] == 1 else 's'}"
        output.line(f"{steps} of {sessions}. In parentheses: 95 % intervals.")
        output.line()
        output.table(COLUMNS, [_row(choice) for choice in results["choices"]])
        output.line()
        _print_recommendation(output, evaluation)
        for caution in results["cautions"]:
            note(caution)
        note(_CAUTION)
    unmeasured = [item for item in evaluation["items"] if item["state"] in ("skipped", "failed")]
    for item in unmeasured[:_MAX_NAMED]:
        note(f"{item['session'][:13]} {item['title'][:60]}: {item['state']}. {item['reason']}")
    if len(unmeasured) > _MAX_NAMED:
        note(f"{len(unmeasured) - _MAX_NAMED} more sessions were skipped or failed. --json names them.")


def _print_recommendation(output: Output, evaluation: JsonObject) -> None:
    recommendation = evaluation["results"]["recommendation"]
    if recommendation is None:
        output.line("No policy and budget can be recommended.")
        return
    name = f"{recommendation['policy']} with {recommendation['max_tokens']:,} tokens"
    output.line("Recommended: ", (name, "bold"), f". {safe_line(recommendation['reason'])}")
    if any(choice["money"] != "unknown" for choice in evaluation["results"]["choices"]):
        output.line(f"Prices as of {evaluation['prices_as_of']}.")


def _row(choice: JsonObject) -> list[str]:
    money = choice["money"]
    behind: JsonObject = choice["behind"]
    points = [f"{100 * behind[name]:+.1f}" for name in ("mean", "low", "high")]
    is_best = not any(behind[name] for name in ("mean", "low", "high"))
    return [
        safe_line(choice["policy"]),
        f"{choice['max_tokens']:,}",
        _interval_text(choice["recall"]),
        _interval_text(choice["grounded"]),
        "" if is_best else f"{points[0]} ({points[1]} to {points[2]})",
        f"{choice['tokens']:,.0f}",
        f"{100 * choice['cached']:.0f} %",
        "unknown" if isinstance(money, str) else dollars_text(1000 * money),
        f"{choice['refused']:,}" if choice["refused"] else "",
    ]


def _interval_text(interval: dict[str, Any]) -> str:
    return f"{100 * interval['mean']:.1f} % ({100 * interval['low']:.0f}–{100 * interval['high']:.0f})"

"""``playhead show``: a session, some of its steps, or one complete step."""

import json
import re
from argparse import ArgumentTypeError, Namespace
from typing import Any, NamedTuple

from historyapp.terminal.errors import WrongUsage
from historyapp.terminal.output import (
    STYLES,
    Column,
    Output,
    dollars_text,
    duration_text,
    note,
    seconds_text,
    time_text,
    tokens_text,
)
from historyapp.terminal.safe_text import safe_line, safe_text
from historyapp.terminal.server import JsonObject, Server, api_path
from historyapp.terminal.sessions import find_session

NEWEST_SHOWN = 20
"""The number of steps shown without ``--steps``."""
MAX_SHOWN = 100_000
_RANGE = re.compile(r"(\d{1,9})?-(\d{1,9})?|(\d{1,9})")
COLUMNS = (
    Column("Step", number=True),
    Column("Outcome"),
    Column("Call", flexible=True),
    Column("Result", flexible=True),
    Column("Tokens", number=True),
    Column("Time", number=True),
)


class StepRange(NamedTuple):
    """A range of steps, both ends included."""

    first: int
    last: int | None
    """The last step, or None for the newest step."""


def step_range(text: str) -> StepRange:
    """The type of ``--steps``: ``3``, ``3-7``, ``3-`` or ``-7``."""
    match = _RANGE.fullmatch(text)
    if match is None or text == "-":
        raise ArgumentTypeError(f"{text!r} is not a range of steps, such as 3-7, 3-, -7 or 3")
    first, last, single = match.groups()
    if single:
        return StepRange(int(single), int(single))
    return StepRange(int(first or 1), int(last) if last else None)


def show(server: Server, output: Output, options: Namespace) -> None:
    session = find_session(server, options.session)
    if options.step is not None and options.steps is not None:
        raise WrongUsage("Give a step or --steps, not both.")
    if options.step is not None:
        step = server.get(api_path("sessions", session["id"], "episodes", options.step))
        output.json(step) if options.json else print_step(output, step)
    elif options.json and options.steps is None and not options.full:
        output.json(session)
    else:
        _show_steps(server, output, options, session)


def _show_steps(server: Server, output: Output, options: Namespace, session: JsonObject) -> None:
    steps = options.steps or StepRange(max(1, session["steps"] - NEWEST_SHOWN + 1), None)
    if steps.first > (steps.last or max(1, session["steps"])) or steps.first < 1:
        raise WrongUsage(f"The session has steps 1 to {session['steps']}. Give --steps within them.")
    query: dict[str, Any] = {
        "from": steps.first,
        "to": steps.last,
        "full": "true" if options.full else None,
    }
    page = server.get_list(api_path("sessions", session["id"], "episodes"), MAX_SHOWN, **query)
    if options.json:
        output.json(page)
        return
    if options.steps is None:
        print_head(output, session)
        output.line()
    if options.full:
        for step in page["items"]:
            print_step(output, step)
            output.line()
    else:
        output.table(COLUMNS, [step_cells(step) for step in page["items"]])
    if options.steps is None and steps.first > 1:
        note(
            f"These are the newest {len(page['items'])} of {session['steps']:,} steps. --steps shows others."
        )


def print_head(output: Output, session: JsonObject) -> None:
    """Prints a session's description and figures in a few lines."""
    output.line((safe_line(session["title"]) or "(untitled)", "bold"))
    agent_and_model = ", ".join(filter(None, (session["agent"], session["model"])))
    output.line((session["id"], "dim"), f"  {safe_line(agent_and_model)}")
    counts = {"step": session["steps"], "error": session["errors"]}
    figures = [f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items()]
    tokens, source = session["shown_tokens"], session["token_source"]
    figures.append(f"{tokens_text(tokens, source)} {'tokens in' if source == 'reported' else 'tokens'}")
    if session["shown_cost"]:
        figures.append(dollars_text(session["shown_cost"], session["cost_is_minimum"]))
    output.line((session["status"], STYLES.get(session["status"], "")), f"  {', '.join(figures)}")
    if session["tags"]:
        output.line(f"tags: {safe_line(', '.join(session['tags']))}")
    if session["forked_from"]:
        output.line(f"fork of {session['forked_from']}; the figures include the steps that both share")
    start, end = session["first_entry_at"], session["last_entry_at"]
    if start:
        output.line(f"{time_text(start)} to {time_text(end)}  {seconds_text(session['duration'])}")
    elif end:
        output.line(time_text(end))


def step_cells(step: JsonObject) -> list[str]:
    """The cells of a step for :data:`COLUMNS`."""
    failure = step["error_line"] if step["likely_failure"] or step["status"] == "error" else ""
    outcome = "likely failure" if step["likely_failure"] else step["status"]
    action = step["call_preview"] or step["thought_preview"]
    duration = duration_text(step["started_at"], step["finished_at"])
    result = failure or step["result_preview"]
    return [f"{step['number']:,}", outcome, action, result, f"{step['tokens']:,}", duration]


def print_step(output: Output, step: JsonObject) -> None:
    """Prints a complete step: the thoughts, the tool calls and the results."""
    style = STYLES.get(step["status"], "")
    time, duration = time_text(step["started_at"]), duration_text(step["started_at"], step["finished_at"])
    facts = "  ".join(filter(None, (f"{step['tokens']:,} tokens", time, duration)))
    output.line((f"Step {step['number']}", "bold"), "  ", (step["status"], style), f"  {facts}")
    if step["likely_failure"]:
        output.line(("likely failure: ", "red"), safe_line(step["error_line"]))
    _print_part(output, "Thought", _text_of(step["thoughts"]))
    tool_calls = step["tool_calls"] or ([step["action"]] if step["action"] else [])
    for tool_call in tool_calls:
        _print_part(output, f"Call {safe_line(tool_call['name'])}", _arguments_of(tool_call["arguments"]))
    if result := step["result"]:
        parts = (result.get(name) for name in ("outputs", "reason", "feedback"))
        text = "\n".join(_text_of(part) for part in parts if part not in (None, ""))
        if error := result.get("error"):
            text += f"\n{error['exception_type']}: {error['message']}"
        _print_part(output, f"Result {result['status']}", text.strip("\n"))
    if step["summary"]:
        _print_part(output, "Summary", step["summary"])


def _print_part(output: Output, title: str, text: str) -> None:
    if not text and not title.startswith(("Call", "Result")):
        return
    output.line((title, "bold"))
    for line in safe_text(text).split("\n") if text else ():
        output.line(f"  {line}")


def _arguments_of(arguments: Any) -> str:
    """The arguments on one line each. Values of several lines are below their names."""
    if not isinstance(arguments, dict):
        return _text_of(arguments)
    lines = []
    for name, value in arguments.items():
        text = _text_of(value)
        indented = text.rstrip("\n").replace("\n", "\n    ")
        lines.append(f"{name}:\n    {indented}" if "\n" in text else f"{name}: {text}")
    return "\n".join(lines)


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

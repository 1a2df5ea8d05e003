"""``playhead compare``: two sessions, forks, takes or points in time side by side."""

import re
from argparse import Namespace

from historyapp.management.exit_codes import FAILED
from historyapp.terminal.output import STYLES, Column, Output, dollars_text, note, seconds_text, tokens_text
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import MAX_ITEMS, JsonObject, Server
from historyapp.terminal.sessions import find_session
from historyapp.terminal.step_diff import print_diffs

PAIRS_SHOWN = 20
"""The number of pairs shown from the first difference on, without ``--all``."""
PAIRS_BEFORE = 2
"""The number of pairs shown before the first difference."""
MAX_PAIRS = 100_000
TOTALS = (
    Column("Run"),
    Column("Title", flexible=True),
    Column("Steps", number=True),
    Column("Errors", number=True),
    Column("Likely failed", number=True),
    Column("Tokens in", number=True),
    Column("Cost", number=True),
    Column("Time", number=True),
)
PAIRS = (
    Column("A", number=True),
    Column("B", number=True),
    Column("Change"),
    Column("Differs"),
    Column("Call and result of A", flexible=True),
    Column("Call and result of B", flexible=True),
)
_COUNTS = {
    "same": "same",
    "different_call": "different call",
    "different_result": "different result",
    "only_a": "only A",
    "only_b": "only B",
}
_SUFFIX = re.compile("[@/]")
DIVERGENT = {"call", "answer"}
"""The differences in what the agent did, as in :mod:`historyapp.services.step_pairs`."""
TEXTS = DIVERGENT | {"result"}
"""The differences in the texts of the table."""
LEAD = 20
"""Characters shown before the first difference of two texts."""
_CHANGE = {"same": "", "different": "different", "only_a": "only A", "only_b": "only B"}


def compare(server: Server, output: Output, options: Namespace) -> int:
    """Prints the comparison. The exit code is 1 if the runs differ."""
    sides = {}
    for side, reference in (("a", options.a), ("b", options.b)):
        # Only the session is resolved; a suffix (``@12``, ``/takes/40``) stays.
        session = _SUFFIX.split(reference, maxsplit=1)[0]
        sides[side] = f"{find_session(server, session)['id']}{reference[len(session) :]}"
    comparison = server.get("/compare", **sides, limit=MAX_ITEMS)
    pairs = comparison["pairs"]["items"]
    if options.all and comparison["pairs"]["next"]:
        cursor = comparison["pairs"]["next"]
        more = server.get_list("/compare/pairs", MAX_PAIRS, a=sides["a"], b=sides["b"], cursor=cursor)
        pairs = [*pairs, *more["items"]]
        comparison["pairs"] = {"items": pairs, "next": more["next"]}
    if options.json:
        output.json(comparison)
    else:
        _print_comparison(output, comparison, pairs, options)
        for pair in _differing_pairs(pairs):
            print_diffs(output, server, comparison, pair)
    return FAILED if comparison["first_difference"] else 0


def _print_comparison(
    output: Output, comparison: JsonObject, pairs: list[JsonObject], options: Namespace
) -> None:
    output.table(TOTALS, [_totals_cells("A", comparison["a"]), _totals_cells("B", comparison["b"])])
    output.line()
    shared = comparison["common"]["steps"]
    output.line(f"Shared from the beginning: {shared:,} {'step' if shared == 1 else 'steps'}.")
    counts = comparison["counts"]
    figures = ", ".join(f"{counts[name]:,} {title}" for name, title in _COUNTS.items())
    output.line(f"After them: {figures}.")
    if not counts["complete"]:
        output.line("Only the first 2,000 steps of each run are counted.")
    if not comparison["first_difference"]:
        output.line("The runs do not differ." if counts["complete"] else "These pairs do not differ.")
        return
    difference = comparison["first_difference"]
    divergence = comparison["first_divergence"] or difference
    if difference != divergence:
        output.line((f"The first difference, an input or a result, is at {_steps_text(difference)}.", "bold"))
    heading = "The runs diverge" if comparison["first_divergence"] else "The runs first differ"
    ended = "".join(f", where {side.upper()} has ended" for side in ("a", "b") if divergence[side] is None)
    output.line((f"{heading} at {_steps_text(divergence)}{ended}.", "bold"))
    output.line()
    shown = pairs if options.all else _pairs_around(pairs, divergence)
    output.table(PAIRS, [_pair_cells(pair) for pair in shown])
    if len(shown) < len(pairs) or comparison["pairs"]["next"]:
        note("These are the pairs around the first difference. --all shows the others.")


def _steps_text(place: JsonObject) -> str:
    """The steps of a place; a run that has ended there has none."""
    return " and ".join(
        f"step {place[side]:,} of {side.upper()}" for side in ("a", "b") if place[side] is not None
    )


def _pairs_around(pairs: list[JsonObject], divergence: JsonObject) -> list[JsonObject]:
    """The pairs around the first difference, and those of the steps at which the runs diverge."""
    first_different = next((index for index, pair in enumerate(pairs) if pair["change"] != "same"), 0)
    nearby = slice(max(0, first_different - PAIRS_BEFORE), first_different + PAIRS_SHOWN)
    shown = pairs[nearby]
    # The runs can diverge in two pairs: one with a step of A, one with a step of B.
    diverging = [
        pair
        for pair in pairs
        if any(pair[side] is not None and pair[side]["number"] == divergence[side] for side in ("a", "b"))
    ]
    return [*shown, *(pair for pair in diverging if pair not in shown)]


def _differing_pairs(pairs: list[JsonObject]) -> list[JsonObject]:
    """The first two matching steps that differ, and the first ones that differ in what the agent did."""
    different = [pair for pair in pairs if pair["change"] == "different"]
    divergent = [pair for pair in different if not DIVERGENT.isdisjoint(pair["differs"])]
    first, diverging = different[:1], divergent[:1]
    return first if first == diverging else [*first, *diverging]


def _totals_cells(name: str, side: JsonObject) -> list[str]:
    totals = side["totals"]
    figures = [f"{totals[figure]:,}" for figure in ("steps", "errors", "likely_failures")]
    tokens = tokens_text(totals["tokens"], totals["token_source"])
    money = "" if totals["money"] is None else dollars_text(totals["money"], totals["money_is_minimum"])
    time = seconds_text(totals["seconds"])
    at = "" if side["as_of"] is None else f"@{side['as_of']}"
    return [f"{name} {side['session'][:13]}{at}", side["title"], *figures, tokens, money, time]


def _pair_cells(pair: JsonObject) -> list[str]:
    numbers = [f"{pair[side]['number']:,}" if pair[side] else "" for side in ("a", "b")]
    change, differs = _CHANGE[pair["change"]], ", ".join(pair["differs"])
    texts = [_step_text(pair[side]) for side in ("a", "b")]
    if not TEXTS.isdisjoint(pair["differs"]):
        texts = _from_difference(*texts)
    return [*numbers, change, differs, *texts]


def _from_difference(a: str, b: str) -> list[str]:
    """Both texts from shortly before the first difference: the table cuts long texts at their ends."""
    if a == b:
        return [f"(begins the same) {a}", f"(begins the same) {b}"]
    pairs = enumerate(zip(a, b, strict=False))
    same = next((index for index, (one, other) in pairs if one != other), min(len(a), len(b)))
    start = max(0, same - LEAD)
    return [f"…{text[start:]}" for text in (a, b)] if start > 1 else [a, b]


def _step_text(step: JsonObject | None) -> str:
    if step is None:
        return ""
    status = step["status"] if step["status"] in STYLES and step["status"] != "success" else ""
    return safe_line("  →  ".join(filter(None, (step["call_preview"], status, step["result_preview"]))))

"""The line diffs of two steps that ``playhead compare`` prints: as on the page that compares two runs."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from historyapp.terminal.output import Output
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import JsonObject, Server, api_path
from historyapp.terminal.value_text import value_text

MAX_LINES = 20
"""Lines shown of the diff of one text."""
MAX_TEXTS = 8
"""Texts of two steps whose diffs are shown."""
MAX_CALLS = 20
"""Parallel tool calls of a step that are compared."""
MAX_ENTRIES = 100
_STYLES = {"-": "red", "+": "green", "@": "cyan", "\\": "dim"}
_OUTPUTS = ("model_output", "tool_results")
_INPUT_PARTS = ("text", "content", "message", "reason")
_RESULT_PARTS = ("reason", "outputs", "feedback")


class ComparedStep(NamedTuple):
    """A step of one run, with the entries before it if they are compared."""

    side: JsonObject
    step: JsonObject
    with_input: bool

    def texts(self, server: Server) -> dict[str, str]:
        """The texts by their labels."""
        path, as_of = api_path("sessions", self.side["session"], "entries"), self.side["as_of"]
        first, last = self.step["first_position"], self.step["last_position"]
        query = {"after": first - 1, "before": last + 1, "as_of": as_of, "limit": MAX_ENTRIES}
        entries = server.get(path, **query)["items"]
        texts = dict(_texts_of(entries))
        if self.with_input:
            query = {"before": first, "order": "newest", "as_of": as_of, "limit": MAX_ENTRIES}
            texts = {"input": _input_text(server.get(path, **query)["items"]), **texts}
        return texts


def print_diffs(output: Output, server: Server, comparison: JsonObject, pair: JsonObject) -> None:
    """Prints a short diff of each text that differs."""
    # Its own modules take 250 ms to load. Most commands need none of them.
    from historyapp.core.text_diff import text_diff

    with_input = "input" in pair["differs"]
    a, b = (ComparedStep(comparison[side], pair[side], with_input).texts(server) for side in ("a", "b"))
    differing = [label for label in dict.fromkeys([*a, *b]) if a.get(label, "") != b.get(label, "")]
    if not differing:
        return
    output.line()
    numbers = f"step {pair['a']['number']:,} of A (-) and step {pair['b']['number']:,} of B (+)"
    output.line((f"Differences of {numbers}:", "bold"))
    for label in differing[:MAX_TEXTS]:
        output.line((safe_line(label), "bold"))
        lines = text_diff(a.get(label, ""), b.get(label, "")).split("\n")
        if lines == [""]:
            output.line("  Only a line break at the end differs.")
            continue
        for line in lines[:MAX_LINES]:
            output.line("  ", (line, _STYLES.get(line[:1], "")))
        if len(lines) > MAX_LINES:
            output.line((f"  … {len(lines) - MAX_LINES:,} more lines", "dim"))
    if others := differing[MAX_TEXTS:]:
        output.line(f"These differ too: {safe_line(', '.join(others))}.")


def _texts_of(entries: list[JsonObject]) -> Iterator[tuple[str, str]]:
    """The texts of a step: of its tool calls, by argument, then the results and the answer."""
    outputs = [entry for entry in entries if entry["kind"] == "model_output"][:1]
    results = [result for entry in entries if entry["kind"] == "tool_results" for result in entry["results"]]
    for entry in outputs:
        calls = entry.get("tool_calls") or ([entry["use_tool"]] if entry.get("use_tool") else [])
        for number, (tool_call, result) in enumerate(islice(_paired(calls, results), MAX_CALLS), 1):
            prefix = f"call {number}: " if number > 1 else ""
            if tool_call:
                yield f"{prefix}tool", tool_call["name"]
                arguments = tool_call.get("arguments")
                named = arguments if isinstance(arguments, dict) else {"": arguments}
                for name, value in named.items():
                    yield f"{prefix}argument {name[:100]}".rstrip(), _text_of(value)
            if result:
                yield f"{prefix}result", _result_text(result)
        yield "answer", _text_of(entry.get("text"))


def _paired(
    calls: list[JsonObject], results: list[JsonObject]
) -> Iterator[tuple[JsonObject | None, JsonObject | None]]:
    """Each tool call with its result: the first with its id, or else the next one without a known id."""
    ids = {tool_call["id"] for tool_call in calls if tool_call.get("id")}
    by_id, others = dict[Any, JsonObject](), list[JsonObject]()
    for result in results:
        id = result.get("tool_call_id")
        if id in ids and id not in by_id:
            by_id[id] = result
        else:
            others.append(result)
    left = iter(others)
    for tool_call in calls:
        yield tool_call, by_id.get(tool_call.get("id")) or next(left, None)
    yield from ((None, result) for result in left)


def _result_text(result: JsonObject) -> str:
    parts = [_text_of(result.get(name)) for name in _RESULT_PARTS]
    if error := result.get("error"):
        parts.insert(1, f"{error['exception_type']}: {error['message']}")
    return "\n\n".join(filter(None, parts))


def _input_text(newest: list[JsonObject]) -> str:
    """The text of the inputs before a step."""
    texts: list[str] = []
    for entry in newest:
        if entry["kind"] in _OUTPUTS:
            break
        texts.append(_text_of(next((entry[name] for name in _INPUT_PARTS if entry.get(name)), "")))
    return "\n\n".join(filter(None, reversed(texts)))


def _text_of(value: Any) -> str:
    return value_text(value, "\n", 2)

"""A recorded request in sentences, for the API's notes and for the page."""

from historyapp.core.request_tokens import RequestTokens
from historyapp.services.recorded import RecordedRequest
from historyapp.services.recorded_changes import EXPIRES, RequestChanges

_SOURCES = {
    "snapshot": "The output names the snapshot of this request.",
    "served": "This is the newest context that Playhead served just before the step.",
    "transcript": "Rebuilt from the imported transcript.",
    "log": "The agent did not record its request. This is everything that was live before the step; "
    "what the agent left out is unknown.",
}


def notes(request: RecordedRequest, changes: RequestChanges | None) -> list[str]:
    """Everything that a reader should know about the figures."""
    found = [source_note(request), unseen_note(request.tokens), window_note(request)]
    return [note for note in (*found, change_note(request, changes), cache_note(request, changes)) if note]


def source_note(request: RecordedRequest) -> str:
    """How the request is known."""
    return _SOURCES[request.source]


def unseen_note(tokens: RequestTokens) -> str:
    """What is not in the log, and how well the count agrees with the provider's."""
    if tokens.anchor is None:
        return _difference(tokens)
    unseen = tokens.parts.get("unseen", 0)
    if unseen >= 0:
        note = f"About {_rounded(unseen):,} tokens of the request are not in the transcript: "
        note += "tools and system prompt"
        note += ", and what the agent added unseen." if tokens.jumps else "."
    else:
        note = f"The request had about {_rounded(-unseen):,} tokens fewer than the transcript holds: "
        note += "the agent left something out, and what is unknown."
    return f"{note} {_difference(tokens)}".strip()


def _rounded(tokens: int) -> int:
    """In hundreds, as the count is no better than that."""
    return round(tokens, -2) if tokens >= 1_000 else tokens


_NO_USAGE = "The usage of this model call is not recorded: the size of the whole request is unknown."
_CLOSE = 0.01
"""A difference that is an error of counting, as a share of the billed input."""


def _difference(tokens: RequestTokens) -> str:
    difference = tokens.difference
    if tokens.reported is None or difference is None:
        return _NO_USAGE
    if abs(difference) <= _CLOSE * tokens.reported.input:
        return f"Our count differs from the bill by {abs(difference):,} tokens." if difference else ""
    word = "more" if difference > 0 else "fewer"
    return f"The provider billed {abs(difference):,} tokens {word} than our count; the reason is unknown."


def window_note(request: RecordedRequest) -> str:
    """What older steps became."""
    first, window = request.first_step, request.window
    earlier = f"Steps 1 to {first - 1:,}" if first > 2 else "Step 1" if first == 2 else ""
    match window.begins:
        case "compaction":
            note = f"{earlier or 'What came before'} had been compacted by the agent and stood as a summary."
        case "cleared":
            note = f"{earlier or 'What came before'} had been cleared from the context."
        case "older":
            note = f"{earlier or 'Older entries'} would not fit into the model's window. "
            note += "Whether the model saw any of it is unknown."
        case _:
            note = ""
    if window.forgotten:
        note += f" The agent's condenser had left out {window.forgotten:,} entries."
    return note.strip()


def change_note(request: RecordedRequest, changes: RequestChanges | None) -> str:
    """What is new since the step before."""
    if changes is None:
        return "This is the first request of the session."
    before = request.step - 1
    match changes.place:
        case "history" if changes.first_byte is None or not request.snapshot:
            return f"The agent replaced its history since step {before:,}."
        case "instruction":
            return f"The instruction has changed since step {before:,} from byte {changes.first_byte:,} on."
        case "history":
            return f"The requests of step {before:,} and this one differ from byte {changes.first_byte:,} on."
    added = _added(request, changes)
    return f"{added} First byte that differs: the end of the request before. Nothing was lost."


def _added(request: RecordedRequest, changes: RequestChanges) -> str:
    before = request.step - 1
    said = sum(row.tokens for row in changes.new if row.kind == "model_output")
    results = sum(row.tokens for row in changes.new if row.kind == "tool_results")
    inputs = [row.tokens for row in changes.new if row.kind == "model_input"]
    parts = [f"the output of step {before:,} (+{said:,})"] if said else []
    parts += [f"its results (+{results:,})"] if results else []
    parts += [f"{len(inputs):,} input{'s' * (len(inputs) > 1)} (+{sum(inputs):,})"] if inputs else []
    words = ", ".join(parts) or "nothing with text"
    return f"New since step {before:,}: {words}."


def cache_note(request: RecordedRequest, changes: RequestChanges | None) -> str:
    """What the provider's cache held and why it missed, as far as that is known."""
    if request.reported is None or changes is None:
        return ""
    if changes.place != "end":
        return "The provider's cache ends where the request differs."
    if not changes.is_missed:
        return ""
    note = f"The requests agree, but the provider did not read {changes.missed:,} tokens from its cache. "
    if changes.pause > EXPIRES:
        return f"{note}The reason is unknown; {changes.pause:,.0f} minutes had passed since the step before."
    return f"{note}The reason is unknown."

"""Describes a recorded request in sentences, for the API and the page."""

from historyapp.core.dates import duration_text
from historyapp.core.request_tokens import BEGINNINGS, Part, Reason, RequestTokens
from historyapp.core.usage import cost_of, dollar_text
from historyapp.services.prices import price_list
from historyapp.services.recorded.changes import EXPIRES, RequestChanges
from historyapp.services.recorded.requests import RecordedRequest

PARTS: dict[Part, str] = {
    "unseen": "the unseen part",
    "instruction": "the instruction",
    "tools": "the tools",
    "notebook": "the notebook",
    "summary": "a summary",
    "person": "an input from a person",
    "harness": "an input of the agent's harness",
    "results": "the results",
    "assistant": "the output",
    "steps": "the text",
    "screen": "the live screen",
    "overhead": "the overhead",
    "removed": "the removed part",
}
"""The names of a request's parts in sentences."""
MIN_UNRECORDED = 100
"""Fewer tokens that are not recorded may be an error of counting."""
_REMOVALS: dict[Reason, str] = {
    "cleared": "Claude Code cleared old results.",
    "removed": "What was removed is not recorded. Agents remove old results, and providers remove the "
    "thoughts of earlier turns.",
    "resumed": "A new process of the agent built this request from its transcript, without other texts.",
    "model": "The model has changed: its system prompt is another one, and it does not receive the thoughts "
    "of the earlier model.",
}
"""Why tokens were removed."""
_MISSES: dict[Reason | None, str] = {
    "resumed": "A new process of the agent built the request; its system prompt and tools may differ.",
    "model": "The model has changed, and each model has a cache of its own.",
}
"""Why a provider did not read its cache although both requests begin with the same recorded bytes."""
_SOURCES = {
    "snapshot": "The step's output names the snapshot of this request.",
    "served": "This is the newest context that Playhead served before the step. The output does not name it.",
    "transcript": "This request is rebuilt from the imported transcript.",
    "log": "The agent did not record its request. This is everything that was live before the step. "
    "The agent may have left out some of it.",
}


def notes(request: RecordedRequest, changes: RequestChanges | None) -> list[str]:
    """All notes about a request."""
    texts = [source_note(request), unseen_note(request.tokens), window_note(request)]
    texts += [change_note(request, changes), cache_note(request, changes), cost_note(request, changes)]
    return [note for note in texts if note]


def source_note(request: RecordedRequest) -> str:
    """The source of the request."""
    return _SOURCES[request.source]


def unseen_note(tokens: RequestTokens) -> str:
    """The tokens that are not in the log, and the difference between our count and the provider's."""
    if tokens.anchor is None:
        return _difference(tokens)
    unseen = tokens.parts.get("unseen", 0)
    if unseen >= 0:
        note = f"About {_rounded(unseen):,} tokens of the request are not recorded: "
        note += "tools" if tokens.parts.get("instruction") else "tools and system prompt"
        reasons = {jump.reason for jump in tokens.jumps}
        note += ", files that inputs name with @" if "attached" in reasons else ""
        note += ", results of the provider's own tools" if "hosted" in reasons else ""
        note += ", and other text that the agent added." if "unknown" in reasons else "."
        note += _begun(tokens)
    else:
        note = f"The request had about {_rounded(-unseen):,} tokens fewer than the log. "
        note += "The agent left out parts of the log; which parts is unknown."
    return f"{note} {_difference(tokens)}".strip()


def unrecorded_tokens(request: RecordedRequest) -> int:
    """The tokens that the agent adds to a context that is built from the log, rounded; 0 if not known."""
    tokens = request.tokens
    unseen = tokens.parts.get("unseen", 0)
    return 0 if tokens.anchor is None or unseen < MIN_UNRECORDED else _rounded(unseen)


def unrecorded_note(request: RecordedRequest) -> str:
    """Names :func:`unrecorded_tokens`; empty if none are known."""
    tokens, unseen = request.tokens, unrecorded_tokens(request)
    if not unseen:
        return ""
    parts = "tools" if tokens.parts.get("instruction") else "system prompt and tools"
    note = f"The agent adds its {parts}" + (", and other text" if tokens.is_remainder else "")
    return f"{note}: about {unseen:,} tokens, by the request of step {request.step:,}."


def _begun(tokens: RequestTokens) -> str:
    """Why the unseen part is not the one of the window's first request."""
    newest = next((jump for jump in reversed(tokens.jumps) if jump.reason in BEGINNINGS), None)
    if newest is None:
        return ""
    cause = "a new process of the agent" if newest.reason == "resumed" else "a change of the model"
    return f" They were computed again after {cause}."


def _rounded(tokens: int) -> int:
    """Rounds to hundreds, which is the precision of the count."""
    return round(tokens, -2) if tokens >= 1_000 else tokens


_NO_USAGE = "The usage of this model call is not recorded, so the size of the whole request is unknown."
_ESTIMATED = (
    "The usage of this model call is not recorded. Its size is estimated from the last billed request."
)
_COUNTING_ERROR = 0.01
"""A smaller difference, as a share of the billed input or cost, is treated as an error of counting."""


def _difference(tokens: RequestTokens) -> str:
    difference = tokens.difference
    if tokens.reported is None or difference is None:
        return _NO_USAGE if tokens.anchor is None else _ESTIMATED
    if abs(difference) <= _COUNTING_ERROR * tokens.reported.input:
        return f"Playhead's count differs from the bill by {abs(difference):,} tokens." if difference else ""
    comparison = "more" if difference > 0 else "fewer"
    return (
        f"The provider billed {abs(difference):,} tokens {comparison} than Playhead counts; the reason is "
        "unknown."
    )


def window_note(request: RecordedRequest) -> str:
    """What the agent had done with older steps."""
    first, window = request.first_step, request.window
    earlier = f"steps 1 to {first - 1:,}" if first > 2 else "step 1" if first == 2 else ""
    match window.begins:
        case "compaction":
            note = f"The agent had compacted {earlier or 'all older entries'} into a summary."
        case "cleared" if earlier:  # a session may begin by clearing an earlier one
            note = f"The agent had cleared {earlier} from the context."
        case "older":
            note = f"{(earlier or 'older entries').capitalize()} would not fit into the model's window. "
            note += "Whether the model saw any of them is unknown."
        case _:
            note = ""
    if window.forgotten:
        note += f" The agent's condenser had left out {window.forgotten:,} entries."
    if cleared := request.tokens.cleared:
        first, last = request.step_at(cleared[0]), request.step_at(cleared[-1])
        steps = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
        note += f" Claude Code had cleared {len(cleared):,} result{'s' * (len(cleared) > 1)} of {steps}, "
        note += "by the rule of its version."
    return note.strip()


def change_note(request: RecordedRequest, changes: RequestChanges | None) -> str:
    """The changes since the step before."""
    if changes is None and request.window.begins == "compaction":
        return "This is the first recorded request. It begins with the agent's summary of an earlier session."
    if changes is None:
        return "This is the first request of the session."
    before, where = request.step - 1, _first_byte(changes)
    match changes.place:
        case "removed" if not request.removed:
            thoughts = f"{_rounded(request.tokens.left_thoughts):,} tokens of thoughts"
            note = f"{_added(request, changes)} About {thoughts} of the earlier turn are no longer sent."
            return f"{note} The provider removes them at an input of a person."
        case "removed":
            note = f"About {_rounded(request.removed):,} tokens that the request of step {before:,} had were "
            return f"{note}removed. {_REMOVALS[request.removal or 'removed']}"
        case "instruction":
            return f"The instruction has changed since step {before:,}{where}."
        case "history" if request.snapshot:
            return f"The requests of step {before:,} and this one differ{where}."
        case "history":
            return f"The agent replaced its history since step {before:,}. The requests differ{where}."
    added = _added(request, changes)
    byte = "" if changes.first_byte is None else f" (byte {changes.first_byte:,})"
    if request.beginning:
        return f"{added} Nothing else in the log differs from the previous request."
    return (
        f"{added} The request first differs from the previous one at its end{byte}, so nothing was removed."
    )


def _first_byte(changes: RequestChanges) -> str:
    """The end of a sentence that says where two requests differ."""
    if changes.first_byte is None:
        return "; where is unknown"
    position = f" from byte {changes.first_byte:,} on"
    if changes.part is None:
        return position
    name = PARTS[changes.part.part]
    return f"{position}, in {name}" + (f" of step {changes.part.step:,}" if changes.part.step else "")


def _added(request: RecordedRequest, changes: RequestChanges) -> str:
    before = request.step - 1
    output_tokens = sum(request.tokens_of(row) for row in changes.new if row.kind == "model_output")
    results = sum(request.tokens_of(row) for row in changes.new if row.kind == "tool_results")
    inputs = [request.tokens_of(row) for row in changes.new if row.kind == "model_input"]
    parts = [f"the output of step {before:,} (+{output_tokens:,})"] if output_tokens else []
    parts += [f"its results (+{results:,})"] if results else []
    parts += [f"{len(inputs):,} input{'s' * (len(inputs) > 1)} (+{sum(inputs):,})"] if inputs else []
    added = ", ".join(parts) or "nothing with text"
    return f"New since step {before:,}: {added}."


def cache_note(request: RecordedRequest, changes: RequestChanges | None) -> str:
    """Where the provider stopped reading its cache, and the reason if it is known."""
    if request.reported is None or changes is None:
        return ""
    if changes.place == "removed" and (request.removed or not changes.is_missed):
        return "The provider's cache was read up to the place where something was removed."
    if changes.place not in ("end", "removed"):
        return "The provider's cache ends where the request differs."
    if not changes.is_missed:
        return ""
    note = "Both requests begin with the same bytes, but the provider did not read "
    note += f"{changes.missed:,} tokens from its cache. "
    if request.beginning in _MISSES:
        return note + _MISSES[request.beginning]
    pause, lifetime = duration_text(changes.pause), changes.cache_lifetime
    if lifetime and changes.pause > lifetime:
        lives = f"The cache lives {lifetime.seconds // 60} minutes"
        return f"{note}{lives}; {pause} had passed since the previous step."
    if not lifetime and changes.pause > EXPIRES:
        return f"{note}The reason is unknown; {pause} had passed since the previous step."
    return f"{note}The reason is unknown."


def cost_note(request: RecordedRequest, changes: RequestChanges | None) -> str:
    """The cost of the model call if the whole shared part is cached, compared with the billed cost."""
    if changes is None or changes.cached_cost is None or changes.place == "removed":
        return ""
    paid = _paid(request)
    if request.billed is not None and request.billed <= changes.cached_cost * (1 + _COUNTING_ERROR):
        return f"The provider read the shared part of both requests from its cache. {paid}"
    cost = dollar_text(changes.cached_cost)
    note = f"If the whole shared part were read from a cache, the model call would cost {cost}."
    return f"{note} {paid}"


def _paid(request: RecordedRequest) -> str:
    """What the model call cost, and where that figure comes from."""
    if request.billed is None:
        return "What it cost is unknown."
    cost = dollar_text(request.billed)
    if cost_of(request.output.metadata):
        return f"The source reports a cost of {cost}."
    return f"At the list prices of {price_list().as_of}, it cost {cost}."

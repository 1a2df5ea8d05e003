"""A session as one HTML file that replays it in a browser, without a server and without a network.

A step is JSON in a data block, which browsers do not run. Each ``<`` in it is escaped, so that nothing in it
ends the block. The script of the file turns it into text nodes. The file's content security policy allows no
other script and loads nothing. Styles, script and icons are in ``static/export`` and
``static/css/tokens.css``.
"""

import base64
import hashlib
import html
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from historyapp.core.call_subjects import COMMANDS, CallSubject, call_subject, command_line
from historyapp.core.content import are_parts, image_data, plain_text
from historyapp.core.dates import known_time
from historyapp.core.entries import Entry, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.episodes import Episode, abandon, entry_groups, episode_of
from historyapp.core.excerpts import one_line
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.replay_images import with_few_pixels
from historyapp.core.failures import check_of, error_line, likely_failure
from historyapp.core.hidden_texts import HIDDEN_TITLE, NOT_SHOWN, without_hidden_texts
from historyapp.core.image_sizes import ShownImages
from historyapp.core.json import dump_json, json_text
from historyapp.core.line_diff import WorkLeft
from historyapp.core.output_facts import check_with_figures
from historyapp.core.person_inputs import begins_turn
from historyapp.core.result_previews import result_preview
from historyapp.core.results import further_parts, returned_text, without_exception
from historyapp.core.short_targets import target_of_step
from historyapp.core.text import preview, without_colours

MAX_HEAD, MAX_TAIL = 30_000, 10_000
"""Characters of a long text that the file keeps from its beginning and its end."""
MAX_IMAGE = 1_500_000
"""Characters of base64 of the largest image that the file keeps."""
MAX_PARTS = 200
"""The maximum number of parts of an input or result, and of calls of a step, that the file keeps."""
MAX_INPUTS = 1 << 25
"""Bytes in memory of the inputs between two steps that the file keeps. Any number may come before a step."""
_INPUT_SIZE = 1000
"""Bytes that an input takes in memory without its texts."""
_BATCH = 64 * 1024
"""Characters that are sent at once."""


class _Block(NamedTuple):
    """One step in the file."""

    row: list[Any]
    """For the list: kind, title, outcome, status, milliseconds, whether a turn of a person begins here."""
    content: dict[str, Any]


@dataclass(slots=True)
class _PendingStep:
    """A step that is written once the next one is known, because that one ends it."""

    episode: Episode
    before: "_Inputs"


class _Inputs:
    """The inputs between two steps, up to :data:`MAX_INPUTS`."""

    def __init__(self) -> None:
        self.begins_turn = False
        """Whether one is from a person."""
        self._kept = list[dict[str, Any]]()
        self._size = self._left_out = 0

    def add(self, item: dict[str, Any]) -> None:
        self._size += _INPUT_SIZE
        kept = []
        for part in item["parts"]:
            # In memory, because one emoji makes each character of a text take four bytes.
            self._size += sum(map(sys.getsizeof, part.values() if isinstance(part, dict) else (part,)))
            if self._size > MAX_INPUTS:
                break
            kept.append(part)
        if item["parts"] and not kept:
            self._left_out += 1
            return
        if more := len(item["parts"]) - len(kept):
            kept.append(f"[{more:,} more parts, which this file leaves out]")
        self._kept.append({**item, "parts": kept})

    def content(self) -> list[dict[str, Any]]:
        """The inputs as the file has them."""
        if not self._left_out:
            return self._kept
        text = (
            f"[{self._left_out:,} more inputs are left out here, because those between two steps have more "
            f"than {MAX_INPUTS:,} bytes. The export as Playhead JSONL contains them.]"
        )
        return [*self._kept, {"heading": "left out", "parts": [text]}]


class _HtmlReplay:
    name = "html"
    title = "HTML that replays offline"
    media_type = "text/html"
    suffix = ".html"
    live_only = True
    can_hide_inputs = True
    whole_steps = True

    def write(self, session: ExportSession, forks: Iterable[ExportSession] = ()) -> Iterator[str]:
        batch, size = list[str](), 0
        for text in _texts(session):
            batch.append(text)
            size += len(text)
            if size > _BATCH:
                yield "".join(batch)
                batch, size = [], 0
        yield "".join(batch)


HTML_REPLAY = _HtmlReplay()


@cache
def _asset(name: str) -> str:
    """The text of a static file, in the repository or in the installed wheel."""
    root = Path(__file__).parents[3]
    paths = (folder / name for folder in (root / "static", root / "dashboard" / "static"))
    return next(path for path in paths if path.is_file()).read_text("utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _texts(session: ExportSession) -> Iterator[str]:
    style = f"\n{_asset('css/tokens.css')}{_asset('export/replay.css')}"
    script = f"\n{_asset('export/layout.js')}{_asset('export/replay.js')}"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = HIDDEN_TITLE if session.hides_inputs else _inline(session.title) or "Session"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} – Playhead</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )
    yield f"{_asset('icons.svg')}\n"
    last_fact = NOT_SHOWN if session.hides_inputs else ", ".join(session.tags)
    facts = [_inline(fact) for fact in (session.agent, session.model, last_fact) if fact.strip()]
    if started := known_time(session.created_at):
        facts.append(f"started {started:%Y-%m-%d %H:%M} UTC")
    lines = "".join(f"<span><bdi>{fact}</bdi></span>" for fact in facts)
    yield _asset("export/replay.html").format(title=title, facts=lines)
    yield from _steps(session.entries, hides_inputs=session.hides_inputs)
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _inline(text: str) -> str:
    return html.escape(one_line(text, 1000))


def _steps(entries: Iterable[Entry], *, hides_inputs: bool) -> Iterator[str]:
    """A data block for each step. Inputs after a step come before the next one, the last ones at the end."""
    pending: _PendingStep | None = None
    number, inputs = 0, _Inputs()
    for group in entry_groups(entries):
        in_step = isinstance(group[0].body, ModelOutput)
        if in_step:
            number += 1
            episode = episode_of(number, group)
            episode = without_hidden_texts(episode) if hides_inputs else episode
            if pending is not None:
                ended = _PendingStep(abandon(pending.episode), pending.before)
                yield from _block(_step(ended, episode.started_at))
            pending, inputs = _PendingStep(episode, inputs), _Inputs()
        for entry in () if hides_inputs else group:
            body = entry.body
            inputs.begins_turn |= isinstance(body, ModelInput) and begins_turn(body.channel, body.content)
            for item in _inputs(entry, in_step):
                inputs.add(item)
    after = inputs.content()
    if pending is not None:
        yield from _block(_step(pending, None, after))
    elif after:
        row = ["other", "Before the first step", "", "", None, True, None]
        yield from _block(_Block(row, {"number": 0, "before": after}))


def _block(block: _Block) -> Iterator[str]:
    yield f'<script type="application/json" data-row="{html.escape(dump_json(block.row))}">'
    yield from _json(with_few_pixels(block.content, ShownImages()))
    yield "</script>\n"


def _json(value: Any) -> Iterator[str]:
    """The JSON of a value, one text of it at a time: writing many megabytes at once stops all threads."""
    if isinstance(value, dict):
        for number, (name, item) in enumerate(value.items()):
            yield f"{',' if number else '{'}{dump_json(name)}:"
            yield from _json(item)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield "," if number else "["
            yield from _json(item)
        yield "]" if value else "[]"
    else:
        yield dump_json(value).replace("<", "\\u003c")


def _inputs(entry: Entry, in_step: bool) -> Iterator[dict[str, Any]]:
    body = entry.body
    if isinstance(body, ToolResults) and not in_step:
        for result in islice(body.results, MAX_PARTS):
            yield {"heading": "result without a call", "parts": _result_parts(result)}
        return
    if body.in_step or body.kind in ("debug_log", "rewind"):
        return
    heading = {"system_instruction": "instruction", "memory_notebook": "notebook"}.get(body.kind)
    parts = _parts(body.message_content)
    if parts:
        yield {
            "heading": heading or preview(body.heading),
            "time": _milliseconds(entry.created_at),
            "parts": parts,
        }


def _passed(started_at: datetime | None, ended_at: datetime | None) -> int | None:
    start, end = known_time(started_at), known_time(ended_at)
    return None if start is None or end is None else max(0, round((end - start).total_seconds() * 1000))


def _step(pending: _PendingStep, next_at: datetime | None, after: list[Any] | None = None) -> _Block:
    episode = pending.episode
    output = episode.output
    calls, action = list(output.tool_calls), output.use_tool
    if not calls and action:  # an action that the model wrote as text is a tool call without an id
        calls = [ToolCall(id="", name=action.name, arguments=action.arguments)]
    subjects = [call_subject(tool_call.name, tool_call.arguments) for tool_call in calls]
    likely = _likely_failure(episode, calls, subjects)
    outcome = without_colours(_outcome(episode, calls, subjects, likely))
    kind, title = _title(episode, calls, subjects, outcome)
    row = [
        kind,
        title,
        outcome,
        "likely" if likely else episode.status,
        _passed(episode.started_at, next_at),
        pending.before.begins_turn,
        _passed(episode.started_at, episode.finished_at) or None,
    ]
    answers: list[list[ToolResult]] = [[] for _ in calls]
    index_by_id = {tool_call.id: index for index, tool_call in reversed([*enumerate(calls)])}
    for result, ids in episode.received:
        if ids and ids[0] in index_by_id:
            answers[index_by_id[ids[0]]].append(result)
    content = {
        "number": episode.number,
        "time": _milliseconds(episode.started_at),
        "finished": _milliseconds(episode.finished_at),
        "before": pending.before.content(),
        "thought": _parts(output.thoughts_text),
        "answer": _parts(output.text),
        "calls": [_call(*fields) for fields in islice(zip(calls, subjects, answers, strict=True), MAX_PARTS)],
        "more_calls": max(0, len(calls) - MAX_PARTS),
        "late": [_result(result) for result in islice(episode.late, MAX_PARTS)],
        "remarks": [*_remarks(episode)],
        "after": after or [],
    }
    return _Block(row, {name: value for name, value in content.items() if value not in (None, [], 0)})


def _likely_failure(episode: Episode, calls: list[ToolCall], subjects: list[CallSubject]) -> str:
    """The line of a likely failure in a step that was reported as a success, or empty."""
    if episode.status != "success":
        return ""
    by_id = {tool_call.id: (tool_call, subject) for tool_call, subject in zip(calls, subjects, strict=True)}
    for result, ids in episode.received:
        for id in ids[:1]:
            tool_call, subject = by_id[id]
            finding = likely_failure(result, check_of(tool_call.name, tool_call.arguments, subject.kind))
            if finding:
                return finding.line
    return ""


def _title(
    episode: Episode, calls: list[ToolCall], subjects: list[CallSubject], outcome: str
) -> tuple[str, str]:
    """The kind of the step's first tool call, and the title of the step."""
    if not calls:
        return "answer", preview(episode.output.text or episode.output.thoughts_text) or "(empty answer)"
    arguments = calls[0].arguments
    title = target_of_step(subjects[0].target, outcome) or (
        preview(json_text(arguments), 120) if arguments else ""
    )
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return subjects[0].kind, f"{title or preview(calls[0].name)}{more}"


def _outcome(episode: Episode, calls: list[ToolCall], subjects: list[CallSubject], likely: str) -> str:
    result = episode.result
    if likely or result is None:
        return likely
    if result.status == "error":
        failed = next((failed for failed in episode.results if failed.status == "error"), result)
        return preview(without_colours(error_line(failed))) or result_preview(failed)
    if len(episode.results) != 1 or len(calls) != 1:
        return result_preview(episode.results[0] if len(episode.results) == 1 else result)
    return result_preview(episode.results[0], check_with_figures(calls[0], subjects[0].kind, WorkLeft()))


def _call(tool_call: ToolCall, subject: CallSubject, results: list[ToolResult]) -> dict[str, Any]:
    arguments = tool_call.arguments
    command = command_line(arguments) if subject.kind == "shell" else ""
    if isinstance(arguments, dict):
        other_arguments = {
            name: value for name, value in arguments.items() if not (command and name in COMMANDS)
        }
        fields = [
            [preview(name), _cut(plain_text(value))]
            for name, value in islice(other_arguments.items(), MAX_PARTS)
        ]
    else:
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        fields = [] if command or not text else [["", _cut(text)]]
    return {
        "name": preview(tool_call.name),
        "kind": subject.kind,
        "target": subject.target,
        "command": _cut(command) if command else None,
        "fields": fields,
        "results": [_result(result) for result in results],
    }


def _result(result: ToolResult) -> dict[str, Any]:
    shown, exception = without_exception(result)
    texts = (*further_parts(shown), *exception)
    further = [{"heading": preview(label), "parts": _parts(text)} for label, text in texts]
    return {"status": result.status, "parts": _result_parts(shown), "more": further}


def _result_parts(result: ToolResult) -> list[Any]:
    outputs = result.outputs
    if result.status == "success" and are_parts(outputs):
        return _parts(outputs)
    return _parts(returned_text(result))


def _remarks(episode: Episode) -> Iterator[dict[str, Any]]:
    for text in islice(episode.overall, MAX_PARTS):
        yield {"heading": "remark", "parts": _parts(text)}
    for review in islice(episode.reviews, MAX_PARTS):
        verdict = "" if review.passed is None else ("passed" if review.passed else "not passed")
        score = "" if review.score is None else f"score {review.score:g}"
        texts = [plain_text(value) for value in (review.analysis, review.supervision) if value is not None]
        whole = "\n".join(filter(None, [" · ".join(filter(None, [verdict, score])), *texts]))
        yield {"heading": "review", "parts": [_cut(whole)]}


def _parts(content: Any) -> list[Any]:
    """Content as texts and images; empty for blank content."""
    if not are_parts(content):
        return [_cut(text)] if (text := plain_text(content)).strip() else []
    parts: list[Any] = []
    for part in content[:MAX_PARTS]:
        image = image_data(part) if isinstance(part, dict) else None
        if image and len(image[1]) <= MAX_IMAGE:
            parts.append({"image": f"data:{image[0]};base64,{image[1]}"})
        elif image:
            parts.append(f"[image of {len(image[1]) * 3 // 4:,} bytes, which this file leaves out]")
        elif (text := plain_text([part])).strip():
            parts.append(_cut(text))
    left_out = len(content) - MAX_PARTS
    return [*parts, f"[{left_out:,} more parts, which this file leaves out]"] if left_out > 0 else parts


def _cut(text: str) -> Any:
    """The text. Of a long text, the beginning, the end, and the number of characters between them."""
    text = without_colours(text)
    if len(text) <= MAX_HEAD + MAX_TAIL:
        return text
    return {"head": text[:MAX_HEAD], "cut": len(text) - MAX_HEAD - MAX_TAIL, "tail": text[-MAX_TAIL:]}


def _milliseconds(moment: datetime | None) -> int | None:
    time = known_time(moment)
    return round(time.timestamp() * 1000) if time else None

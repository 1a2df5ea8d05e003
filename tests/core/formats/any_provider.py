"""What every provider asks of a format, checked without knowing the provider's keys.

A format writes :data:`RECORDED`, a session in which every text occurs once. The place of a text shows where
the format puts texts, names of tools, arguments and ids. Rules of a single provider need a validator of their
own: whether arguments are an object or text, which roles there are, how messages begin and end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from historyapp.core.context import Context
from historyapp.core.conversation import Turn
from historyapp.core.entries import Body, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults, UseTool
from historyapp.core.episodes import conversation_parts
from historyapp.core.formats.base import Format
from historyapp.core.formats.calls import CallIds
from historyapp.core.formats.tools import Definition
from historyapp.core.manifest import Manifest
from tests.core.entries import session
from tests.core.formats.refusals import NAME, Request, refuse_blank, refuse_unless

Path = tuple[str | int, ...]
Place = tuple[str, ...]
"""A path without its indices: the same for all messages."""
TOOL = "look"


def _calling(number: int, *ids: str, **fields: Any) -> tuple[ModelOutput, ToolResults]:
    """A step with a call for each id. Its results come in the opposite order."""
    calls, results = [], []
    for index, id in enumerate(ids):
        argument, outcome = f"argument{number}.{index}", f"result{number}.{index}"
        calls.append(ToolCall(id=id, name=TOOL, arguments={"at": argument}))
        outputs = [{"type": "text", "text": outcome}] if number == 1 else outcome
        results.append(ToolResult(tool_call_id=id, status="success", outputs=outputs))
    return ModelOutput(tool_calls=tuple(calls), **fields), ToolResults(results=tuple(reversed(results)))


STEPS = (("id_a", "id_b"), ("id_b", "id_a"), ("ä/ö", "x" * 90, ""))
"""The ids of the calls of each step: some recur, some are not legal."""
RECORDED: tuple[Body, ...] = (
    ModelInput(content="the input"),
    ModelInput(content=[{"type": "text", "text": "first part"}, {"type": "text", "text": "second part"}]),
    *_calling(0, *STEPS[0], text="beside the calls"),
    *_calling(1, *STEPS[1]),
    ModelInput(channel="system", content="the instruction"),
    *_calling(2, *STEPS[2]),
    ToolResults(overall="the remark", results=(ToolResult(status="success", outputs="the late result"),)),
    ModelOutput(use_tool=UseTool(name=TOOL, arguments={"at": "action as text"})),
    ToolResults(results=(ToolResult(status="error", reason="why it failed"),)),
    ModelOutput(text="the answer"),
    ModelInput(content="the last input"),
)
FIXED: dict[str, Any] = {"system": "the system text", "notebook": "the notebook"}
SCREEN = "the live screen"
TEXTS = (
    "the input", "first part", "second part", "beside the calls", "the instruction", "the remark",
    "the late result", "action as text", "why it failed", "the answer", "the last input", SCREEN,
    *FIXED.values(),
)  # fmt: skip
CALLS = [(f"argument{n}.{i}", f"result{n}.{i}") for n, ids in enumerate(STEPS) for i in range(len(ids))]


def request_of(
    format: Format, *bodies: Body, screen: str = "", tools: Sequence[Definition] = (), **fields: Any
) -> Request:
    """The request for a context of everything in the session with these bodies."""
    parts = tuple(map(format.write, conversation_parts(session(*bodies))))
    manifest = Manifest(policy="test", max_tokens=None, tokens=0)
    items = format.text_items(screen, "live_screen")
    live = parts[0]._replace(items=items, calls=(), instruction="") if items else None
    return format.request(Context(parts, manifest, live_screen=live, **fields), tools)


def nodes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a request with its path."""
    yield path, value
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in inner:
        yield from nodes(item, (*path, key))


def place_of(path: Path) -> Place:
    return tuple(key for key in path if isinstance(key, str))


def standing(request: Request, text: str) -> list[Path]:
    """The paths of a text, alone or within another text."""
    return [path for path, value in nodes(request) if isinstance(value, str) and text in value]


@dataclass(frozen=True)
class Places:
    """Where a format puts what it writes."""

    texts: frozenset[Place]
    names: frozenset[Place]
    objects: frozenset[Place]
    """Arguments that are an object."""
    json: frozenset[Place]
    """Arguments that are the JSON text of one."""


@cache
def places(format: Format) -> Places:
    request = request_of(format, *RECORDED, screen=SCREEN, **FIXED)
    texts = {place_of(p) for text in (*TEXTS, *(r for _, r in CALLS)) for p in standing(request, text)}
    names = {place_of(path) for path, value in nodes(request) if value == TOOL}
    arguments = CALLS[0][0]
    objects = {place_of(path) for path, value in nodes(request) if value == {"at": arguments}}
    written = {place_of(path) for path, value in nodes(request) if _is_object_text(value, arguments)}
    return Places(*map(frozenset, (texts, names, objects, written)))


def _is_object_text(value: Any, text: str = "") -> bool:
    try:
        return isinstance(value, str) and text in value and isinstance(json.loads(value), dict)
    except ValueError:
        return False


def check_request(format: Format, request: Request) -> None:
    """For any request: no blank text, legal names of tools, arguments that are an object."""
    refuse_unless(request, "no request")
    text_places = places(format)
    for path, value in nodes(request):
        place = place_of(path)
        if place in text_places.texts and isinstance(value, str):
            refuse_blank(value, ".".join(map(str, path)))
        if place in text_places.names and isinstance(value, str):
            refuse_unless(NAME.fullmatch(value), "an illegal name of a tool", value)
        if place in text_places.objects and path and not isinstance(path[-1], int):
            refuse_unless(isinstance(value, dict), "arguments are no object", value)
        if place in text_places.json and isinstance(value, str):
            refuse_unless(_is_object_text(value), "arguments are no JSON object", value)


def check_texts(format: Format) -> Request:
    """Every text of the session occurs in its request exactly once."""
    request = request_of(format, *RECORDED, screen=SCREEN, **FIXED)
    check_request(format, request)
    written = [value for _, value in nodes(request) if isinstance(value, str)]
    for text in (*TEXTS, *(text for pair in CALLS for text in pair)):
        count = sum(value.count(text) for value in written)
        refuse_unless(count == 1, f"stands {count} times in the request", text)
    refuse_unless(any(TOOL in value for value in written), "the tool is not named", TOOL)
    return request


def check_pairs(format: Format) -> None:
    """A result follows its call, is not the user's text, and has its call's id if the provider has ids."""
    request = check_texts(format)
    [user] = standing(request, "the last input")
    order = [path for path, _ in nodes(request)]
    legal, ids = CallIds(format.longest_id), list[str]()
    turns = [part for part in conversation_parts(session(*RECORDED)) if isinstance(part, Turn)]
    for turn in turns:
        ids += [legal.of(turn.position, call.id) for call in turn.output.tool_calls]
    id_places = [(path, name) for path, name in _names_and_values(request) if name in ids]
    for id, (call, result) in zip(ids, CALLS, strict=True):
        [called], [answered] = standing(request, call), standing(request, result)
        if called == answered:  # all is one text
            continue
        refuse_unless(order.index(called) < order.index(answered), "a result before its call", result)
        refuse_unless(_kind(request, answered) != _kind(request, user), "a result as user's text", result)
        if id_places:
            refuse_unless(_nearest(id_places, called) == id, f"the call is not under the id {id}", call)
            refuse_unless(_nearest(id_places, answered) == id, f"the result is not under the id {id}", result)
    counts = Counter(id for _, id in id_places)
    refuse_unless(not id_places or set(counts.values()) <= {1, 2}, "ids stand more than twice", counts)


def check_readers(format: Format) -> None:
    """The items and the tools of a request are found in it, and outputs are the assistant's."""
    tool = {"name": "the_tool", "description": "what it does", "input_schema": {"type": "object"}}
    request = request_of(format, *RECORDED, tools=[tool], screen=SCREEN, **FIXED)
    items = format.items_in(request)
    written = json.dumps(items, ensure_ascii=False)
    missing = [text for text in TEXTS if text not in written and text not in FIXED.values()]
    refuse_unless(not missing, "not among the items", missing)
    read = json.dumps(format.tools_in(request)).count('"the_tool"')
    refuse_unless(read == json.dumps(request).count('"the_tool"'), "not among the tools", tool)
    for item in items:
        text = json.dumps(item)
        if "the answer" in text and "the last input" not in text:
            refuse_unless(format.role_of(item) == "assistant", "an output of another role", item)
        if "the last input" in text:
            refuse_unless(format.role_of(item) == "user", "an input of another role", item)


def _names_and_values(request: Request) -> Iterator[tuple[Path, str]]:
    for path, value in nodes(request):
        yield from ((path, text) for text in (*path[-1:], value) if isinstance(text, str))


def _nearest(ids: list[tuple[Path, str]], path: Path) -> str | None:
    """The id that shares the longest beginning with the path, or None if several do."""
    shared = [
        sum(1 for _ in takewhile(lambda keys: keys[0] == keys[1], zip(at, path, strict=False)))
        for at, _ in ids
    ]
    nearest = {id for (_, id), length in zip(ids, shared, strict=True) if length == max(shared)}
    return nearest.pop() if len(nearest) == 1 else None


def _kind(request: Request, path: Path) -> tuple[Place, dict[str, Any]]:
    """What surrounds a text: its place, and the other texts of its object."""
    value: Any = request
    around, without = dict[str, Any](), path[:1]
    for index, key in enumerate(path):
        if isinstance(value, dict):
            around, without = value, path[index : index + 1]
        value = value[key]
    texts = {name: text for name, text in around.items() if isinstance(text, str) and name not in without}
    return place_of(path), texts


def check_images(format: Format, *parts: dict[str, Any]) -> None:
    """A part that is not text is sent, or a text names its type."""
    for part in parts:
        keys = {path[-1]: value for path, value in nodes(part) if path and isinstance(value, str)}
        data = [value.rpartition(",")[2] for key, value in keys.items() if key not in ("type", "media_type")]
        content = [{"type": "text", "text": "the part:"}, part]
        call, _ = _calling(0, "id_a")
        tool_result = ToolResults(
            results=(ToolResult(tool_call_id="id_a", status="success", outputs=content),)
        )
        for bodies in ((ModelInput(content=content),), (ModelInput(content="the input"), call, tool_result)):
            request = request_of(format, *bodies)
            check_request(format, request)
            named = [
                path for path in standing(request, part["type"]) if place_of(path) in places(format).texts
            ]
            refuse_unless(named or any(standing(request, value) for value in data), "not sent or named", part)


def check_frame(format: Format) -> None:
    """Each text of ``max_frame`` is added to an empty context or around an output of the model."""
    bodies: tuple[tuple[Body, ...], ...] = ((), (ModelOutput(text="the answer"),), _calling(0, "id_a"))
    requests = [request_of(format, *each) for each in bodies]
    for text in filter(None, format.max_frame):
        refuse_unless(any(standing(request, text) for request in requests), "is never added", text)

"""An image of a step is found without reading all others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dashboard.rendering.blocks import IMAGE
from dashboard.rendering.step import load_step
from dashboard.rendering.step_images import find_image
from historyapp.core.entries import (
    Body,
    EntryDraft,
    ModelInput,
    ModelOutput,
    ToolCall,
    ToolResult,
    ToolResults,
)
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.models.long_rows import MAX_READ, bytes_left, bytes_read
from historyapp.services.append import append
from historyapp.services.sessions import create_session


def image(size: int) -> dict[str, Any]:
    """A GIF that differs from those of other sizes."""
    return {"type": "image", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAACwA" + "A" * 4 * size}


def outputs(*parts: object, id: str | None = None) -> ToolResult:
    return ToolResult(tool_call_id=id, status="success", outputs=list(parts))


@pytest.fixture
def history(project: Project) -> History:
    """Three steps: five calls with results in three entries, one call, and one without an id."""
    session = create_session(project)
    calls = tuple(ToolCall(id=f"c{n}", name="screenshot", arguments={}) for n in range(5))
    bodies: list[Body] = [
        ModelInput(content=[{"type": "text", "text": "See"}, image(1), image(2)]),
        ModelOutput(tool_calls=calls),
        ToolResults(results=(outputs(image(3), "seen", image(4), id="c1"), outputs(image(5), id="c0"))),
        ToolResults(results=(outputs(image(6), id="c2"), outputs(image(7), id="late"))),
        ModelInput(content=[image(8)]),
        ToolResults(results=(outputs(image(9)), outputs(image(10)))),
        ModelOutput(tool_calls=calls[:1]),
        ToolResults(results=(outputs(image(11)),)),
        ModelOutput(tool_calls=calls[:1]),
        ToolResults(results=(outputs(image(12), id="c0"),)),
        ModelInput(content=[image(13)]),
    ]
    append(project, session.pk, list(map(EntryDraft, bodies)))
    return History(Session.objects.get(pk=session.pk))


def test_each_image_of_a_step_is_found(history: History) -> None:
    found = list[int]()
    for number in (1, 2, 3):
        blocks = load_step(history, number).blocks
        for key, block in blocks.items():
            if block.language == IMAGE:
                found.append((len(block.text) - 20) // 4)
                assert find_image(history, number, key) == block
    assert sorted(found) == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13], "all but that of the late result"


@contextmanager
def reading() -> Iterator[None]:
    token = bytes_left.set(MAX_READ)
    yield
    bytes_left.reset(token)


def test_an_image_is_read_without_keeping_the_others(project: Project) -> None:
    """The browsers of six members who opened a step with images got 429 for some of them."""
    session = create_session(project)
    calls = tuple(ToolCall(id=f"c{n}", name="screenshot", arguments={}) for n in range(6))
    results = [ToolResults(results=(outputs(image(5_000), id=call.id),)) for call in calls]
    inputs = [ModelInput(content=[image(5_000)]) for _ in range(6)]
    bodies: list[Body] = [*inputs, ModelOutput(tool_calls=calls), *results]
    append(project, session.pk, list(map(EntryDraft, bodies)))
    history = History(Session.objects.get(pk=session.pk))
    with reading():
        load_step(history, 1)
        whole = bytes_read()
    assert whole > 12 * 20_000
    for key in ("result-3-part0", "input-2-image0"):
        with reading():
            assert find_image(history, 1, key)
            assert bytes_read() < whole / 5, key

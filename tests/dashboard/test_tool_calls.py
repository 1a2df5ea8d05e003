"""Tool calls, inputs and images in the panel of a step."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

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
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import fragment, html, text

GIF = {"type": "image", "media_type": "image/gif", "data": "R0lGODlhAQABAAAAACw="}
EDIT = {"file_path": "/w/a/b/c/src/a.py", "old_string": "x = 1\n", "new_string": "x = 2\n"}


@pytest.fixture
def empty(project: Project) -> Session:
    return create_session(project)


def record(session: Session, *bodies: Body) -> None:
    append(session.project, session.pk, [EntryDraft(body) for body in bodies])


def step(session: Session, name: str, arguments: Any, outputs: Any = None, **fields: Any) -> None:
    """Records a step with one answered call."""
    result = {"tool_call_id": "c", "status": "success", "outputs": outputs, **fields}
    record(
        session,
        ModelOutput(tool_calls=(ToolCall(id="c", name=name, arguments=arguments),)),
        ToolResults(results=(ToolResult.model_validate(result),)),
    )


def panel(client: Client, session: Session, number: int = 1) -> str:
    return html(fragment(client, reverse("step", args=[session.pk, number])))


def heading(client: Client, session: Session) -> str:
    match = re.search(r"<header.*?</header>", panel(client, session), re.DOTALL)
    assert match
    return " ".join(re.sub(r"<[^>]*>", " ", match[0]).split())


def test_a_read_ends_with_the_last_number_in_its_card_and_in_the_list(alice: Client, empty: Session) -> None:
    step(empty, "Read", {"file_path": "a.py"}, "     1→x\n     2→y\n     3→")
    assert "lines 1–3" in panel(alice, empty)
    assert "lines 1–3" in html(fragment(alice, reverse("steps", args=[empty.pk]) + "?after=0"))


@pytest.mark.parametrize(
    ("name", "arguments", "outputs", "expected"),
    [
        (
            "Bash",
            {"command": "cd /w && go test ./..."},
            "Exit code 1\nFAIL",
            "Step 1 cd /w &amp;&amp; go test ./... likely failed exit 1",
        ),
        ("Read", {"file_path": "/w/a/b/c/src/a.py"}, "x", "Step 1 …/c/src/a.py success"),
        ("Grep", {"pattern": "def (f|g)"}, "x", "Step 1 def (f|g) success"),
        ("ping", {}, "x", "Step 1 ping success"),
    ],
)
def test_the_heading_names_the_tool_call(
    alice: Client, empty: Session, name: str, arguments: Any, outputs: str, expected: str
) -> None:
    step(empty, name, arguments, outputs)
    assert heading(alice, empty).startswith(expected)


def test_the_heading_of_an_error_has_the_whole_command(alice: Client, empty: Session) -> None:
    """It may have been the cd that failed."""
    tool_call = ToolCall(id="c", name="Bash", arguments={"command": "cd /w && make"})
    fault = ToolResult(tool_call_id="c", status="error", reason="no such folder")
    record(empty, ModelOutput(tool_calls=(tool_call,)), ToolResults(results=(fault,)))
    assert heading(alice, empty).startswith("Step 1 cd /w &amp;&amp; make error")


def test_the_heading_of_several_calls_counts_the_others(alice: Client, empty: Session) -> None:
    calls = tuple(ToolCall(id=str(n), name="Bash", arguments={"command": f"ls {n}"}) for n in range(4))
    record(empty, ModelOutput(tool_calls=calls))
    assert heading(alice, empty).startswith("Step 1 ls 0 and 3 more in flight")


def test_an_answer_has_no_target(alice: Client, empty: Session) -> None:
    record(empty, ModelOutput(text="done"))
    assert heading(alice, empty).startswith("Step 1 answered")


def test_a_diff_can_be_shown_side_by_side_and_the_choice_is_stored(alice: Client, empty: Session) -> None:
    step(empty, "Edit", EDIT, "updated")
    assert "<table" not in panel(alice, empty)
    address = reverse("block", args=[empty.pk, 1, "call-0-edit0"])
    assert "<table" in html(fragment(alice, f"{address}?start=0&diff=split"))
    assert "<table" in panel(alice, empty)
    assert "<html" in html(alice.get(f"{address}?start=0&diff=unified"))
    assert "<table" not in panel(alice, empty)
    fragment(alice, f"{address}?start=0&diff=<b>")
    assert alice.cookies["diff"].value == "unified"


def test_an_image_of_a_result_is_served_with_its_type(alice: Client, empty: Session) -> None:
    step(empty, "screenshot", {}, [{"type": "text", "text": "seen"}, GIF])
    source = re.search(
        r'<img class="picture" src="([^"]*)" alt="Image, image/gif, 0.0 KB"', panel(alice, empty)
    )
    assert source
    response = alice.get(source[1])
    assert response["Content-Type"] == "image/gif"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response.content.startswith(b"GIF89a")


def test_only_images_are_served_as_images(alice: Client, empty: Session) -> None:
    step(empty, "x", {}, [{"type": "image", "media_type": "image/png", "data": "PHN2Zz4="}, GIF, "text"])
    page = panel(alice, empty)
    assert "This image cannot be shown" in page
    for key in ("result-0-part0", "thought", "nothing"):
        assert alice.get(reverse("image", args=[empty.pk, 1, key])).status_code == 404
    assert alice.get(reverse("image", args=[empty.pk, 1, "result-0-part1"])).status_code == 200


def test_additions_of_a_harness_are_folded_below_their_name(alice: Client, empty: Session) -> None:
    words = "Fix it.\n<system-reminder>Be good.</system-reminder>"
    record(empty, ModelInput(content=words), ModelInput(channel="meta", content="# AGENTS.md"))
    record(empty, ModelOutput(text="ok"))
    page = panel(alice, empty)
    assert re.search(r'<details class="block aside">\s*<summary>system-reminder', page)
    assert re.search(r'<details class="input noted">\s*<summary>meta', page)
    assert "&lt;system-reminder" not in page


def test_an_image_of_an_input_is_shown(alice: Client, empty: Session) -> None:
    record(empty, ModelInput(content=[{"type": "text", "text": "look"}, GIF]), ModelOutput(text="ok"))
    source = re.search(r'<img class="picture" src="([^"]*)"', panel(alice, empty))
    assert source
    assert alice.get(source[1])["Content-Type"] == "image/gif"


def test_a_tree_that_is_cut_continues_as_text(alice: Client, empty: Session) -> None:
    step(empty, "list", {}, {"rows": [{"name": f"row {n}", "more": {"n": n}} for n in range(300)]})
    more = re.search(
        r'class="unfold" href="([^"]*)"[^>]*>\s*<svg.*?</svg>\s*The whole value as text', panel(alice, empty)
    )
    assert more
    page = text(fragment(alice, more[1].replace("&amp;", "&")))
    assert page.startswith('{ "rows" : [ { "name" : "row 0"')
    assert '"row 299"' in page


def test_five_megabytes_of_colours_are_folded(alice: Client, empty: Session) -> None:
    step(empty, "Bash", {"command": "cat x"}, "\x1b[31mred\x1b[0m \x1b]0;title" * 220_000)
    page = fragment(alice, reverse("step", args=[empty.pk, 1]))
    assert len(page.content) < 40_000
    assert '<span class="ansi-31">red</span>' in html(page)


def test_a_call_of_a_sub_agent_links_to_its_session(alice: Client, empty: Session) -> None:
    step(empty, "Task", {"description": "Look", "prompt": "Find it."}, "found")
    child = create_session(empty.project, names={"title": "Find it."})
    address = reverse("session", args=[empty.pk])
    assert "Open the sub-agent" not in html(alice.get(address))
    Session.objects.filter(pk=child.pk).update(spawned_by=empty, spawned_position=1)
    page = html(alice.get(address))
    assert "Open the sub-agent" in page
    assert reverse("session", args=[child.pk]) in page.partition("Open the sub-agent")[0].rpartition("<a")[2]


@pytest.mark.parametrize(("position", "call"), [(3, ""), (1, "other")])
def test_a_sub_agent_of_another_call_is_not_linked(
    alice: Client, empty: Session, position: int, call: str
) -> None:
    step(empty, "Task", {"description": "Look", "prompt": "Find it."}, "found")
    child = create_session(empty.project)
    Session.objects.filter(pk=child.pk).update(
        spawned_by=empty, spawned_position=position, metadata={"tool_call_id": call}
    )
    assert "Open the sub-agent" not in html(alice.get(reverse("session", args=[empty.pk])))

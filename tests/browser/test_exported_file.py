"""The exported file in a browser: opened as a file, without a server and without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, expect

from historyapp.core.entries import Body, ModelInput, ModelOutput, ToolCall, ToolResult, ToolResults
from historyapp.core.exporters.base import ExportSession
from historyapp.core.exporters.html_replay import HTML_REPLAY
from tests.core.entries import result, session
from tests.examples import thorough

HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<svg onload='window.hacked = 1'><iframe src='javascript:parent.hacked = 1'></iframe>"
    "<a href='javascript:window.hacked = 1'>x</a><meta http-equiv=refresh content='0;url=http://x.test/'>"
)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Open = Callable[..., Page]


@pytest.fixture
def open_file(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the file of a session. It must send no request, log no error and open no dialog."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    problems = list[str]()

    def on_dialog(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    def on_request(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            problems.append(request.url)

    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", on_dialog)
    page.on("request", on_request)

    def open(*bodies: Body, address: str = "", title: str = "A run") -> Page:
        file = tmp_path / "run.html"
        text = "".join(HTML_REPLAY.write(ExportSession("0b1c", session(*bodies), title=title, agent=HOSTILE)))
        file.write_text(text, "utf-8")
        page.goto(file.as_uri() + address)
        return page

    yield open
    assert page.evaluate("window.hacked") is None
    assert problems == []
    context.close()


def step(number: int, fails: bool = False) -> list[Body]:
    output = ModelOutput(
        tool_calls=(ToolCall(id="a", name="bash", arguments={"command": f"run-{number} now"}),)
    )
    if fails:
        return [
            output,
            ToolResults(results=(ToolResult(tool_call_id="a", status="error", reason=f"broken {number}"),)),
        ]
    return [output, result("a", f"printed {number}")]


def steps(count: int, *failing: int) -> list[Body]:
    return [body for number in range(1, count + 1) for body in step(number, number in failing)]


MOVE_BEFORE_THE_EVENT_OF_THE_ADDRESS = """
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    dispatchEvent(new Event("hashchange"));
"""


def expect_at(page: Page, number: int) -> None:
    expect(page.locator("#step h2")).to_have_text(f"Step {number}")
    expect(page.get_by_label("Position of the playhead")).to_have_value(str(number))


def test_address_keys_slider_list_failures_and_a_replay_move_the_playhead(open_file: Open) -> None:
    page = open_file(*steps(60, 4, 55), address="#step-12")
    expect_at(page, 12)
    page.keyboard.press("ArrowRight")
    expect_at(page, 13)
    page.wait_for_url("**/run.html#step-13")
    page.evaluate(MOVE_BEFORE_THE_EVENT_OF_THE_ADDRESS)
    expect_at(page, 12)
    page.keyboard.press("ArrowRight")
    for key, number in (("ArrowLeft", 12), ("End", 60), ("Home", 1)):
        page.keyboard.press(key)
        expect_at(page, number)
    expect(page.locator("#step")).to_contain_text("printed 1")
    page.get_by_label("Position of the playhead").fill("40")
    expect_at(page, 40)
    row = page.get_by_role("navigation", name="Steps").get_by_role("button", name="run-41 now")
    row.click()
    expect_at(page, 41)
    expect(row).to_have_attribute("aria-current", "step")
    page.get_by_label("Step", exact=True).fill("3")
    page.keyboard.press("Enter")
    expect_at(page, 3)
    jump_to_failures(page)
    replay_the_end(page)
    assert open_file(*steps(1), address="#step-999999999") is page


def jump_to_failures(page: Page) -> None:
    expect(page.get_by_text("2 failures")).to_be_visible()
    page.locator("#step h2").click()  # keys belong to a field that has the focus
    page.keyboard.press("e")
    expect_at(page, 4)
    expect(page.locator("#step")).to_contain_text("broken 4")
    page.get_by_role("button", name="error").last.click()
    expect_at(page, 55)
    expect(page.get_by_role("button", name="error").last).to_be_disabled()
    page.keyboard.press("E")
    expect_at(page, 4)


def replay_the_end(page: Page) -> None:
    page.get_by_label("Position of the playhead").fill("57")
    page.get_by_label("Speed").select_option("64")
    page.get_by_role("button", name="Play").click()
    expect_at(page, 60)
    expect(page.get_by_role("button", name="Play")).to_have_attribute("aria-pressed", "false")
    page.get_by_label("Speed").select_option("0.5")
    page.get_by_role("button", name="Play").click()
    expect_at(page, 1)
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Speed").blur()
    page.keyboard.press("ArrowRight")
    expect_at(page, 2)


def test_texts_that_browsers_lay_out_slowly_are_divided_and_stay_the_same(open_file: Open) -> None:
    marks, thai = "a" + "\u0301" * 9_999, "\u0e01\u0e33\u0e19" * 3_000
    turning = "a\u05d0" * 4_000 + "\n" + "a\u05d0" * 11_000
    tones = "\U0001f3fb\u200d\U000e0061" * 3_000
    texts = {
        "marks": marks,
        "thai": thai,
        "turning": turning,
        "tones": tones,
        "wide": "e\u0301 " + "\uff08" * 9_000,
        "letters": "AV" * 9_000,
        "fonts": "\u30a2 " * 3_000,
        "ordinary": "word " * 5_000 + "w" * 100 + "\n" * 2_000,
    }
    page = open_file(ModelOutput(tool_calls=(ToolCall(id="a", name="Note", arguments=texts),)))
    shown = page.locator("#step .call pre")
    assert [node.text_content() for node in shown.all()] == list(texts.values())
    longest = "(pre) => Math.max(...[...pre.childNodes].map((node) => node.textContent.length))"
    assert [shown.nth(index).evaluate(longest) for index in range(7)] == [
        17,
        100,
        10_000,
        27,
        103,
        100,
        252,
    ]
    assert shown.nth(7).locator("wbr, span").count() == 0


def test_text_of_agents_is_shown_as_text_and_missing_parts_are_named(open_file: Open) -> None:
    call = ToolCall(
        id="a", name=HOSTILE, arguments={HOSTILE: HOSTILE, "old_string": HOSTILE, "new_string": ""}
    )
    picture = {"type": "image", "media_type": "image/png", "data": PNG}
    page = open_file(
        ModelInput(content=HOSTILE),
        ModelOutput(thoughts=HOSTILE, text=HOSTILE, tool_calls=(call,)),
        result("a", [{"type": "text", "text": HOSTILE}, picture]),
        ModelOutput(text="a" * 100_000),
        title=HOSTILE,
    )
    expect(page.locator("#step h2")).to_have_text("Step 1")
    assert page.locator("#step").inner_text().count("<iframe src='javascript:") >= 5
    assert page.title().startswith("</script>")
    expect(page.locator("#step img")).to_have_js_property("naturalWidth", 1)
    assert page.locator("iframe, a[href^=javascript], [onload], [onerror]").count() == 0
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("60,000 characters are not in this file.")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    expect(open_file().get_by_text("This session has no steps.")).to_be_visible()


def test_a_change_has_few_elements_however_many_lines_it_has(open_file: Open) -> None:
    """With one for each line, a page took half a minute, or reached the limit of a function's arguments."""
    lines = ["same", *[""] * 1_000, "end"]
    changed = {"old_string": "\n".join(lines), "new_string": "\n".join(["same", "a", "b", "end"])}
    call = ToolCall(id="a", name="edit", arguments=changed)
    page = open_file(ModelOutput(tool_calls=(call,)))
    assert page.locator("#step .call pre *").evaluate_all("found => found.map(one => one.localName)") == [
        "del",
        "ins",
    ]
    shown = page.locator("#step .call pre").text_content()
    assert shown == "  same\n" + "- \n" * 1_000 + "+ a\n+ b\n  end\n"


def test_very_many_inputs_do_not_hide_the_step_after_them(open_file: Open) -> None:
    inputs = [ModelInput(channel="cron", content=[{"type": "text", "text": "x"}] * 200) for _ in range(20)]
    page = open_file(*inputs, ModelOutput(text="Done."))
    assert page.locator("#step *").count() < 3_000
    expect(page.get_by_text("The step has too many parts for this page.")).to_have_count(1)
    expect(page.locator("#step h2")).to_have_text("Step 1")
    expect(page.locator("#step > :last-child")).to_contain_text("Done.")


def test_a_step_of_too_many_parts_says_so_once(open_file: Open) -> None:
    """The arguments and the results of a call are added to its card, which is a part of the step."""
    fields = {f"n{number}": f"{number}" for number in range(200)}
    calls = tuple(ToolCall(id=f"{number}", name="set", arguments=fields) for number in range(18))
    page = open_file(ModelOutput(tool_calls=calls), *[result(call.id, "done") for call in calls])
    assert page.get_by_text("The step has too many parts for this page.").count() == 1
    expect(page.locator("#step > :last-child")).to_have_class("left-out")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [thorough(1440, "light"), (360, "dark"), thorough(1440, "dark"), thorough(360, "light")],
)
def test_the_file_fits_the_window_and_has_both_themes(open_file: Open, width: int, scheme: str) -> None:
    page = open_file(*steps(50, 3), ModelOutput(text="long" * 500), address="#step-51")
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    grounds = ["rgb(14, 17, 22)", "rgb(246, 247, 249)"]
    for ground in grounds if scheme == "dark" else grounds[::-1]:
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        page.get_by_role("button", name="Theme").click()
    if width == 360:
        page.get_by_role("button", name="Steps", exact=True).click()
        expect(page.locator("#step")).to_be_hidden()
        page.get_by_role("button", name="long").last.click()
    expect(page.locator("#step")).to_be_visible()

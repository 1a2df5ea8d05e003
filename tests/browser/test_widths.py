"""What the pages of a session show on narrow and on wide screens."""

from playwright.sync_api import Page, Route, expect

from historyapp.core.entries import ModelInput, ModelOutput
from historyapp.models import Project
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.browser.visits import page_of, record_session
from tests.services.drafts import act, draft, ok

HIDDEN_TABLES = """() => [...document.querySelectorAll(".scrolls")]
    .filter((box) => box.scrollWidth > box.clientWidth).length"""
ROWS = "(all) => new Set(all.map((button) => Math.round(button.getBoundingClientRect().top))).size"
LINES = "(title) => Math.round(title.clientHeight / parseFloat(getComputedStyle(title).lineHeight))"


def test_on_a_phone_tables_show_all_columns_and_actions_fit_a_row(page: Page, project: Project) -> None:
    session = record_session(project, title="A title with more words than fit into one line of a phone")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"/sessions/{session.pk}/overview")
    expect(page.locator("#files")).to_be_visible()
    assert page.evaluate(HIDDEN_TABLES) == 0
    page.goto(page_of(session, "?step=2"))
    assert page.locator(".actions > a, .actions > details").evaluate_all(ROWS) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.get_by_role("heading", level=1).evaluate(LINES) == 2
    expect(page.locator("#run-ending")).to_be_in_viewport(ratio=1)
    expect(page.locator("#run-ending")).to_have_text("ended with an error")


def test_on_a_phone_the_cost_tab_has_room_for_the_names_of_steps(page: Page, project: Project) -> None:
    session = create_session(project, names={"model": "claude-opus-4-5"})
    read = act("read_file", path="cmd/integration_test/resume_test.go").body
    append(project, session.pk, [draft(read, usage={"input_tokens": 123_456, "output_tokens": 9}), ok()])
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"/sessions/{session.pk}/ledger")
    name = page.get_by_role("rowheader", name="resume_test.go").bounding_box()
    assert name
    assert name["width"] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_a_wide_screen_the_step_fills_its_pane(page: Page, project: Project) -> None:
    page.set_viewport_size({"width": 2200, "height": 930})
    page.goto(page_of(record_session(project), "?step=2"))
    pane, step = (page.locator(name).first.bounding_box() for name in (".panes > .step", ".step-view"))
    assert pane
    assert step
    assert step["width"] > 0.95 * pane["width"]


def test_on_a_small_laptop_the_step_has_a_third_of_the_window(page: Page, project: Project) -> None:
    page.set_viewport_size({"width": 1024, "height": 800})
    page.goto(
        page_of(record_session(project, title="A title with more words than fit into a line"), "?step=2")
    )
    step = page.locator(".panes > .step").bounding_box()
    assert step
    assert step["height"] > 800 / 3
    expect(page.locator("#run-ending")).to_be_in_viewport(ratio=1)
    expect(page.locator("#run-ending")).to_have_text("ended with an error")


def test_the_time_of_the_run_is_loaded_without_moving_what_is_below(page: Page, project: Project) -> None:
    session = record_session(project)
    page.set_viewport_size({"width": 1280, "height": 800})
    held = list[Route]()
    page.route("**/head", lambda route: held.append(route))
    with page.expect_request("**/head"):
        page.goto(page_of(session, "?step=2"))
    before = page.locator("#timeline").bounding_box()
    held.pop().continue_()
    expect(page.locator("#run-ending")).to_have_text("ended with an error")
    assert page.locator("#timeline").bounding_box() == before


def test_nested_quotes_and_columns_of_tables_have_room_for_words(page: Page, project: Project) -> None:
    """A browser takes long to lay out lines of one letter."""
    session = create_session(project)
    table = "|a" * 24 + "|\n" + "|-" * 24 + "|\n" + "|a" * 23 + "|" + "AV" * 99 + "|\n"
    text = f"{'> ' * 19}quoted\n\n{'- ' * 9}listed\n\n{table}"
    append(project, session.pk, [draft(ModelInput(content="x")), draft(ModelOutput(text=text))])
    page.set_viewport_size({"width": 390, "height": 740})
    page.goto(page_of(session, "?step=1"))
    answer = page.locator("#step .part-answer .prose")
    for element in (answer.get_by_text("quoted"), answer.get_by_text("listed"), answer.locator("td").last):
        box = element.bounding_box()
        assert box
        assert box["width"] > 50
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

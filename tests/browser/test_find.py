"""Find in the session in a browser: keys, count, marks in the text and on the timeline, and the address."""

import re

import pytest
from playwright.sync_api import Page, expect

from historyapp.core.entries import ModelInput, ModelOutput
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.browser.visits import page_of, sign_in
from tests.services.drafts import act, draft, failed, ok, tool_calls


@pytest.fixture
def session(page: Page, server: str) -> Session:
    return record(sign_in(page.context, server))


def record(project: Project) -> Session:
    """Twelve steps. Steps 3, 7 and 11 have the text; step 7 has it twice, once in a long, folded result."""
    session = create_session(project, names={"title": "Find me"})
    drafts = []
    for number in range(1, 13):
        drafts.append(act("grep", pattern="EnsureSetup" if number % 4 == 3 else "other"))
        long = "\n".join(f"line {line}" for line in range(80)) + "\nensureSetup()"
        drafts.append(ok(outputs=long if number == 7 else "nothing here"))
    append(project, session.pk, drafts)
    session.refresh_from_db()
    return session


BOTTOM = """(({ startContainer, startOffset, endContainer, endOffset }) => {
    const range = new Range();
    range.setStart(startContainer, startOffset);
    range.setEnd(endContainer, endOffset);
    return range.getBoundingClientRect().bottom;
})"""


def marked(page: Page) -> int:
    """How many matches are marked in the step."""
    return int(page.evaluate("CSS.highlights.get('find')?.size ?? 0"))


def wait_for_marks(page: Page, minimum: int, maximum: int = 1000) -> None:
    page.wait_for_function(
        """([minimum, maximum]) => {
            const marked = CSS.highlights.get("find")?.size ?? 0;
            return minimum <= marked && marked <= maximum;
        }""",
        arg=[minimum, maximum],
        polling=50,
    )


def find(page: Page, text: str) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find in this session")).to_be_focused()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def step_is(page: Page, number: int) -> None:
    expect(page.locator("#step [data-at]").first).to_have_attribute("data-at", str(number))


def test_keys_move_between_marked_matches_and_the_address_holds_the_search(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=4"))
    find(page, "ensuresetup")
    step_is(page, 7)
    expect(page.locator("[data-found]")).to_contain_text("2 of 3")
    expect_marks_on_the_timeline(page, 3, 7, 11)
    expect_marks_in_folded_text_once_it_is_open(page)
    page.keyboard.press("n")
    step_is(page, 11)
    expect(page.locator("[data-found]")).to_contain_text("3 of 3")
    page.keyboard.press("n")
    step_is(page, 3)
    expect(page).to_have_url(re.compile(r"\?step=3&find=ensuresetup$"))
    page.keyboard.press("ArrowRight")
    step_is(page, 4)
    expect(page.locator("[data-found]")).to_contain_text("3 steps")
    wait_for_marks(page, 0, 0)
    expect(page).to_have_url(re.compile(r"\?step=4&find=ensuresetup$"))
    page.reload()
    page.keyboard.press("N")
    step_is(page, 3)
    page.keyboard.press("N")
    step_is(page, 11)
    page.locator("[data-find-clear]").click()
    expect_marks_on_the_timeline(page)
    expect(page).to_have_url(re.compile(r"\?step=11$"))


def test_enter_again_opens_the_next_match_and_shift_enter_the_previous_one(
    page: Page, session: Session
) -> None:
    page.goto(page_of(session, "?step=4"))
    find(page, "ensuresetup")
    step_is(page, 7)
    page.keyboard.press("Enter")
    step_is(page, 11)
    page.keyboard.press("Shift+Enter")
    step_is(page, 7)
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    step_is(page, 11)
    page.keyboard.press("/")
    page.keyboard.press("Shift+Enter")
    step_is(page, 7)
    page.reload()
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    step_is(page, 11)


def expect_marks_on_the_timeline(page: Page, *steps: int) -> None:
    marks = page.locator("#timeline [data-hits] rect")
    expect(marks).to_have_count(len(steps))
    places = [float((mark.get_attribute("x") or "").rstrip("%")) for mark in marks.all()]
    assert places == pytest.approx([100 * (step - 0.5) / 12 for step in steps], abs=0.5)


def expect_marks_in_folded_text_once_it_is_open(page: Page) -> None:
    wait_for_marks(page, 1)
    before = marked(page)
    unfold = page.locator("#step a.unfold")
    while unfold.count():
        address = unfold.first.get_attribute("href")
        unfold.first.click()
        expect(page.locator(f"#step a.unfold[href='{address}']")).to_have_count(0)
    wait_for_marks(page, before + 1)


def test_a_match_in_a_folded_input_is_opened_and_changes_of_the_page_need_not_update_it(
    page: Page, project: Project
) -> None:
    session = create_session(project, names={"title": "Folded"})
    hidden = draft(ModelInput(content="the needle", channel="meta"))
    append(project, session.pk, [act(), ok(), hidden, act(), ok()])
    page.goto(page_of(session, "?step=1"))
    find(page, "the needle")
    step_is(page, 2)
    expect(page.locator("#step details.noted")).to_have_attribute("open", "")
    assert page.evaluate("[...CSS.highlights.get('find')].map((each) => each.constructor.name)") == [
        "StaticRange"
    ]


def test_folded_text_is_unfolded_up_to_the_match_or_a_button_unfolds_more(
    page: Page, project: Project
) -> None:
    session = create_session(project, names={"title": "Folded lines"})
    lines, pages = "a line\n" * 300, f"{'word ' * 12_000}\n" * 4
    results = [ok(outputs=text + "the needle") for text in (lines, pages)]
    append(project, session.pk, [act(), ok(), act(), results[0], act(), results[1], act(), ok()])
    page.goto(page_of(session, "?step=1"))
    find(page, "the needle")
    step_is(page, 2)
    wait_for_marks(page, 1)
    page.wait_for_function(f"() => {BOTTOM}([...CSS.highlights.get('find')][0]) <= innerHeight")
    folded = page.get_by_role("button", name="Match in folded text")
    expect(folded).to_be_hidden()
    page.keyboard.press("n")
    step_is(page, 3)
    expect(folded).to_be_visible()
    assert marked(page) == 0
    folded.click()
    wait_for_marks(page, 1)
    expect(folded).to_be_hidden()
    page.goto(page_of(session, "?step=2&find=the+needle"))
    folded.click()
    wait_for_marks(page, 1)


def test_a_long_word_is_found_and_selected_as_if_it_was_not_divided(page: Page, server: str) -> None:
    project = sign_in(page.context, server)
    session = create_session(project)
    word = "AV" * 47 + "needlethread" + "AV" * 90
    append(project, session.pk, [draft(ModelInput(content="Read this.")), draft(ModelOutput(text=word))])
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(page_of(session, "?step=1"))
    answer = page.locator("#step .part-answer .prose")
    expect(answer.locator("wbr")).to_have_count(2)
    find(page, "needlethread")
    wait_for_marks(page, 1)
    answer.evaluate("(answer) => getSelection().selectAllChildren(answer)")
    assert page.evaluate("getSelection().toString().trim()") == word


def test_a_match_and_a_failure_are_scrolled_into_view(page: Page, project: Project) -> None:
    session = create_session(project, names={"title": "Long step"})
    names = [f"c{number}" for number in range(15)]
    results = [ok(name, "some\nlines\n" * 3) for name in names[:-1]]
    append(project, session.pk, [act(), ok(), tool_calls(*names), *results])
    append(project, session.pk, [failed("c14", "line\n" * 60 + "the needle"), act("bash", command="make")])
    append(project, session.pk, [ok(outputs="line\n" * 40 + "the needle"), act(), ok()])
    page.goto(page_of(session, "?step=1"))
    find(page, "the needle")
    step_is(page, 2)
    failure = page.locator("#failure", has_text="the needle")
    wait_for_marks(page, 1)
    page.wait_for_function(f"() => {BOTTOM}([...CSS.highlights.get('find')][0]) <= innerHeight")
    page.keyboard.press("n")
    step_is(page, 3)
    terminal = "document.querySelector('#step .screen').getBoundingClientRect().bottom"
    page.wait_for_function(
        f"() => [...CSS.highlights.get('find')].some((each) => {BOTTOM}(each) <= {terminal})"
    )
    page.keyboard.press("ArrowRight")
    step_is(page, 4)
    assert page.evaluate("document.getElementById('step').scrollTop") == 0
    page.locator("[data-find-clear]").click()
    page.keyboard.press("E")
    step_is(page, 2)
    expect(failure).to_be_in_viewport()
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(page_of(session, "?step=2#failure"))
    top, bottom = (
        f"document.querySelector('{one}').getBoundingClientRect()" for one in ("#failure", ".timeline")
    )
    below = f"{top}.top - {bottom}.bottom"
    page.wait_for_function(f"() => scrollY > 0 && {below} >= 0 && {below} < 40")
    page.set_viewport_size({"width": 740, "height": 360})  # the timeline is not at the top
    page.goto(page_of(session, "?step=2#failure"))
    page.wait_for_function(f"() => scrollY > 0 && {bottom}.bottom < 0 && {top}.top >= 0 && {top}.top < 120")


@pytest.mark.thorough
def test_the_form_and_its_links_work_without_scripts(plain: Page, server: str) -> None:
    session = record(sign_in(plain.context, server))
    plain.goto(page_of(session, "?step=4"))
    plain.get_by_role("searchbox", name="Find in this session").fill("ensuresetup")
    plain.get_by_role("button", name="Find", exact=True).click()
    expect(plain.locator("[data-found]")).to_contain_text("3 steps")
    plain.get_by_role("link", name="Next step with this text").click()
    step_is(plain, 7)
    expect(plain.locator("[data-found]")).to_contain_text("2 of 3")

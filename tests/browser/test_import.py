"""Transcripts are chosen on the import page or dropped onto it. Each shows its progress and its report."""

import json
import re

from playwright.sync_api import FilePayload, Page, expect

from historyapp.models import Project, Session

MESSAGES = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello!"}]
DROP = """(files) => {
    const transfer = new DataTransfer();
    for (const [name, text] of files) transfer.items.add(new File([text], name));
    for (const name of ["dragover", "drop"])
        document.body.dispatchEvent(
            new DragEvent(name, {dataTransfer: transfer, bubbles: true, cancelable: true}));
}"""


def test_chosen_and_dropped_files_are_imported_one_by_one_and_a_refusal_is_reported(
    page: Page, project: Project
) -> None:
    page.set_viewport_size({"width": 1366, "height": 640})
    page.goto("/imports")
    content = json.dumps(MESSAGES)
    chat = FilePayload(name="chat.json", mimeType="application/json", buffer=content.encode())
    page.get_by_label("Files").set_input_files(chat)
    page.get_by_role("button", name="Import").click()
    uploads = page.locator("#uploads li")
    expect(uploads).to_have_text(["chat.json" + "done"])
    expect(page.get_by_role("link", name="Hello?")).to_be_in_viewport()  # on the screen of a laptop
    page.evaluate(DROP, [["noise.json", '{"no": "transcript"}'], ["again.json", content]])
    expect(uploads).to_have_text(["chat.json" + "done", "noise.json" + "not imported", "again.json" + "done"])
    expect(page.locator(".report h2 bdi")).to_have_text(["chat.json", "noise.json", "again.json"])
    expect(page.locator(".report [role=alert]")).to_be_visible()
    assert [session.steps for session in Session.objects.all()] == [1, 1]
    page.evaluate(
        DROP, [["photo.PNG", "no text"], ["third.JSON", content], *([f"{n}.md", ""] for n in range(6))]
    )
    expect(page.locator("#ignored")).to_have_text(
        "Not imported: 7 files whose names do not end in .jsonl, .json or .traj: "
        "photo.PNG, 0.md, 1.md, 2.md, 3.md and 2 more."
    )
    expect(uploads).to_have_count(4)
    expect(uploads.last).to_have_text("third.JSON" + "done")
    page.route("**/imports", lambda route: route.fulfill(status=413, body="too large"))
    page.evaluate(DROP, [["large.json", content]])
    expect(uploads.last).to_contain_text("not imported: the server answered with an error (413)")
    expect(page.locator("#ignored")).to_be_hidden()
    assert Session.objects.count() == 3
    report = page.locator(".report").first
    expect(report).to_contain_text("Hello?")
    expect(report.get_by_role("link")).to_have_attribute("href", re.compile("^/sessions/"))
    page.set_viewport_size({"width": 360, "height": 740})
    cell = report.get_by_role("rowheader").bounding_box()
    assert cell is not None
    assert cell["width"] > 140, "a title on a narrow screen has more than one letter in a line"
    table = report.get_by_role("group", name="Imported sessions")
    assert table.evaluate("table => table.scrollWidth > table.clientWidth")
    shadows = table.evaluate("table => getComputedStyle(table).backgroundAttachment")
    assert shadows == "local, local, scroll, scroll", "a shadow shows that the table continues"

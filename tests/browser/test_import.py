"""Transcripts are dropped onto the import page, and each shows its progress and its report."""

import json

from playwright.sync_api import Page, expect

from historyapp.models import Project, Session

MESSAGES = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello!"}]
DROP = """(files) => {
    const transfer = new DataTransfer();
    for (const [name, text] of files) transfer.items.add(new File([text], name));
    for (const name of ["dragover", "drop"])
        document.body.dispatchEvent(
            new DragEvent(name, {dataTransfer: transfer, bubbles: true, cancelable: true}));
}"""


def test_dropped_files_are_imported_one_by_one(page: Page, project: Project) -> None:
    page.goto("/imports")
    page.evaluate(DROP, [["chat.json", json.dumps(MESSAGES)], ["noise.json", '{"no": "transcript"}']])
    expect(page.locator("#uploads li")).to_have_text(["chat.json" + "done", "noise.json" + "done"])
    expect(page.locator(".report h2 bdi")).to_have_text(["chat.json", "noise.json"])
    expect(page.locator(".report").first).to_contain_text("Hello?")
    expect(page.locator(".report [role=alert]")).to_be_visible()
    assert Session.objects.get().steps == 1


def test_a_server_that_refuses_a_file_is_reported_beside_it(page: Page, project: Project) -> None:
    page.goto("/imports")
    page.route("**/imports", lambda route: route.fulfill(status=413, body="too large"))
    page.evaluate(DROP, [["chat.json", json.dumps(MESSAGES)]])
    expect(page.locator("#uploads")).to_contain_text("not imported: the server answered with an error (413)")
    assert not Session.objects.exists()

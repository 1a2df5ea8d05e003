"""Static files come from the packages and are cached for ever under hashed names."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.templatetags.static import static
from django.test import Client

from historyapp.static import JOINED, StaticFilesMiddleware, content_of, hashed

NAME = "django_htmx/htmx-2.min.js"


def test_the_address_changes_with_the_bytes() -> None:
    before = hashed("css/app.css", b"a {}")
    assert before.startswith("css/app.")
    assert before.endswith(".css")
    assert hashed("css/app.css", b"b {}") != before


def test_a_hashed_address_is_served_for_ever(client: Client) -> None:
    response = client.get(static(NAME))
    assert response.status_code == 200
    assert "immutable" in response["Cache-Control"]


def test_a_plain_address_is_served_for_a_minute(client: Client) -> None:
    response = client.get(f"/static/{NAME}")
    assert response.status_code == 200
    assert response["Cache-Control"] == "max-age=60, public"


def test_another_hash_is_not_found(client: Client) -> None:
    assert client.get("/static/django_htmx/htmx-2.min.000000000000.js").status_code == 404


def test_a_template_that_names_a_missing_file_fails_at_once() -> None:
    with pytest.raises(ValueError, match="no static file"):
        static("missing.css")


@pytest.mark.parametrize("path", ["/static/../settings.py", "/static/%2e%2e/settings.py", "/static/"])
def test_no_other_file_is_served(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("name", JOINED)
def test_joined_files_are_served_under_a_hashed_address(name: str, client: Client) -> None:
    response = client.get(static(name))
    assert response.status_code == 200
    assert (
        response["Content-Type"]
        == f'text/{"css" if name.endswith(".css") else "javascript"}; charset="utf-8"'
    )
    assert "immutable" in response["Cache-Control"]
    content = b"".join(response.streaming_content)  # type: ignore[attr-defined]
    assert all(content_of(part) in content for part in JOINED[name])
    assert client.get(f"/static/{name}")["Cache-Control"] == "max-age=60, public"
    assert client.head(static(name)).status_code == 200
    assert client.post(static(name)).status_code == 405


def test_every_style_sheet_of_the_pages_is_joined() -> None:
    others = {"css/admin.css"}
    assert {f"css/{path.name}" for path in Path("static/css").glob("*.css")} - others == set(
        JOINED["joined/styles.css"]
    )


@pytest.mark.parametrize("name", [part for name in JOINED if name.endswith(".js") for part in JOINED[name]])
def test_a_joined_script_imports_nothing(name: str) -> None:
    """It is a block of another module, in which ``import`` and ``export`` are errors."""
    assert not re.search(r"^(import|export)\b", content_of(name).decode(), re.MULTILINE)


def test_the_scripts_of_the_session_page_are_short() -> None:
    """A visitor loads at most 60 KB of scripts, headers included."""
    names = ["joined/page.js", "joined/session.js", "js/events.js", "js/palette.js", NAME]
    assert sum(len(gzip.compress(content_of(name), 6)) for name in names) < 57_000


def test_with_debug_joined_files_are_read_at_each_request(client: Client, settings: Any) -> None:
    settings.DEBUG = True
    assert static("joined/page.js") == "/static/joined/page.js"
    file = StaticFilesMiddleware(lambda request: None).find_file("/static/joined/page.js")
    assert file.get_response("GET", {}).file.read() == content_of("joined/page.js")

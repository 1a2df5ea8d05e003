"""Static files come from the packages and are cached for ever under hashed names."""

from pathlib import Path

import pytest
from django.templatetags.static import static
from django.test import Client

from historyapp.static import hashed

NAME = "django_htmx/htmx-2.min.js"


def test_the_address_changes_with_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "app.css"
    path.write_text("a {}")
    before = hashed("css/app.css", path)
    path.write_text("b {}")
    assert before.startswith("css/app.")
    assert before.endswith(".css")
    assert hashed("css/app.css", path) != before


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

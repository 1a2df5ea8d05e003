"""The theme: light, dark, or the system's."""

import pytest
from django.test import Client

from tests.dashboard.pages import html


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chosen_theme_is_remembered(client: Client, db: None, theme: str) -> None:
    response = client.post(
        "/theme", {"theme": theme}, headers={"referer": "http://testserver/sign-in?next=/x"}
    )
    assert response["Location"] == "http://testserver/sign-in?next=/x"
    assert f'data-theme="{theme}"' in html(client.get("/sign-in"))


def test_auto_leaves_the_choice_to_the_system(client: Client, db: None) -> None:
    client.post("/theme", {"theme": "dark"})
    client.post("/theme", {"theme": "auto"})
    assert "data-theme" not in html(client.get("/sign-in"))


def test_a_theme_that_does_not_exist_is_refused(client: Client, db: None) -> None:
    assert client.post("/theme", {"theme": "<b>"}).status_code == 422


def test_a_forged_cookie_changes_nothing(client: Client, db: None) -> None:
    client.cookies["theme"] = '"><script>alert(1)</script>'
    page = html(client.get("/sign-in"))
    assert "data-theme" not in page
    assert "alert(1)" not in page


@pytest.mark.parametrize("referer", ["https://evil.example/", "nowhere", "x\x00", "sessions"])
def test_choosing_a_theme_never_redirects_to_another_site(client: Client, db: None, referer: str) -> None:
    response = client.post("/theme", {"theme": "dark"}, headers={"referer": referer})
    assert response["Location"] == "/"

"""Where a run worked, from its metadata."""

import pytest

from historyapp.core.run_places import folder_of, places_in, repository_of


@pytest.mark.parametrize(
    ("metadata", "folder"),
    [
        ({"cwd": "/srv/app/"}, "/srv/app"),
        ({"cwd": "/"}, "/"),
        ({"workdir": "C:\\work\\app\\"}, "C:\\work\\app"),
        ({"cwd": None, "folder": " a \n b "}, "a b"),
        ({"cwd": ["/work"]}, ""),
        ({"cwd": "/x" * 400}, "/x" * 150),
        ({}, ""),
    ],
)
def test_the_folder_comes_from_the_metadata(metadata: dict[str, object], folder: str) -> None:
    assert folder_of(metadata) == folder


@pytest.mark.parametrize(
    ("metadata", "repository"),
    [
        ({"repository": "https://github.com/acme/app.git"}, "github.com/acme/app"),
        ({"repository": "https://joe:secret@github.com/acme/app?token=1"}, "github.com/acme/app"),
        ({"repository": "git@github.com:acme/app.git"}, "github.com/acme/app"),
        ({"repository": "ssh://git@github.com:22/acme/app/"}, "github.com:22/acme/app"),
        ({"repo": "acme/app"}, "acme/app"),
        ({"instance_id": "marshmallow-code__marshmallow-1867"}, "marshmallow-code/marshmallow"),
        ({"instance_id": "django__django-11099"}, "django/django"),
        ({"instance_id": "web_i_got_id"}, ""),
        ({"repository": 5}, ""),
    ],
)
def test_the_repository_is_an_address_without_a_login(metadata: dict[str, object], repository: str) -> None:
    assert repository_of(metadata) == repository


def test_a_fork_inherits_the_folder_of_its_parent() -> None:
    assert places_in({"cwd": "/work", "version": "1", "repo": "a/b"}) == {"cwd": "/work", "repo": "a/b"}

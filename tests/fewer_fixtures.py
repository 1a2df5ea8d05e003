"""A pytest plugin that leaves out what fixtures cost in tests that do not need them.

pytest-django sets up eight fixtures for every test, and pytest looks again at each fixture of the session and
at all that it needs. Both took half of the time of a short test.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from _pytest.fixtures import FixtureDef, FixtureRequest
from _pytest.scope import Scope

_UNUSED = {
    "_dj_autoclear_mailbox",  # Playhead sends no mail
    "_django_clear_site_cache",  # and does not use django.contrib.sites
    "_django_isolate_apps",  # no test has the mark isolate_apps
    "_django_set_urlconf",  # no test has the mark urls
    "_django_setup_unittest",  # no test is a method of a TestCase
    "_template_string_if_invalid_marker",  # no test has the mark ignore_template_errors
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    manager = vars(session)["_fixturemanager"]
    of_every_test = manager._getautousenames

    def needed(node: pytest.Item) -> Iterable[str]:
        uses_database = node.get_closest_marker("django_db") is not None
        for name in of_every_test(node):
            if name == "_django_db_marker":  # it requests the helper while a test is set up
                if uses_database:
                    yield "_django_db_helper"
            elif name not in _UNUSED:
                yield name

    manager._getautousenames = needed


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        names = getattr(item, "fixturenames", [])
        if "_live_server_helper" in names and "live_server" not in names:
            names.remove("_live_server_helper")
        # A fixture that needs it gets its own.
        if "request" in names and "request" not in vars(item)["_fixtureinfo"].argnames:
            names.remove("request")
    yield


def pytest_configure() -> None:
    usual = FixtureRequest._get_active_fixturedef

    def active(request: Any, name: str) -> Any:
        newest = (request._arg2fixturedefs.get(name) or [None])[-1]
        return newest if _stays(newest) and not _has_parameter(request, name) else usual(request, name)

    pytest.MonkeyPatch().setattr(FixtureRequest, "_get_active_fixturedef", active)


def _stays(fixture: FixtureDef[Any] | None) -> bool:
    """Whether its value stays the same until the session ends."""
    if fixture is None or fixture._scope is not Scope.Session or fixture.params or not fixture.cached_result:
        return False
    return fixture.cached_result[2] is None  # no error


def _has_parameter(request: Any, name: str) -> bool:
    callspec = getattr(request._pyfuncitem, "callspec", None)
    return callspec is not None and name in callspec.params

"""Caches that live as long as the process hold no texts of any length."""

import tracemalloc
from collections.abc import Callable

import pytest

from dashboard.rendering.code import language_of
from historyapp.core.identifiers import identifiers
from historyapp.core.search_tokens import tokens_of
from historyapp.front.environ import environ_of, headers_of
from tests.front.one_request import scope_of

MB = 1 << 20


def read_header(text: str) -> None:
    scope = scope_of("GET", "/", (text.encode(), b"value"))
    environ_of(scope, headers_of(scope), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("use", [language_of, tokens_of, identifiers, read_header])
def test_a_cache_keeps_no_long_text(use: Callable[[str], object]) -> None:
    tracemalloc.start()
    try:
        use("Warm/Up.py")
        before, _ = tracemalloc.get_traced_memory()
        for number in range(10):
            use(f"A{number}" * (MB // 2))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < MB

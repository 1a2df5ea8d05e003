"""Pages shorten long names without reading all of them."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from django.template import Context, Template

ROOT = Path(__file__).parents[2] / "templates"
SLOW = re.compile(r"\|(truncate\w+|slugify)")
"""Filters of Django that put the marks of a text in order, in quadratic time."""


def test_a_long_name_is_shortened_without_putting_its_marks_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(form: str, text: str) -> Any:
        raise AssertionError("Its time is quadratic, and all other threads wait.")

    template = Template("{% load playhead %}{{ name|visible|truncatechars:60 }}")
    with monkeypatch.context() as patch:  # pytest calls it, too
        patch.setattr(unicodedata, "normalize", refuse)
        shown = template.render(Context({"name": "a" + "\u0301\u0316" * 100}))
    assert shown == "a" + "\u0301\u0316" * 29 + "…"
    assert template.render(Context({"name": "<b>"})) == "&lt;b&gt;"


def test_templates_use_no_filter_of_django_that_shortens_or_normalizes() -> None:
    for path in ROOT.rglob("*.html"):
        text = path.read_text()
        used = set(SLOW.findall(text))
        assert used <= {"truncatechars"}, path
        assert not used or re.search(r"{% load [^%]*\bplayhead\b", text), f"{path} uses Django's filter"

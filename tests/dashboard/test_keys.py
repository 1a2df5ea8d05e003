"""The table of keys: the page, its help and the documentation are made from it."""

import os
from pathlib import Path

from django.test import Client

from dashboard.jumps import JUMPS
from dashboard.keys import KEYS
from historyapp.models import Session
from tests.dashboard.pages import html

DOCS = Path(__file__).parents[2] / "docs" / "dashboard.md"
START, END = "<!-- from dashboard/keys.py -->\n", "\nWhile a field"


def test_the_documentation_is_made_from_the_table() -> None:
    """To rewrite it: ``REWRITE=1 pytest tests/dashboard/test_keys.py``."""
    before, _, rest = DOCS.read_text().partition(START)
    _, end, after = rest.partition(END)
    rows = [f"| {' '.join(key.shown for key in row.keys)} | {row.does} |\n" for row in KEYS]
    made = f"{before}{START}\n| key | does |\n|---|---|\n{''.join(rows)}{end}{after}"
    if "REWRITE" in os.environ:
        DOCS.write_text(made)
    assert DOCS.read_text() == made


def test_the_page_has_the_whole_table(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}"))
    for row in KEYS:
        assert row.does in page
        for key in row.keys:
            name = "jump" if key.is_jump else "action"
            shown = key.key.replace("<", "&lt;").replace(">", "&gt;")
            assert f'<kbd data-key="{shown}" data-{name}="{key.action}">' in page


def test_no_key_does_two_things_and_every_jump_has_a_key() -> None:
    keys = [key for row in KEYS for key in row.keys]
    assert len({key.key for key in keys}) == len(keys)
    assert {key.action for key in keys if key.is_jump} == set(JUMPS)


def test_no_key_needs_altgr_and_none_is_a_key_of_the_browser() -> None:
    """``[ ] { } @ \\ | ~`` need AltGr on many keyboards; the others scroll, or move the focus."""
    keys = {key.key for row in KEYS for key in row.keys}
    assert not keys & {*"[]{}@\\|~'`^", "Tab", "Enter", "Escape", "Home", "End", "ArrowUp", "ArrowDown"}

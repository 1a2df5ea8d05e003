"""The tables of keys: the pages, their help and the documentation are made from them."""

import os
from pathlib import Path

from django.test import Client

from dashboard.jumps import JUMPS
from dashboard.keys import KEYS, OVERVIEW_KEYS, KeyRow
from historyapp.models import Project, Session
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.dashboard.pages import html
from tests.services.drafts import act, ok

DOCS = Path(__file__).parents[2] / "docs" / "dashboard.md"
START = "<!-- from dashboard/keys.py"


def _table(rows: tuple[KeyRow, ...]) -> str:
    lines = [f"| {' '.join(key.shown for key in row.keys)} | {row.does} |\n" for row in rows]
    return f"\n| key | does |\n|---|---|\n{''.join(lines)}"


def test_the_documentation_is_made_from_the_tables() -> None:
    """To rewrite it: ``REWRITE=1 pytest tests/dashboard/test_keys.py``."""
    before, *parts = DOCS.read_text().split(START)
    made = before
    for part, rows in zip(parts, (KEYS, OVERVIEW_KEYS), strict=True):
        head, _, rest = part.partition("-->\n")
        after = rest.lstrip().partition("\n\n")[2]
        made += f"{START}{head}-->\n{_table(rows)}\n{after}"
    if "REWRITE" in os.environ:
        DOCS.write_text(made)
    assert DOCS.read_text() == made


def test_the_overview_has_its_own_table(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}/overview"))
    for row in OVERVIEW_KEYS:
        assert row.does in page
    assert "play or pause" not in page
    assert f'data-href="/sessions/{session.pk}?step=3#failure"' in page, "the first step that failed"
    assert f'data-href="/sessions/{session.pk}?step=5"' in page
    assert "<h2>Timeline</h2>" not in page


def test_the_overview_has_no_key_that_leads_to_no_step(alice: Client, project: Project) -> None:
    empty = create_session(project)
    page = html(alice.get(f"/sessions/{empty.pk}/overview"))
    assert "first step, newest step" not in page
    assert "show this list" in page
    append(project, empty.pk, [act(), ok()])
    page = html(alice.get(f"/sessions/{empty.pk}/overview"))
    assert "first step, newest step" in page
    assert "the first step that failed" not in page


def test_the_page_has_the_whole_table(alice: Client, session: Session) -> None:
    page = html(alice.get(f"/sessions/{session.pk}"))
    for row in KEYS:
        assert row.does in page
        for key in row.keys:
            name = "jump" if key.is_jump else "action"
            shown = key.key.replace("<", "&lt;").replace(">", "&gt;")
            assert f'<kbd data-key="{shown}" data-{name}="{key.action}"' in page


def test_no_key_does_two_things_and_every_jump_has_a_key() -> None:
    for rows in (KEYS, OVERVIEW_KEYS):
        keys = [key for row in rows for key in row.keys]
        assert len({key.key for key in keys}) == len(keys)
    keys = [key for row in KEYS for key in row.keys]
    assert {key.action for key in keys if key.is_jump} == set(JUMPS)


def test_no_key_needs_altgr_and_none_is_a_key_of_the_browser() -> None:
    """``[ ] { } @ \\ | ~`` need AltGr on many keyboards; the others scroll, or move the focus."""
    keys = {key.key for row in (*KEYS, *OVERVIEW_KEYS) for key in row.keys}
    assert not keys & {*"[]{}@\\|~'`^", "Tab", "Enter", "Escape", "Home", "End", "ArrowUp", "ArrowDown"}

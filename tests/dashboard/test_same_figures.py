"""The list, the head, the ledger and the overview of a session show one token and one money figure."""

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.templatetags.playhead import dollars, short_figure
from historyapp.core.importers.base import Source
from historyapp.models import Project, Session
from historyapp.services.imports.files import import_file
from tests.dashboard.pages import html
from tests.examples import runs_all_examples, thorough
from tests.shared import SHARED, needs

FORMATS = [
    "claude_code", "codex_rollout", "openai_chat",
    *map(thorough, ["anthropic_messages", "mini_swe_agent", "openhands", "swe_agent_traj"]),
]  # fmt: skip
LARGEST = 300_000
"""The tests import the largest files of each format of at most this many bytes."""


def imported(project: Project, format: str) -> list[Session]:
    """The sessions of some files of a format."""
    files = [path for path in (SHARED / "corpus" / format).rglob("*") if path.is_file()]
    small = sorted((path for path in files if path.stat().st_size <= LARGEST), key=_size, reverse=True)
    for path in small:
        with path.open("rb") as stream:
            import_file(project, Source(path.name, stream, str(path.parent)))
        if Session.objects.filter(steps__gt=0).count() >= (2 if runs_all_examples() else 1):
            break
    return list(Session.objects.filter(steps__gt=0))


def _size(path: Path) -> tuple[int, str]:
    return path.stat().st_size, path.name


def figures_of_list(client: Client, session: Session) -> tuple[int, str, str]:
    """Tokens, money and time. The money is empty if unknown, and has ≥ if it is too low; the time is – if it
    is unknown."""
    filtered = {"agent": session.agent}  # without a filter a sub-agent is folded under its parent
    rows = html(client.get(reverse("sessions"), filtered)).partition("<tbody")[2]
    row = rows.partition(f"/sessions/{session.pk}")[2].partition("</tr>")[0]
    time = _words(r'data-label="errors?">.*?</td>\s*<td class="number(?: none)?">([^<]*)</td>', row)
    return _number(r'title="([\d,]+)\. ', row), _words(r">\s*((?:≥ )?\$[\d.,]+)</td>", row), time


def _number(pattern: str, page: str) -> int:
    match = re.search(pattern, page)
    assert match, page[:2000]
    return int(match[1].replace(",", ""))


def _words(pattern: str, page: str) -> str:
    match = re.search(pattern, page, re.DOTALL)
    return " ".join(match[1].split()) if match else ""


@needs("corpus")
@pytest.mark.parametrize("format", FORMATS)
def test_all_pages_agree(alice: Client, project: Project, format: str) -> None:
    sessions = imported(project, format)
    assert sessions
    for session in sessions:
        tokens, listed, time = figures_of_list(alice, session)
        head = html(alice.get(reverse("session", args=[session.pk]))).partition('class="tabs"')[0]
        assert _number(r'title="([\d,]+)\. [^"]*"><b>', head) == tokens
        money = _words(r'title="[^"]*">\s*<b>((?:≥ )?\$[\d.,]+)</b>', head)
        assert listed == money
        ledger = html(alice.get(reverse("ledger", args=[session.pk])))
        label = "Input tokens" if "Tokens, estimated" not in ledger else "Tokens, estimated"
        assert _number(rf"{label}</dt>\s*<dd>([\d,]+)</dd>", ledger) == tokens
        assert _words(r"Cost</dt>\s*<dd>([^<]*)</dd>", ledger) == (money or "unknown")
        overview = html(alice.get(reverse("overview", args=[session.pk])))
        assert _words(r'id="tokens">.*?class="big">([\d.]+[kMG]?)', overview) == short_figure(tokens)
        assert _words(r'id="money">.*?class="big">([^<]*)</p>', overview) == (money or "unknown")
        total = _words(r'id="time">.*?class="big">([^<]*)</p>', overview)
        total = _words(r"newest entry it is ([^<:]*), as in lists", overview) or total
        assert total in ("undated", "unknown") if time == "–" else time == total


def test_without_reported_usage_the_ledger_shows_the_estimate_and_no_money(
    alice: Client, session: Session
) -> None:
    ledger = html(alice.get(reverse("ledger", args=[session.pk])))
    assert (
        _number(r"Tokens, estimated</dt>\s*<dd>([\d,]+)</dd>", ledger) == figures_of_list(alice, session)[0]
    )
    assert "<dd>unknown</dd>" in ledger
    assert dollars(0) not in ledger.partition("</dl>")[0]

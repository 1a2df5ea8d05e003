"""How values and labels read."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.forms.settings import SETTINGS
from dashboard.templatetags import playhead
from historyapp.core.episodes import STATUSES


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("bash(command='ls -la')", "ls -la"),
        ("bash(command='ls', timeout=5)", "ls timeout=5"),
        ("bash(command=\"echo 'a'\")", "echo 'a'"),
        ("bash(all=True, n=3, command='ls')", "ls"),
        ("bash(path='/home/me/code/project/src/a.py')", "…/src/a.py"),
        ("bash(path='/etc/passwd')", "/etc/passwd"),
        ("bash(options={'a': 1})", "options={'a': 1}"),
        ("bash()", ""),
        ("bash(command='cut off in the mid…", "command='cut off in the mid…"),
        ("other(x=1)", "other(x=1"),
    ],
)
def test_a_calls_preview_begins_with_what_matters(call: str, shown: str) -> None:
    assert playhead.arguments(call, ["bash"]) == shown


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        ("a(path='x'); b(path='y', n=1); a()", "x · y n=1"),
        ("a(); b(path='y'); a(path='z')", "y · z"),
        ("a(path='x'); b(path='cut off in the mid…", "x · path='cut off in the mid…"),
        ("a(path='cut off); b in the mid…", "path='cut off); b in the mid…"),
    ],
)
def test_the_previews_of_several_calls_stand_side_by_side(calls: str, shown: str) -> None:
    assert playhead.arguments(calls, ["a", "b", "a"]) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (12_345, "12k"),
        (999_499, "999k"),
        (999_999, "1.0M"),
        (3_400_000, "3.4M"),
        (10**10, "10G"),
    ],
)
def test_short_figures(number: int, shown: str) -> None:
    assert playhead.short_figure(number) == shown


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (timedelta(milliseconds=340), "340 ms"),
        (timedelta(seconds=2.14), "2.1 s"),
        (timedelta(seconds=200), "3 min 20 s"),
        (timedelta(seconds=59.97), "1 min 0 s"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(hours=140, minutes=40), "5 days 20 h"),
        (timedelta(hours=25), "1 day 1 h"),
        (timedelta(seconds=-5), "0 ms"),
        (None, ""),
    ],
)
def test_durations(span: timedelta | None, shown: str) -> None:
    assert playhead.duration(span) == shown


def test_tools_that_were_called_repeatedly_are_named_once() -> None:
    tools = ["Read", "Bash", "Read", "Edit", "Grep", "Glob"]
    assert playhead.names(tools) == "Read ×2, Bash, Edit, Grep"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(5, "just now"), (-60, "just now"), (300, "5 min ago"), (7_200, "2 h ago"), (3 * 86_400, "3 d ago")],
)
def test_times_near_now(seconds: int, shown: str) -> None:
    assert playhead.ago(datetime.now(UTC) - timedelta(seconds=seconds)) == shown


def test_times_long_ago_are_dates() -> None:
    assert playhead.ago(datetime(2025, 3, 9, tzinfo=UTC)) == "9 Mar 2025"


def test_money_has_cents_or_finer_fractions() -> None:
    assert [playhead.dollars(micros) for micros in (1_234_560_000, 250_000, 1_200)] == [
        "$1,234.56",
        "$0.25",
        "$0.0012",
    ]


def test_every_status_has_an_icon_and_a_word() -> None:
    for status in STATUSES:
        assert playhead.OUTCOMES[status][1] in playhead.outcome(status)
        assert f'aria-label="{playhead.OUTCOMES[status][1]}"' in playhead.outcome(status, words=False)


def test_every_icon_that_is_used_exists() -> None:
    root = Path(__file__).parents[2]
    used = {name for name, _ in playhead.OUTCOMES.values()}
    for template in (root / "templates").glob("*.html"):
        used |= set(re.findall(r'{% icon "([a-z]+)"', template.read_text()))
    assert used == set(re.findall(r'<symbol id="([a-z]+)"', (root / "static" / "icons.svg").read_text()))


ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile(
    r"\b(by itself|by themselves|by its like|so many|what became of|that is none|of which|besides|of it"
    r"|hears?|told|said|dearer|wish(es)?|asked|mended|begin anew|go(es)? on|gone on|take (it )?out of"
    r"|look at it|under way|hopeless)\b",
    re.IGNORECASE,
)
"""Riddles that a reader had to guess: each has a plain word."""


def shown(template: str) -> str:
    """What people read of a template: its text, titles, labels and placeholders."""
    source = re.sub(r"{#.*?#}|{{.*?}}|{%.*?%}", " ", template, flags=re.DOTALL)
    attributes = re.findall(r'(?:title|aria-label|placeholder|alt|value)="([^"]*)"', source)
    return " ".join([re.sub(r"<[^>]*>", " ", source), *attributes])


@pytest.mark.parametrize("path", sorted((ROOT / "templates").rglob("*.html")), ids=lambda path: path.name)
def test_templates_have_no_riddles(path: Path) -> None:
    assert FORBIDDEN.findall(shown(path.read_text())) == []


def test_settings_scripts_and_docs_have_no_riddles() -> None:
    scripts = [path.read_text() for path in (ROOT / "static" / "js").glob("*.js")]
    texts = re.findall(r'"([^"\n]* [^"\n]*)"', "\n".join(scripts))
    settings = [f"{setting.label} {setting.help}" for setting in SETTINGS.values()]
    for text in (*texts, *settings, (ROOT / "docs" / "dashboard.md").read_text()):
        assert FORBIDDEN.findall(text) == []

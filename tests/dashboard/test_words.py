"""How values and labels are worded."""

import ast
import re
from collections.abc import Iterator
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
        (r"bash(path='C:\Users\me\code\src\a.py')", r"…\src\a.py"),
        (r"bash(path='C:\\Users\\me\\src\\a.py')", r"…\\src\\a.py"),
        (r"bash(command='echo \\ a b')", r"echo \\ a b"),
        ("bash(options={'a': 1})", "options={'a': 1}"),
        ("bash()", "bash"),
        ("bash(session_id=7, chars='', yield_time_ms=9)", "wait for session 7"),
        ("bash(session_id=7, chars='y', yield_time_ms=9)", "y yield_time_ms=9"),
        ("bash(command='cut off in the mid…", "command='cut off in the mid…"),
        ("other(x=1)", "other(x=1"),
    ],
)
def test_the_preview_of_a_call_begins_with_its_most_important_argument(call: str, shown: str) -> None:
    assert playhead.arguments(call, ["bash"]) == shown


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Repair the totals", "Repair the…"),
        ("Repair the totals (fork)", "Rep… (fork)"),
        ("Totals", "Totals"),
    ],
)
def test_a_long_title_of_a_fork_says_that_it_is_one(title: str, shown: str) -> None:
    assert playhead.short_title(title, 11) == shown


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        ("a(path='x'); b(path='y', n=1); a()", "x · y n=1"),
        ("a(); b(path='y'); a(path='z')", "y · z"),
        ("a(path='x'); b(path='cut off in the mid…", "x · path='cut off in the mid…"),
        ("a(path='cut off); b in the mid…", "path='cut off); b in the mid…"),
    ],
)
def test_the_previews_of_several_calls_are_joined(calls: str, shown: str) -> None:
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
def test_large_numbers_are_shortened(number: int, shown: str) -> None:
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
def test_durations_have_one_or_two_units(span: timedelta | None, shown: str) -> None:
    assert playhead.duration(span) == shown


def test_tools_that_were_called_repeatedly_are_named_once() -> None:
    tools = ["Read", "Bash", "Read", "Edit", "Grep", "Glob"]
    assert playhead.names(tools) == "Read ×2, Bash, Edit, Grep"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(5, "just now"), (-60, "just now"), (300, "5 min ago"), (7_200, "2 h ago"), (3 * 86_400, "3 d ago")],
)
def test_recent_times_are_relative(seconds: int, shown: str) -> None:
    assert playhead.ago(datetime.now(UTC) - timedelta(seconds=seconds)) == shown


def test_times_long_ago_are_dates() -> None:
    assert playhead.ago(datetime(2025, 3, 9, tzinfo=UTC)) == "9 Mar 2025"


def test_money_has_cents_or_finer_fractions() -> None:
    assert [playhead.dollars(micros) for micros in (1_234_560_000, 250_000, 1_200)] == [
        "$1,234.56",
        "$0.25",
        "$0.0012",
    ]


def test_every_status_has_an_icon_and_a_label() -> None:
    for status in STATUSES:
        assert playhead.OUTCOMES[status][1] in playhead.outcome(status)
        assert f'aria-label="{playhead.OUTCOMES[status][1]}"' in playhead.outcome(status, words=False)


def test_every_icon_that_is_used_exists() -> None:
    root = Path(__file__).parents[2]
    used = {name for name, _ in playhead.OUTCOMES.values()}
    for template in (root / "templates").rglob("*.html"):
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


TEMPLATES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("templates/**/*.html"))


def test_templates_have_no_unclear_words() -> None:
    for path in TEMPLATES:
        assert FORBIDDEN.findall(shown((ROOT / path).read_text())) == [], path


def test_settings_scripts_and_the_page_of_the_dashboard_have_no_unclear_words() -> None:
    scripts = [path.read_text() for path in (ROOT / "static" / "js").glob("*.js")]
    texts = re.findall(r'"([^"\n]* [^"\n]*)"', "\n".join(scripts))
    settings = [f"{setting.label} {setting.help}" for setting in SETTINGS.values()]
    for text in (*texts, *settings, (ROOT / "docs" / "dashboard.md").read_text()):
        assert FORBIDDEN.findall(text) == []


RIDDLES = re.compile(
    r"\b(anew|besides|by itself|by themselves|by its like|by their like|dearer|hears?|hopeless|into caches"
    r"|in (its|their) hands|(is|are) none of|mend(s|ed)?|no more of it|no word for|none when it is none"
    r"|of it (reasoning|script)|take (it )?out of|was to be expected|what became of|wish(es|ed)?"
    r"|worth a word)\b",
    re.IGNORECASE,
)
"""Riddles that have no honest use in documentation, docstrings and messages."""
DOCS_ONLY = re.compile(r"\b(so many|told|(go|goes|going|gone|went) on|look at it)\b", re.IGNORECASE)
"""Riddles that strings in Python may contain: texts that models read have them, and logs "go on"."""


def test_pages_of_the_documentation_have_no_unclear_words() -> None:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = " ".join(path.read_text().split())
        riddles = [match[0] for match in (*RIDDLES.finditer(text), *DOCS_ONLY.finditer(text))]
        assert riddles == [], path.name


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and messages of a module with a riddle anywhere, each with its line.

    Few modules have one, and most of these only in a name or comment: to parse all modules took a second.
    """
    source = path.read_text()
    one_line = re.sub(r"\\n|\\\n", " ", source)
    joined = re.sub(r"""["'](?:\s|#.*\n)+[rf]*["']""", "", one_line)  # the parts of a text on several lines
    if not RIDDLES.search(" ".join(joined.split())):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


@pytest.mark.parametrize("folder", ["historyapp", "dashboard"])
def test_docstrings_and_messages_have_no_unclear_words(folder: str) -> None:
    paths = [path for path in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in path.parts]
    riddles = [
        f"{path.relative_to(ROOT)}:{line} {match[0]}"
        for path in paths
        for line, text in sentences(path)
        for match in RIDDLES.finditer(text)
    ]
    assert riddles == []

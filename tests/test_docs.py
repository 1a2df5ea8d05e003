"""The documentation is complete, its links are valid, and its commands print what it says."""

import argparse
import json
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest
from django.core.management import call_command, get_commands, load_command_class

from dashboard.keys import KEYS, OVERVIEW_KEYS
from historyapp.api.context_requests import MAX_TOOLS_SIZE
from historyapp.api.contexts import MAX_STEPS
from historyapp.api.model_calls import MAX_OPTIONS_SIZE
from historyapp.api.root import api
from historyapp.core.entries import BODY, KINDS, ResultStatus
from historyapp.core.episodes import STATUSES
from historyapp.core.errors import PlayheadError
from historyapp.core.exporters import EXPORTERS
from historyapp.core.importers import IMPORTERS
from historyapp.core.json import MAX_CONTAINERS, MAX_DEPTH, MAX_VALUES
from historyapp.core.session_metadata import MAX_METADATA
from historyapp.core.settings import SessionSettings
from historyapp.front.bodies import MAX_CALL
from historyapp.services.append import MAX_ID_CHARACTERS, MAX_TOOL_CALLS
from historyapp.services.idempotency import KEPT_CHARACTERS
from historyapp.terminal.command_line import make_parser
from historyapp.wire.problems import PROBLEM_TYPES
from tests.console import NewReader, agrees, examples, readable, readers
from tests.shared import SHARED, needs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if examples(page.read_text())]
EXPLAINED_ONCE = {"as_of", "limit", "cursor"}
"""Query parameters that are explained once for all endpoints."""


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def sections(page: str, level: int) -> dict[str, str]:
    """A page's text below each heading of a level."""
    parts = re.split(rf"^#{{{level}}} (.+)$", text_of(page), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(page: str) -> set[str]:
    """The first cells of a page's tables that are code."""
    return set(re.findall(r"^\| `([^`]+)`", text_of(page), flags=re.MULTILINE))


def operations() -> dict[str, dict[str, Any]]:
    """The operations of the OpenAPI document, named as in the documentation."""
    paths = api.get_openapi_schema()["paths"].items()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1').replace('session_id', 'id')}": operation
        for path, methods in paths
        for method, operation in methods.items()
    }


def test_every_endpoint_has_a_section_and_every_section_an_endpoint() -> None:
    headings = [title.strip("`") for title in sections("api.md", 3)]
    assert sorted(headings) == sorted(operations())


@pytest.mark.parametrize("name", operations())
def test_an_endpoint_is_documented_with_its_parameters_and_a_command(name: str) -> None:
    section = sections("api.md", 3)[f"`{name}`"].partition("\n## ")[0]
    parameters = {p["name"] for p in operations()[name]["parameters"] if p["in"] == "query"}
    assert {parameter for parameter in parameters - EXPLAINED_ONCE if parameter not in section} == set()
    assert examples(section)


def test_every_kind_of_entry_and_each_of_its_fields_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text_of("concepts.md"), flags=re.MULTILINE)
    explained = dict(rows)
    assert list(explained)[: len(KINDS)] == list(KINDS)
    for definition in BODY.json_schema()["$defs"].values():
        kind = definition["properties"].get("kind", {}).get("const")
        fields = set(definition["properties"]) - {"kind"} if kind else set()
        assert {field for field in fields if f"`{field}`" not in explained[kind]} == set(), kind


def test_every_status_is_explained() -> None:
    text = text_of("concepts.md")
    for status in (*STATUSES, *get_args(ResultStatus)):
        assert f"`{status}`" in text


def test_every_setting_of_a_session_is_listed_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `?([\w.-]+)`? \|", text_of("api.md"), flags=re.MULTILINE)
    settings = SessionSettings().model_dump()
    assert dict(rows) == {name: v if isinstance(v, str) else json.dumps(v) for name, v in settings.items()}


def limits(value: Any) -> set[int]:
    """Every limit in a part of the OpenAPI document."""
    if isinstance(value, list):
        return set().union(*map(limits, value))
    if not isinstance(value, dict):
        return set()
    own = {value.get(name) for name in ("maxLength", "maxItems", "maximum")}
    return {figure for figure in own if isinstance(figure, int)}.union(*map(limits, value.values()))


def test_every_limit_of_the_api_is_in_one_table() -> None:
    table = dict(
        re.findall(r"^\| (.+?) \| ([\d,]+) \|$", sections("api.md", 2)["Limits"], flags=re.MULTILINE)
    )
    figures = {what: int(figure.replace(",", "")) for what, figure in table.items()}
    assert figures["Tool calls of one `model_output`"] == MAX_TOOL_CALLS
    assert figures["Characters of a session's `metadata` as compact JSON in ASCII"] == MAX_METADATA
    assert figures["Levels of nested objects and lists"] == MAX_DEPTH
    assert figures["JSON values in one body"] == MAX_VALUES
    assert figures["Lists and objects in one body"] == MAX_CONTAINERS
    assert figures["Steps in one text of `progress`"] == MAX_STEPS
    assert figures["Characters of a response that is stored for an `Idempotency-Key`"] == KEPT_CHARACTERS
    assert next(figure for what, figure in figures.items() if "PLAYHEAD_MAX_BODY" in what) == 32 * 2**20
    schema = deepcopy(api.get_openapi_schema())  # its parts are the same for all who ask
    del schema["components"]["schemas"]["RewindEntry"]  # a span has three parts
    assert next(figure for what, figure in figures.items() if "IDs of these" in what) == MAX_ID_CHARACTERS
    assert figures["Characters of these tools as compact JSON in ASCII"] == MAX_TOOLS_SIZE
    assert figures["Characters of the `options` of a model call as compact JSON in ASCII"] == MAX_OPTIONS_SIZE
    assert figures["Bytes of the body of a model call"] == MAX_CALL
    set_elsewhere = {MAX_TOOL_CALLS, MAX_DEPTH, MAX_VALUES, MAX_STEPS, MAX_METADATA, KEPT_CHARACTERS}
    set_elsewhere |= {MAX_CONTAINERS, MAX_ID_CHARACTERS, MAX_TOOLS_SIZE, MAX_CALL}
    assert limits(schema) | set_elsewhere | {32 * 2**20} == set(figures.values())


def test_the_page_of_errors_is_made_from_their_list() -> None:
    """To rewrite the page: ``REWRITE=1 pytest tests/test_docs.py -k page_of_errors``."""
    page, start = DOCS / "errors.md", "<!-- from historyapp/wire/problems.py -->\n"
    introduction, _, _ = page.read_text().partition(start)
    made = introduction + start
    for type in PROBLEM_TYPES:
        text = f"**{type.status} {type.title}.** {type.meaning} {type.advice}"
        made += f"\n## {type.code}\n\n{textwrap.fill(text, 120, break_on_hyphens=False)}\n"
    if "REWRITE" in os.environ:
        page.write_text(made)
    assert page.read_text() == made


def kinds_of_error(kind: type[PlayheadError] = PlayheadError) -> set[str]:
    below = (kinds_of_error(other) for other in kind.__subclasses__())
    return {kind.code}.union(*below)


def test_every_error_of_the_server_is_in_the_list() -> None:
    assert kinds_of_error() == {type.code for type in PROBLEM_TYPES}


def test_every_format_is_listed() -> None:
    assert set(IMPORTERS) <= rows("importers.md")
    assert set(EXPORTERS) <= rows("api.md")


def commands() -> list[str]:
    return sorted(name for name, app in get_commands().items() if app == "historyapp")


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command and its subcommands, without Django's."""
    own: set[str] = set()
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue  # only the supervisor uses it
        own |= {option for option in action.option_strings if option.startswith("--")}
        if isinstance(action, argparse._SubParsersAction):
            own = own.union(*(options(below) for below in action.choices.values()))
    return own


def test_every_command_that_looks_at_sessions_has_a_section_with_its_options() -> None:
    (commands,) = (action for action in make_parser()._actions if action.dest == "command")
    shared = sections("commands.md", 2)["Looking at sessions"]
    for name, parser in dict(commands.choices or {}).items():
        section = sections("commands.md", 2)[name] + shared
        assert {option for option in options(parser) if option not in section} <= {"--help"}, name


@pytest.mark.parametrize("name", commands())
def test_every_command_has_a_section_with_its_options(name: str) -> None:
    documented = sections("commands.md", 2)
    section = documented.get(name, documented.get(name.replace("_", "-"), ""))
    assert section
    if name == "up":
        section += text_of("operations.md")
    parser = load_command_class("historyapp", name).create_parser("playhead", name)
    django = options(load_command_class("django.core", "check").create_parser("playhead", "check"))
    missing = {option for option in options(parser) - django if option not in section}
    assert missing <= {"--home"}


def test_the_documented_keys_are_those_of_the_dashboard() -> None:
    shown = [key.shown for row in (*KEYS, *OVERVIEW_KEYS) for key in row.keys]
    table = sections("dashboard.md", 3)["Keys"]
    keys = [
        key for cell in re.findall(r"^\| (\S+(?: \S)?) \|", table, flags=re.MULTILINE) for key in cell.split()
    ]
    assert [key for key in keys if key != "key"] == shown


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_is_valid(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_a_table_stands_below_its_header(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), flags=re.MULTILINE):
        assert re.fullmatch(r"[-:| ]+", table.splitlines()[1]), table[:100]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_contains_a_path_or_key_of_the_author(page: Path) -> None:
    assert not re.search(r"/(work|root|tmp|home)/\w|ph_[\w-]{20}", page.read_text())


@needs("corpus")
def test_the_table_of_counts_is_what_the_import_prints(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("import", str(SHARED / "corpus"), "--dry-run", "--markdown")
    printed = [row for row in capsys.readouterr().out.splitlines() if "(not read)" not in row]
    assert "\n".join(printed) in text_of("importers.md")


@pytest.fixture(scope="module")
def reader(light: None) -> Iterator[NewReader]:
    with readers() as reader:
        yield reader


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs curl and bash")
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_prints_what_the_page_says(page: Path, reader: NewReader) -> None:
    page_examples = examples(page.read_text())
    with reader() as somebody:
        somebody.save_programs(page.read_text())
        printed = somebody.run([example.command for example in page_examples])
    for example, text in zip(page_examples, printed, strict=True):
        assert agrees(example.printed, text), f"{example.command} printed\n{text}"


def test_a_command_that_prints_something_else_is_noticed() -> None:
    markdown = '```console\n$ echo \'{\n  "a": 1}\'\n{"a": 1}\n$ ls\na\n…\nz\n```\n'
    first, second = examples(markdown)
    assert first.command == "echo '{\n  \"a\": 1}'"
    assert agrees(first.printed, readable('{\n  "a": 1}\n'))
    assert not agrees(first.printed, readable('{"a": 2}'))
    assert agrees(second.printed, "a\nb\nc\nz\n")
    assert not agrees(second.printed, "a\nb\n")
    assert agrees("at 2026-01-01T10:00:00Z\n", "at 2027-03-04T11:22:33.456Z\n")

"""The examples of docs/agents.md run against a live server and models on the loopback interface."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_django.live_server_helper import LiveServer

from historyapp import client
from historyapp.client import PlayheadError
from tests.client import episodic_history
from tests.client.test_calls import descriptions
from tests.llm.loopback import Answer, Call, Loopback

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
READ = Call("call_1", "read_file", '{"path": "notes.txt"}')
READ_OTHER = Call("call_2", "read_file", '{"path": "other.txt"}')
ANSWERS = {
    "openai_agent.py": (Answer(calls=(READ,)), Answer(text="Milk and bread.")),
    "anthropic_agent.py": (
        Answer(thoughts="Two files.", opaque="c2lnbmVk", calls=(READ, READ_OTHER)),
        Answer(text="Milk and bread. There is no other list."),
    ),
    "streaming_agent.py": (Answer(calls=(READ,)), Answer(text="Milk and bread, as ever.")),
    "any_model_agent.py": (
        Answer(calls=(READ,)),
        Answer(text="Milk and bread."),
        Answer(text="Milk and bread, as ever."),
    ),
}


class Example(NamedTuple):
    name: str
    """The file name in the code's first line, or the heading above the code."""
    code: str
    printed: str


def examples() -> Iterator[Example]:
    """Each block of Python, with the next block of text, which is its output."""
    heading, code = "", ""
    sections = re.findall(r"^## ([^\n]+)$|^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for place, (title, language, block) in enumerate(sections):
        heading = title or heading
        if language == "python":
            code = block
            named = re.match(r"# (\w+\.py)\n", code)
            printed = next(text for _, language, text in sections[place:] if language == "text")
            yield Example(named[1] if named else heading, code, printed)


EXAMPLES = list(examples())


@pytest.fixture
def reader(
    live_server: LiveServer, api_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Loopback]:
    """A folder with notes, a server, a key, and models with scripted responses."""
    (tmp_path / "notes.txt").write_text("milk, bread")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "history", episodic_history)
    with Loopback() as loopback:
        for name, value in {"PLAYHEAD": live_server.url, "KEY": api_key, **loopback.environment}.items():
            monkeypatch.setenv(name, value)
        yield loopback


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_prints_the_documented_output(
    example: Example, reader: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    reader.steps.extend(ANSWERS.get(example.name, ()))
    exec(compile(example.code, example.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == example.printed
    assert not reader.steps


def test_an_agent_migrates_by_changing_imports_and_one_line() -> None:
    code = {example.name: example.code for example in EXAMPLES}
    before, after = without_imports(code["before.py"]), without_imports(code["after.py"])
    assert before[0].startswith("history = EpisodicHistory(")
    assert after[0].startswith("playhead = Playhead(")
    assert after[1].startswith("history = Recorder.open(")
    assert before[1:] == after[2:]


def without_imports(code: str) -> list[str]:
    """The other statements, one text each."""
    statements = ast.parse(code).body
    return [
        ast.unparse(statement)
        for statement in statements
        if not isinstance(statement, (ast.Import, ast.ImportFrom))
    ]


@pytest.mark.parametrize("name", descriptions())
def test_every_method_is_listed(name: str) -> None:
    assert f"`{name}`" in PAGE


def client_errors() -> list[type[PlayheadError]]:
    """The errors that the client exports; the server has more."""
    exported = [getattr(client, name) for name in client.__all__]
    errors = [each for each in exported if isinstance(each, type) and issubclass(each, PlayheadError)]
    return [error for error in errors if error is not PlayheadError]


@pytest.mark.parametrize("kind", client_errors(), ids=lambda kind: kind.__name__)
def test_every_error_is_listed_with_its_properties(kind: type[PlayheadError]) -> None:
    rows = (line for line in PAGE.splitlines() if line.startswith("| "))
    row = next(row for row in rows if f"`{kind.__name__}`" in row.partition(" | ")[0])
    properties = [name for name, value in vars(kind).items() if isinstance(value, property)]
    assert [name for name in properties if f"`{name}`" not in row] == []

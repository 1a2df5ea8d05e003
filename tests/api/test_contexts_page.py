"""docs/contexts.md: its example loop runs as written, and its lists are complete."""

import re
from pathlib import Path

import pytest
from django.core.servers.basehttp import WSGIRequestHandler
from pytest_django.live_server_helper import LiveServer

from historyapp.core.formats import FORMATS
from historyapp.core.policies import POLICIES
from historyapp.models import Project, Session
from tests.api.agent import Agent
from tests.api.conftest import key_for
from tests.examples import thorough
from tests.llm.loopback import Answer, Call, Loopback, Recorded

DOCS = Path(__file__).parents[2] / "docs"
BUDGET = 2048


def loop() -> str:
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "contexts.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return str(code)


def test_the_loop_is_about_thirty_lines() -> None:
    lines = [line for line in loop().splitlines() if line.strip()]
    assert len(lines) <= 40


@pytest.mark.parametrize("name", [*POLICIES, *FORMATS])
def test_every_policy_and_every_format_is_named(name: str) -> None:
    section = (DOCS / "api.md").read_text().partition("\n## Contexts\n")[2].partition("\n## ")[0]
    assert re.search(rf"^(- |\| )`{name}`", section, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("steps", [10, thorough(200)])
def test_the_loop_alternates_providers_without_an_invalid_request(
    steps: int, live_server: LiveServer, loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
    key = key_for(Project.objects.create(name="A reader's"), "reader")
    monkeypatch.setenv("PLAYHEAD", live_server.url)
    monkeypatch.setenv("KEY", key)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parser.py").write_text("def parse(text):\n    return text.splitlines()[:-1]\n" * 20)

    def read(request: Recorded) -> Answer:
        number = len(loopback.requests)
        path = "parser.py" if number % 5 else "missing.py"
        calls = tuple(
            Call(f"call_{number}_{i}", "read_file", f'{{"path": "{path}"}}') for i in range(number % 3)
        )
        calls = calls or (Call("call_again", "read_file", '{"path": "parser.py"}'),)
        return Answer(text="I read on.", thoughts="Hm.", opaque=f"signature {number}", calls=calls)

    loopback.default = read
    code = loop().replace("range(200)", f"range({steps})")
    exec(compile(code, "contexts.md", "exec"), {"__name__": "loop"})
    session = Session.objects.get()
    assert session.steps == steps
    assert len(loopback.requests) == steps
    assert [request.path for request in loopback.requests[:2]] == ["/v1/chat/completions", "/v1/messages"]
    snapshots = Agent(key).get(f"/sessions/{session.pk}/snapshots?limit=500")["items"]
    assert len(snapshots) == steps
    assert all(snapshot["tokens"]["estimated"] <= BUDGET for snapshot in snapshots)
    assert all(snapshot["output_position"] for snapshot in snapshots)

"""Agents, as processes of their own, outlive their server: ``kill -9`` in the middle of a run."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

import pytest

from historyapp.client import Playhead
from tests.client.server_process import KEY, ServerProcess
from tests.examples import thorough

pytestmark = pytest.mark.slow

STEPS_BETWEEN = 4
AGENT = """
import asyncio, sys, time
from pathlib import Path

from historyapp.client import ActionProposal, AsyncPlayhead, AsyncRecorder, Playhead, Recorder, Spool, UseTool

kind, on_outage, url, key, session, folder = sys.argv[1:]
outage = Spool(Path(folder) / "agent.spool") if on_outage == "spool" else on_outage


def proposal(number):
    return ActionProposal(thoughts=f"step {number}", use_tool=UseTool(name="count", arguments={"n": number}))


def is_over(number):
    print(number, flush=True)
    return (Path(folder) / "stop").exists()


def blocking():
    with Playhead(url, key, timeout=5, on_outage=outage) as playhead:
        recorder = Recorder.open(playhead, session)
        number = 0
        while not is_over(number):
            number += 1
            if on_outage == "wait":
                recorder.context(format="openai_chat")
            recorder.after_parse(proposal(number))
            time.sleep(0.1)
            recorder.after_execute(number)
        assert playhead.flush(60) == 0
        print(number)


async def awaiting():
    async with AsyncPlayhead(url, key, timeout=5, on_outage=outage) as playhead:
        recorder = await AsyncRecorder.open(playhead, session)
        number = 0
        while not is_over(number):
            number += 1
            if on_outage == "wait":
                await recorder.context(format="openai_chat")
            await recorder.after_parse(proposal(number))
            await asyncio.sleep(0.1)
            await recorder.after_execute(number)
        assert await playhead.flush(60) == 0
        print(number)


blocking() if kind == "blocking" else asyncio.run(awaiting())
"""


@pytest.fixture(scope="module")
def server(lighter: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "home") as server:
        yield server


@dataclass(frozen=True)
class Running:
    """An agent's process and its session."""

    process: "subprocess.Popen[str]"
    session: UUID

    @property
    def printed(self) -> IO[str]:
        assert self.process.stdout
        return self.process.stdout


@contextmanager
def agent(server: ServerProcess, folder: Path, kind: str, on_outage: str) -> Iterator[Running]:
    folder.mkdir()
    session = uuid4()
    command = [sys.executable, "-c", AGENT, kind, on_outage, server.url, KEY, str(session), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield Running(process, session)


@pytest.mark.parametrize(
    ("kinds", "kills"),
    [
        ([("blocking", "spool"), ("awaiting", "wait")], 1),
        thorough([(kind, how) for kind in ("blocking", "awaiting") for how in ("spool", "wait")], 3),
    ],
)
def test_every_step_is_recorded_once_over_restarts(
    server: ServerProcess, tmp_path: Path, kinds: list[tuple[str, str]], kills: int
) -> None:
    """Several agents at once, each with its session."""
    with ExitStack() as stack:
        folders = [tmp_path / "-".join(kind) for kind in kinds]
        agents = [
            stack.enter_context(agent(server, folder, *kind))
            for folder, kind in zip(folders, kinds, strict=True)
        ]
        for _ in range(kills):
            after(STEPS_BETWEEN, agents)
            server.kill()
            server.start()
        after(STEPS_BETWEEN, agents)
        for folder in folders:
            (folder / "stop").touch()
        for one in agents:
            steps = int(one.printed.read().split()[-1])
            assert one.process.wait(60) == 0
            assert steps > kills * STEPS_BETWEEN
            check(server, one.session, steps)


def after(steps: int, agents: list[Running]) -> None:
    """Waits until each agent has recorded a number of further steps."""
    for one in agents:
        first = int(next(one.printed))
        assert any(int(line) >= first + steps for line in one.printed)


def check(server: ServerProcess, session: UUID, steps: int) -> None:
    with Playhead(server.url, KEY) as playhead:
        recorded = list(playhead.full_episodes(session))
        entries = list(playhead.entries(session, take="all"))
    assert [step.action and step.action.arguments["n"] for step in recorded] == list(range(1, steps + 1))
    assert [step.result and step.result.outputs for step in recorded] == list(range(1, steps + 1))
    assert len(entries) == 2 * steps
    times = [entry.created_at for entry in entries if entry.created_at]
    assert len(times) == len(entries)
    assert times == sorted(times)

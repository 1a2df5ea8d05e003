"""Agents outlive their server: ``kill -9`` in the middle of a run."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

import pytest

from historyapp.client import (
    ActionProposal,
    AsyncPlayhead,
    AsyncRecorder,
    Playhead,
    Recorder,
    Spool,
    UseTool,
)
from tests.client.server_process import KEY, ServerProcess
from tests.examples import thorough

pytestmark = pytest.mark.slow

STEPS_BETWEEN = 4


@dataclass
class Agent:
    """Records steps in a thread until it is stopped. A process of its own would load the client again."""

    url: str
    kind: str
    session: UUID
    outage: Literal["wait"] | Spool
    steps: int = 0
    stopped: bool = False

    def run(self) -> None:
        if self.kind == "blocking":
            self._record()
        else:
            asyncio.run(self._record_in_loop())

    def _proposal(self) -> ActionProposal:
        tool = UseTool(name="count", arguments={"n": self.steps + 1})
        return ActionProposal(thoughts=f"step {self.steps + 1}", use_tool=tool)

    def _record(self) -> None:
        with Playhead(self.url, KEY, timeout=5, on_outage=self.outage) as playhead:
            recorder = Recorder.open(playhead, self.session)
            while not self.stopped:
                if self.outage == "wait":
                    recorder.context(format="openai_chat")
                recorder.after_parse(self._proposal())
                time.sleep(0.1)
                recorder.after_execute(self.steps + 1)
                self.steps += 1
            assert playhead.flush(60) == 0

    async def _record_in_loop(self) -> None:
        async with AsyncPlayhead(self.url, KEY, timeout=5, on_outage=self.outage) as playhead:
            recorder = await AsyncRecorder.open(playhead, self.session)
            while not self.stopped:
                if self.outage == "wait":
                    await recorder.context(format="openai_chat")
                await recorder.after_parse(self._proposal())
                await asyncio.sleep(0.1)
                await recorder.after_execute(self.steps + 1)
                self.steps += 1
            assert await playhead.flush(60) == 0


@pytest.fixture(scope="module")
def server(lighter: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "home") as server:
        yield server


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
    agents = [
        Agent(server.url, kind, uuid4(), Spool(tmp_path / f"{kind}.spool") if how == "spool" else "wait")
        for kind, how in kinds
    ]
    with ThreadPoolExecutor(len(agents)) as threads:
        running = [threads.submit(one.run) for one in agents]
        try:
            for _ in range(kills):
                after(STEPS_BETWEEN, agents, running)
                server.kill()
                server.start()
            after(STEPS_BETWEEN, agents, running)
        finally:
            for one in agents:
                one.stopped = True
        for ended in running:
            ended.result(120)
    for one in agents:
        assert one.steps > kills * STEPS_BETWEEN
        check(server, one.session, one.steps)


def after(steps: int, agents: list[Agent], running: list[Future[None]]) -> None:
    """Waits until each agent has recorded a number of further steps."""
    for one, thread in zip(agents, running, strict=True):
        first = one.steps
        while one.steps < first + steps:
            assert not thread.done(), thread.exception()
            time.sleep(0.02)


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

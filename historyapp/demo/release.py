"""A session whose last action is in flight, because it waits for the user's answer."""

from pathlib import Path

import httpx

from historyapp.demo import project
from historyapp.demo.agent import ScriptedAgent, ScriptedToolCall
from historyapp.demo.repair import CHANGES, PARSE, TAX
from historyapp.demo.tools import Toolbox


def run(api: httpx.Client, folder: Path) -> list[str]:
    """Records the session and returns its id."""
    tools = Toolbox(folder)
    tools.fill(repaired_project())
    agent = ScriptedAgent.start(
        api,
        "release",
        tools,
        title="Release tally 1.4.1",
        agent="release-agent",
        tags=["demo", "release"],
    )
    agent.begin(
        "You prepare releases. Nothing is published before a person has agreed.",
        "- Version: 1.4.1",
        "Please release tally 1.4.1.",
    )
    agent.act_in_parallel(
        "What goes into it, and do the tests pass?",
        ScriptedToolCall("read_file", {"path": "CHANGES.md"}),
        ScriptedToolCall("run_tests"),
    )
    agent.act("The version file.", "write_file", path="tally/version.py", content='VERSION = "1.4.1"\n')
    agent.propose(
        "All is ready. Publishing cannot be taken back, so a person decides.",
        "ask_user",
        question="Publish tally 1.4.1 now?",
    )
    return [agent.session.id]


def repaired_project() -> dict[str, bytes]:
    """The sample project after the repair."""
    files = {
        **project.FILES,
        "CHANGES.md": CHANGES,
        "tally/money.py": project.MONEY.replace(*PARSE),
        "tally/invoice.py": project.INVOICE.replace(*TAX),
    }
    return {name: text.encode() for name, text in files.items()}

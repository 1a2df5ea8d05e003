"""The results in a folder of transcripts, each with the call that it answers."""

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from historyapp.core.call_subjects import Kind, call_subject
from historyapp.core.conversation import Progress
from historyapp.core.entries import ModelOutput, ToolResult, ToolResults
from historyapp.core.errors import UnreadableTranscript
from historyapp.core.failures import Check, check_of
from historyapp.core.importers import detect
from historyapp.core.importers.base import Append, RewindTo, SessionStart, Source
from historyapp.core.results import returned_text


class Recorded(NamedTuple):
    """A result that answers a call, and where it is."""

    file: str
    """Its path in the folder."""
    session: int
    """Which of the file's sessions, from 0."""
    position: int
    """Of the entry that holds it, as an import into an empty session counts."""
    index: int
    """Among the entry's results, from 0."""
    format: str
    kind: Kind
    tool: str
    target: str
    result: ToolResult
    check: Check

    @property
    def text(self) -> str:
        return returned_text(self.result)

    @property
    def digest(self) -> str:
        """Of the text: a label holds for this text alone."""
        return sha256(self.text.encode(errors="replace")).hexdigest()


def results_in(folder: Path) -> Iterator[Recorded]:
    """The results of all files that can be read, file by file."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            yield from _results_of(path, str(path.relative_to(folder)))
        except UnreadableTranscript as error:
            print(error, file=sys.stderr)


def _results_of(path: Path, name: str) -> Iterator[Recorded]:
    sessions: dict[str, int] = {}
    heads: dict[str, int] = {}
    open_steps: dict[str, tuple[Progress, ModelOutput]] = {}
    with path.open("rb") as stream:
        source = Source(name, stream, str(path.parent))
        importer = detect(source)
        for operation in importer.read(source):
            if isinstance(operation, SessionStart):
                sessions.setdefault(operation.session, len(sessions))
            elif isinstance(operation, (Append, RewindTo)):
                heads[operation.session] = position = heads.get(operation.session, 0) + 1
            if not isinstance(operation, Append):
                continue
            body = operation.draft.body
            if isinstance(body, ModelOutput):
                open_steps[operation.session] = Progress.begin(body), body
            elif isinstance(body, ToolResults) and operation.session in open_steps:
                progress, output = open_steps[operation.session]
                progress, answered = progress.add_results(body.results)
                open_steps[operation.session] = progress, output
                calls = {call.id: call for call in output.tool_calls}
                for index, (result, ids) in enumerate(answered):
                    if ids:
                        call = calls.get(ids[0]) or output.use_tool
                        assert call is not None
                        subject = call_subject(call.name, call.arguments)
                        yield Recorded(
                            name,
                            sessions[operation.session],
                            position,
                            index,
                            importer.name,
                            subject.kind,
                            call.name,
                            subject.target,
                            result,
                            check_of(call.name, call.arguments),
                        )

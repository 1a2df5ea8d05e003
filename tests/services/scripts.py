"""An importer for tests that define its operations."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers.base import Append, Head, Operation, SessionStart, Source
from historyapp.models import Project, Session
from historyapp.models.history import History
from historyapp.services.imports.files import import_file
from historyapp.services.imports.reports import FileReport
from tests.services.drafts import ask

SOURCE = Source("run.jsonl", io.BytesIO())


@dataclass
class Script:
    """An importer that returns the operations of the test for any file."""

    operations: Iterable[Operation]
    breaks_off: bool = False
    name = "script"
    title = "Script"

    def recognises(self, head: Head) -> bool:
        return True

    def read(self, source: Source) -> Iterator[Operation]:
        yield from self.operations
        if self.breaks_off:
            raise UnreadableTranscript("the rest is noise")


def texts(*words: str, session: str = "s", provisional: bool = False) -> list[Operation]:
    return [Append(session, ask(word), provisional) for word in words]


def read(project: Project, script: Script, *operations: Operation) -> FileReport:
    script.operations = [SessionStart("s", title="a run"), *operations]
    return import_file(project, SOURCE, format="script")


def live_texts() -> list[str]:
    return [entry.body["content"] for entry in History(Session.objects.get()).entries()]

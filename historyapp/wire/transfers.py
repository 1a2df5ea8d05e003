"""The result of an import: the sessions and the skipped records of each file."""

from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, with_example


class ImportedSessionOut(ResponseModel):
    id: UUID
    source_id: str = Field(description="The session's id in the file.")
    title: str
    new: bool = Field(description="False if the session was imported before.")
    entries: int
    steps: int
    calls: int
    results: int
    unpaired_calls: int = Field(description="Tool calls without a result.")
    unpaired_results: int = Field(description="Results without a matching tool call in their step.")
    added: int = Field(description="Entries that this import added.")


class SkippedOut(ResponseModel):
    line: int
    reason: str
    damaged: bool = Field(description="False if the record is valid but not part of a history.")


class LinesOut(ResponseModel):
    """How the lines of a file were used. The parts add up to `total`."""

    total: int
    with_entries: int = Field(description="Lines with which an entry begins.")
    further: int = Field(description="Lines that continue an entry or describe the session.")
    left_out: int = Field(description="Lines that were skipped.")
    blank: int


class FileOut(ResponseModel):
    name: str
    format: str
    sessions: list[ImportedSessionOut]
    skipped: list[SkippedOut] = Field(description="Records that were not used, the first 1,000.")
    skipped_count: int
    damaged_count: int
    lines: LinesOut | None = Field(description="Null if the file was not read line by line to its end.")
    error: str = Field(description="Why reading stopped before the end of the file, or empty.")


class ImportOut(ResponseModel):
    model_config = with_example({"files": [examples.IMPORTED_FILE]})

    files: list[FileOut]

"""What an import found in its files."""

from uuid import UUID

from pydantic import Field

from historyapp.wire import examples
from historyapp.wire.base import ResponseModel, shown


class ImportedSessionOut(ResponseModel):
    id: UUID
    source_id: str = Field(description="Its id in the file.")
    title: str
    new: bool = Field(description="False if it had been imported before.")
    entries: int
    steps: int
    calls: int
    results: int
    unpaired_calls: int = Field(description="Calls without a result.")
    unpaired_results: int = Field(description="Results without a matching tool call in their step.")
    added: int = Field(description="Entries that this import added.")


class SkippedOut(ResponseModel):
    line: int
    reason: str
    damaged: bool = Field(description="False if the record is valid but not part of a history.")


class FileOut(ResponseModel):
    name: str
    format: str
    sessions: list[ImportedSessionOut]
    skipped: list[SkippedOut] = Field(description="Records that were not used, the first 1,000.")
    skipped_count: int
    damaged_count: int
    error: str = Field(description="Why reading stopped before the end of the file, or empty.")


class ImportOut(ResponseModel):
    model_config = shown({"files": [examples.IMPORTED_FILE]})

    files: list[FileOut]

"""The index for searching all sessions: a row for each step, and its tokens in the database's text index.

On SQLite the tokens are in a contentless FTS5 table, on PostgreSQL in a ``tsvector`` column with a GIN index.
Migrations create both. See ``historyapp.core.search_documents``.
"""

from collections.abc import Iterator
from uuid import UUID

from django.db import models

from historyapp.core.entries import Entry, load_body
from historyapp.core.search_documents import IndexedEntry, SearchDocument, document_of, split_steps
from historyapp.core.searchable import passages
from historyapp.models.fields import PackedText
from historyapp.models.own_rows import own_rows
from historyapp.models.projects import Project
from historyapp.models.sessions import Session


class SearchStep(models.Model):
    """A step of the log, live or not. A fork has rows only for its own entries."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="+", db_index=False)
    first_position = models.PositiveIntegerField()
    last_position = models.PositiveIntegerField()
    anchor = models.PositiveIntegerField()
    """The position of the step's output. The step is live wherever this entry is live."""
    step = models.PositiveIntegerField()
    at = models.DateTimeField()
    status = models.CharField(max_length=20, blank=True)
    tools = models.CharField(max_length=400, blank=True)
    """The names of the called tools, one in each line."""
    checksum = models.PositiveIntegerField()
    """The version of the tokens."""
    is_capped = models.BooleanField(default=False)
    """Whether the step's texts are too long to be indexed completely."""
    open_tokens = PackedText(null=True)
    """On SQLite, the tokens of a session's newest step. The step may grow, and FTS5 needs the old tokens to
    remove them.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("session", "first_position"), name="search_step_once"),
        )
        indexes = (models.Index(fields=("project", "id"), name="search_step_newest"),)

    def __str__(self) -> str:
        return f"step {self.step} of {self.session_id}"


class SearchProgress(models.Model):
    """The last change that the index of a project includes."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True, related_name="+")
    cursor = models.CharField(max_length=50)
    """The cursor of the feed, see ``historyapp.models.changes``."""
    is_behind = models.BooleanField(default=True)
    """Whether sessions that were recorded before the cursor are still to be indexed."""
    done_to = models.UUIDField(null=True)
    """The last of these sessions that is indexed, in the order of ids."""

    def __str__(self) -> str:
        return f"search index of {self.project_id}"


def logged_entries(session: UUID, first: int, last: int) -> Iterator[IndexedEntry]:
    """A session's own entries between two positions (both included), with their searchable texts."""
    for row in own_rows(session, first, last):
        step = row.totals.get("steps", 0)
        entry = Entry(row.position, load_body(row.kind, row.body), row.created_at, {}, row.tokens)
        yield IndexedEntry(entry, row.kind, step, list(passages(row.position, step, row.kind, row.body)))


def documents(project: UUID, session: UUID, first: int, last: int) -> Iterator[SearchDocument]:
    """The search documents of a session's own entries. A document must begin at ``first``."""
    for step_entries in split_steps(logged_entries(session, first, last)):
        yield document_of(project, session, step_entries)

"""Sessions. An append locks the session's row, and lineages are read from it."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan
from django.utils import timezone
from django.utils.functional import cached_property
from uuid_utils.compat import uuid7

from historyapp.core.entries import KINDS
from historyapp.core.errors import Invalid
from historyapp.core.fork_parts import ForkParts
from historyapp.core.lineage import Lineage, Span
from historyapp.core.projection import Tail
from historyapp.core.run_places import folder_of, repository_of
from historyapp.core.session_metadata import MAX_TITLE
from historyapp.core.text import fold
from historyapp.models.ancestors import (
    Ancestor,
    ancestor_spans,
    ancestors,
    ancestors_with,
    cached_fork_parts,
    cached_fork_points,
    revisions,
)
from historyapp.models.fields import (
    ComputedText,
    FoldedText,
    JSONText,
)
from historyapp.models.projects import Project
from historyapp.models.stored_lineages import stored_at_forks, stored_at_rewinds

RARE_KINDS = tuple([kind for kind in KINDS if kind not in ("model_output", "tool_results")])
"""Kinds with their own index. A new rare kind needs a migration."""
SORTED_COLUMNS = (
    "created_at", "duration", "steps", "errors", "likely_failures", "shown_tokens", "money", "model",
)  # fmt: skip
"""Columns to sort lists by. The time of the newest entry has a separate index."""
_PLACES_AT_ONCE = 400
"""The maximum number of places of one query. SQLite accepts a few hundred conditions."""

LARGE_COLUMNS = ("metadata", "settings", "tail", "closed_spans", "fork_spans", "search_text", "strip")
"""Columns that can be large. Lists load those that they need."""


def large_columns(*relations: str) -> list[str]:
    """The large columns of related sessions, as names for ``defer``."""
    return [f"{relation}__{column}" for relation in relations for column in LARGE_COLUMNS]


def columns_except(shown: Collection[str], *relations: str) -> list[str]:
    """The columns of related sessions other than ``shown`` and the key, as names for ``defer``.

    Django takes most of the time of a query by key to name its columns.
    """
    columns = [field.name for field in Session._meta.concrete_fields if not field.primary_key]
    return [f"{relation}__{name}" for relation in relations for name in columns if name not in shown]


class _HasTags(models.Func):
    """The condition of the index. With a parameter, SQLite would also read sessions without tags."""

    template = "NOT (%(expressions)s = '\n')"
    output_field = models.BooleanField()


class SessionQuerySet(models.QuerySet["Session"]):
    def newest_first(self) -> Self:
        return self.order_by("-last_entry_at", "-id")

    def with_lineages(self) -> Self:
        """With the large columns that :meth:`Session.lineage` needs, and no others."""
        return self.defer(*[column for column in LARGE_COLUMNS if column != "closed_spans"])

    def with_prefix(self, prefix: str) -> Self:
        """Sessions whose id begins with these hexadecimal digits. Dashes are ignored."""
        digits = prefix.replace("-", "")[:32]
        return self.filter(pk__range=(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))))

    def search(self, text: str) -> Self:
        """Sessions whose title, agent or tags contain every word. Case is ignored."""
        return self.containing("search_text", map(fold, text.split()))

    def tagged(self, tags: Iterable[str]) -> Self:
        """Sessions with all the tags. Case matters."""
        texts = [f"\n{tag}\n" for tag in tags]
        return self.with_tags().containing("tags_text", texts) if texts else self

    def with_tags(self) -> Self:
        """Sessions with at least one tag."""
        return self.filter(_HasTags("tags_text"))

    def containing(self, column: str, texts: Iterable[str]) -> Self:
        """Sessions whose column contains all the texts.

        LIKE is not used: SQLite's ignores case, and takes eight times as long for texts such as ``aaaa…b``.
        """
        matching = self
        for text in texts:
            matching = matching.filter(GreaterThan(StrIndex(column, models.Value(text)), 0))
        return matching


_AnySession = models.Manager.from_queryset(SessionQuerySet)


class SessionManager(_AnySession["Session"]):
    """Sessions without their metadata, which few readers need. It is loaded on first use."""

    def get_queryset(self) -> SessionQuerySet:
        return SessionQuerySet(self.model, using=self._db).defer("metadata")


def empty_tail() -> dict[str, Any]:  # migrations name it
    return Tail().dump()


class Session(models.Model):
    """One agent run. All columns except names, settings and status are computed from the log."""

    class Status(models.TextChoices):
        LIVE = "live", "live"
        FINISHED = "finished", "finished"
        ARCHIVED = "archived", "archived"

    id = models.UUIDField(primary_key=True, default=uuid7)
    project = models.ForeignKey(Project, models.CASCADE, related_name="sessions")
    title = models.CharField(max_length=MAX_TITLE, blank=True)
    agent = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.LIVE)
    tags_text = models.TextField(default="\n", blank=True)
    """Each tag is between line feeds, so that a substring search finds a tag. See ``tags``."""
    search_text = FoldedText(default="", blank=True, of=("title", "agent", "tags_text"))
    settings = JSONText(default=dict)
    """Only settings that differ from the defaults."""
    metadata = JSONText(default=dict)
    """Facts about the run from an importer or the agent: folder, version, totals …"""
    folder = ComputedText(of="metadata", by=folder_of, default="", db_default="", blank=True)
    repository = ComputedText(of="metadata", by=repository_of, default="", db_default="", blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    """When the run began. :data:`historyapp.core.dates.UNDATED` for a transcript without times."""
    last_entry_at = models.DateTimeField(default=timezone.now)
    """The time of the newest entry that is not a rewind. Without one, the time of the session's creation."""
    revision = models.PositiveIntegerField(default=0)
    """Increases with every change of the session, its entries or its summaries. Part of ETags."""

    head = models.PositiveIntegerField(default=0)
    """The position of the newest entry. In a fork without entries of its own, the fork position."""
    closed_spans = JSONText(default=list)
    """The lineage before the open tail, see :meth:`historyapp.core.lineage.Lineage.dump`."""
    tail_start = models.PositiveIntegerField(default=1)
    """Own entries from this position to the head are also live."""
    tail = JSONText(default=empty_tail)
    """:class:`historyapp.core.projection.Tail` as JSON: the state that the next append needs. Also the totals
    of the live entries that a fork shares, see ``services.list_columns``."""

    forked_from = models.ForeignKey("self", models.PROTECT, null=True, related_name="forks")
    fork_position = models.PositiveIntegerField(default=0)
    """The last shared position of the parent, or 0 without a parent. Own entries begin after it."""
    fork_spans = JSONText(default=list)
    """The parent's lineage up to the fork position, in the form of ``closed_spans``."""
    spawned_by = models.ForeignKey("self", models.SET_NULL, null=True, related_name="subagents")
    """The session whose agent started this session."""
    spawned_position = models.PositiveIntegerField(null=True)
    """The position in that session of the output whose tool call started this session, or null."""

    steps = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    cost = models.PositiveBigIntegerField(default=0)
    """The cost of the live history as reported by the source, in millionths of a US dollar."""

    likely_failures = models.PositiveIntegerField(default=0, db_default=0)
    first_entry_at: datetime | None = None
    """The time of the session's own first entry, if the session was read to append to it; not a column."""
    duration = models.PositiveBigIntegerField(default=0, db_default=0)
    """Milliseconds from the first recorded to the newest live entry, in forks from their own first live one.
    Without the idle time, see :mod:`historyapp.core.run_clock`. 0 if undated."""
    shown_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    """The tokens that lists show, see :mod:`historyapp.core.run_costs`; in forks those since the fork."""
    money = models.PositiveBigIntegerField(default=0, db_default=0)
    """The cost that lists show and sort by, in millionths of a US dollar at the prices of the newest append;
    in forks that since the fork."""
    cost_is_minimum = models.BooleanField(null=True)
    """Whether the true cost was higher than ``money`` at the newest append. Null: not computed yet."""
    strip = models.TextField(default="", db_default="")
    """See :mod:`historyapp.core.strips`."""
    is_listed = models.BooleanField(default=True, db_default=False)
    """Whether the six columns above, the folder and the repository are computed. A worker computes them for
    sessions of earlier versions."""

    compressed_to = models.PositiveIntegerField(default=0)
    """The last step that automatic compression has handled, see ``services.compression.start``."""
    compress_at = models.PositiveIntegerField(null=True)
    """An append makes a compression due when the session has this many steps. Null: never."""
    compress_at_tokens = models.PositiveBigIntegerField(null=True)
    """The same threshold for the tokens of the live history."""
    compression_due = models.BooleanField(default=False)
    """Whether a compression is due. Workers search for such sessions."""

    objects = SessionManager()

    _parsed_tail: tuple[Any, Tail] | None = None
    """A cache: the column's content and the parsed tail."""

    class Meta:
        indexes = (
            models.Index(fields=("project", "-last_entry_at", "-id"), name="session_newest_first"),
            models.Index(
                fields=("project", "-last_entry_at", "-id"),
                name="session_tagged",
                condition=~models.Q(tags_text="\n"),
            ),
            models.Index(
                fields=("spawned_by", "spawned_position"),
                name="session_spawned_at",
                condition=models.Q(spawned_position__isnull=False),
            ),
            models.Index(
                fields=("project", "id"),
                name="session_due_by_project",
                condition=models.Q(compression_due=True),
            ),
            *(
                models.Index(fields=("project", f"-{column}", "-id"), name=f"session_by_{column}")
                for column in SORTED_COLUMNS
            ),
            models.Index(fields=("id",), name="session_unlisted", condition=models.Q(is_listed=False)),
            # These include the id to find the newest sessions. Most sessions write to neither index.
            models.Index(
                fields=("forked_from", "id"),
                name="session_forks",
                condition=models.Q(forked_from__isnull=False),
            ),
            models.Index(
                fields=("spawned_by", "id"),
                name="session_subagents",
                condition=models.Q(spawned_by__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return self.title or "Untitled session"

    @property
    def is_untouched_fork(self) -> bool:
        """Whether this is a fork in which nothing has been recorded."""
        return self.forked_from_id is not None and self.head == self.fork_position

    @property
    def has_failures(self) -> bool:
        """Whether a step failed or likely failed."""
        return bool(self.errors or self.likely_failures)

    @property
    def tags(self) -> list[str]:
        return [tag for tag in self.tags_text.split("\n") if tag]

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        unique = dict.fromkeys(tags)
        self.tags_text = "\n" + "".join(f"{tag}\n" for tag in unique)

    @property
    def shared_revision(self) -> int:
        """The revision for ETags. A fork's includes changes of the sessions whose entries it shares."""
        return self.revision if self.forked_from_id is None else revisions(self.pk)

    @property
    def live_tail(self) -> Tail:
        """The state that the next append needs. Cached until the column changes."""
        if self._parsed_tail is None or self._parsed_tail[0] is not self.tail:
            self._parsed_tail = self.tail, Tail.load(self.tail)
        return self._parsed_tail[1]

    def lineage(self, as_of: int | None = None) -> Lineage:
        """The live entries now, or at the time when ``as_of`` was the head.

        Raises:
            Invalid: if ``as_of`` is beyond the head.
        """
        if as_of is None or as_of == self.head:
            return self.extended(self.stored_lineage(self.closed_spans), self.tail_start, self.head)
        if not 0 <= as_of <= self.head:
            raise Invalid(
                f"as_of is {as_of}, but the session's head is {self.head}. Use 0 to {self.head}.",
                head=self.head,
            )
        rewind = self.rewinds().filter(position__lte=as_of).order_by("-position").first()
        if rewind is not None:
            return self.extended(self.stored_lineage(rewind.body), rewind.position + 1, as_of)
        if as_of <= self.fork_position:
            return self.shared_lineage.cut(as_of)
        return self.extended(self.shared_lineage, self.fork_position + 1, as_of)

    @property
    def shared_lineage(self) -> Lineage:
        """The parent's lineage up to the fork position."""
        return self.stored_lineage(self.fork_spans)

    def stored_lineage(self, stored: Any) -> Lineage:
        """The lineage stored in ``fork_spans``, ``closed_spans`` or one of this session's rewinds."""
        return Lineage.of(stored, self._load, self._load_all, self._all_owners, self._known_parts)

    def parts_with(self, kind: str, last: int) -> Iterator[Span]:
        """The spans, one for each session, that may have live rows of a rare kind. Newest first.

        Args:
            kind: see :func:`historyapp.models.ancestors.ancestors_with`.
        """
        if self.forked_from_id is not None:
            yield from ancestor_spans(self.ancestors, last, ancestors_with(kind, self.ancestors))
        elif last:
            yield Span(str(self.pk), 1, last)

    def _all_owners(self) -> tuple[str, ...]:
        """This session and the sessions it was forked from, oldest first. Empty for an unsaved fork."""
        if self.forked_from_id is None:
            return (str(self.pk),)
        return tuple([ancestor.name for ancestor in reversed(self.ancestors)])

    @cached_property
    def ancestors(self) -> tuple[Ancestor, ...]:
        """This session and the sessions it was forked from, with the rare kinds of entries that each has."""
        return ancestors(self.pk, RARE_KINDS, self.forked_from_id)

    def _known_parts(self) -> ForkParts | None:
        return self._fork_parts

    @cached_property
    def _fork_parts(self) -> ForkParts | None:
        return cached_fork_parts(self.pk) if self.forked_from_id is not None else None

    @cached_property
    def _loaded(self) -> dict[tuple[str, int], Lineage]:
        return {}  # entries and fork points never change

    def _load(self, session: str, position: int) -> Lineage:
        """The lineage stored at a rewind or fork point of this session or of an ancestor."""
        key = session, position
        if key not in self._loaded:
            self._load_all([key])
        return self._loaded[key]

    def _load_all(self, places: Iterable[tuple[str, int]]) -> None:
        """Reads and caches these lineages, hundreds in one query. Fork points take another query."""
        missing = [place for place in set(places) if place not in self._loaded]
        is_fork = bool(missing) and self.forked_from_id is not None
        known_forks = cached_fork_points(self.pk, missing) if is_fork else set()
        for start in range(0, len(missing), _PLACES_AT_ONCE):
            batch = set(missing[start : start + _PLACES_AT_ONCE])
            others = batch - known_forks
            stored = stored_at_rewinds(others) if others else {}
            if forks := batch - stored.keys():
                spans = stored_at_forks({session for session, _ in forks})
                stored |= {(session, position): spans[session] for session, position in forks}
            self._loaded.update({place: self.stored_lineage(value) for place, value in stored.items()})

    def extended(self, closed: Lineage, first: int, last: int) -> Lineage:
        """A lineage followed by this session's own entries ``first`` to ``last``, if there are any."""
        return closed.extend(str(self.id), first, last) if first <= last else closed

    def rewinds(self) -> "models.QuerySet[Any]":
        """This session's own rewind entries."""
        return self.entries.filter(kind="rewind")


def session_ids(lineage: Lineage) -> list[UUID]:
    """The ids of the sessions that may own entries of a lineage."""
    return [UUID(session) for session in lineage.owners]

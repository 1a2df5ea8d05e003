"""Sessions: the row that an append locks, and from which a lineage is read."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, Self
from uuid import UUID

from django.db import connection, models
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan
from django.utils import timezone
from uuid_utils.compat import uuid7

from historyapp.core.entries import KINDS
from historyapp.core.errors import Invalid
from historyapp.core.json import load_dumped
from historyapp.core.lineage import Lineage, Span
from historyapp.core.projection import Tail
from historyapp.core.run_places import folder_of, repository_of
from historyapp.core.text import fold
from historyapp.models.ancestors import SUMMARIES, Ancestor, ancestors, parts, revisions, summarised
from historyapp.models.fields import (
    ComputedText,
    FoldedText,
    JSONText,
    as_uuid,
    at_places,
    session_value,
    unpack,
)
from historyapp.models.projects import Project

RARE_KINDS = tuple([kind for kind in KINDS if kind not in ("model_output", "tool_results")])
"""Each has its own index: a new kind needs a migration."""
SORTED_COLUMNS = (
    "created_at", "duration", "steps", "errors", "likely_failures", "shown_tokens", "money", "model",
)  # fmt: skip
"""Lists are sorted by them; the time of the newest entry has an index of its own."""
_PLACES_AT_ONCE = 400
"""Places that one query reads; SQLite takes a few hundred conditions."""
_REWINDS = "SELECT session_id, position, body FROM historyapp_entry WHERE kind = 'rewind'"
_FORK_SPANS = "SELECT id, fork_spans FROM historyapp_session WHERE id IN"


class _HasTags(models.Func):
    """The condition of the index: with a parameter, SQLite would read the sessions without tags, too."""

    template = "NOT (%(expressions)s = '\n')"
    output_field = models.BooleanField()


class SessionQuerySet(models.QuerySet["Session"]):
    def newest_first(self) -> Self:
        return self.order_by("-last_entry_at", "-id")

    def with_prefix(self, prefix: str) -> Self:
        """Sessions whose id begins with some hexadecimal digits; dashes do not count."""
        digits = prefix.replace("-", "")[:32]
        return self.filter(pk__range=(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))))

    def search(self, text: str) -> Self:
        """Sessions whose title, agent or tags contain every word, in any case."""
        return self.containing("search_text", map(fold, text.split()))

    def tagged(self, tags: Iterable[str]) -> Self:
        """Sessions that have all the tags in exactly this case."""
        texts = [f"\n{tag}\n" for tag in tags]
        found = self.filter(_HasTags("tags_text")) if texts else self
        return found.containing("tags_text", texts)

    def containing(self, column: str, texts: Iterable[str]) -> Self:
        """Sessions whose column has all the texts.

        SQLite's LIKE ignores case, and takes eight times as long for texts such as ``aaaa…b``.
        """
        found = self
        for text in texts:
            found = found.filter(GreaterThan(StrIndex(column, models.Value(text)), 0))
        return found


def empty_tail() -> dict[str, Any]:  # migrations name it
    return Tail().dump()


class Session(models.Model):
    """One agent run. Except for names, settings and status, its columns are computed from the log."""

    class Status(models.TextChoices):
        LIVE = "live", "live"
        FINISHED = "finished", "finished"
        ARCHIVED = "archived", "archived"

    id = models.UUIDField(primary_key=True, default=uuid7)
    project = models.ForeignKey(Project, models.CASCADE, related_name="sessions")
    title = models.CharField(max_length=300, blank=True)
    agent = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.LIVE)
    tags_text = models.TextField(default="\n", blank=True)
    """Each tag between line feeds, so that one substring finds a tag; see ``tags``."""
    search_text = FoldedText(default="", blank=True, of=("title", "agent", "tags_text"))
    settings = JSONText(default=dict)
    """Only what differs from the defaults."""
    metadata = JSONText(default=dict)
    """What an importer or the agent says of the run: folder, version, totals …"""
    folder = ComputedText(of="metadata", by=folder_of, default="", db_default="", blank=True)
    repository = ComputedText(of="metadata", by=repository_of, default="", db_default="", blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    """When the run began. A transcript without times has :data:`historyapp.core.dates.UNDATED` here."""
    last_entry_at = models.DateTimeField(default=timezone.now)
    """When the newest entry happened, rewinds left out; when the session was made while it has none."""
    revision = models.PositiveIntegerField(default=0)
    """Grows with every change of the session, its entries or its summaries. ETags contain it."""

    head = models.PositiveIntegerField(default=0)
    """Position of the newest entry; in a fork without entries of its own, the fork position."""
    closed_spans = JSONText(default=list)
    """The lineage before the open tail, see :meth:`historyapp.core.lineage.Lineage.dump`."""
    tail_start = models.PositiveIntegerField(default=1)
    """Own entries from here to the head are live too."""
    tail = JSONText(default=empty_tail)
    """:class:`historyapp.core.projection.Tail`: what the next append needs to know."""

    forked_from = models.ForeignKey("self", models.PROTECT, null=True, related_name="forks")
    fork_position = models.PositiveIntegerField(default=0)
    """Up to where the parent's entries are shared; 0 without a parent. Own entries begin after it."""
    fork_spans = JSONText(default=list)
    """The parent's lineage up to the fork position, in the same form."""
    spawned_by = models.ForeignKey("self", models.SET_NULL, null=True, related_name="subagents")
    """The session whose agent started this one."""
    spawned_position = models.PositiveIntegerField(null=True)
    """The position in that session of the output whose tool call started this one; null: not known."""

    steps = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    cost = models.PositiveBigIntegerField(default=0)
    """Of the live history, reported by the source, in millionths of a US dollar."""

    likely_failures = models.PositiveIntegerField(default=0, db_default=0)
    duration = models.PositiveBigIntegerField(default=0, db_default=0)
    """Milliseconds from the first to the newest entry; 0 if undated, and of a fork."""
    shown_tokens = models.PositiveBigIntegerField(default=0, db_default=0)
    """The token figure of lists, see :mod:`historyapp.core.run_costs`."""
    money = models.PositiveBigIntegerField(default=0, db_default=0)
    """The money figure in millionths of a US dollar, at the prices of the newest append. Lists sort by it."""
    strip = models.TextField(default="", db_default="")
    """See :mod:`historyapp.core.strips`."""
    is_listed = models.BooleanField(default=True, db_default=False)
    """Whether the five columns above, the folder and the repository are computed. A worker computes those of
    earlier versions."""

    compressed_to = models.PositiveIntegerField(default=0)
    """The last step that automatic compression has handled; see ``services.compression.start``."""
    compress_at = models.PositiveIntegerField(null=True)
    """An append makes a compression due when the session has this many steps; null: never."""
    compress_at_tokens = models.PositiveBigIntegerField(null=True)
    """The same for the tokens of the live history."""
    compression_due = models.BooleanField(default=False)
    """Workers look for sessions where this is true."""

    objects = SessionQuerySet.as_manager()

    _read_tail: tuple[Any, Tail] | None = None
    """The column as it was read, and its value."""

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
            models.Index(fields=("id",), name="session_due", condition=models.Q(compression_due=True)),
            *(
                models.Index(fields=("project", f"-{column}", "-id"), name=f"session_by_{column}")
                for column in SORTED_COLUMNS
            ),
            models.Index(fields=("id",), name="session_unlisted", condition=models.Q(is_listed=False)),
            # With the id, so that the newest are found at once. Most sessions write to neither.
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
    def tags(self) -> list[str]:
        return [tag for tag in self.tags_text.split("\n") if tag]

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        unique = dict.fromkeys(tags)
        self.tags_text = "\n" + "".join(f"{tag}\n" for tag in unique)

    @property
    def shared_revision(self) -> int:
        """The revision for ETags. In a fork it includes changes of sessions that share entries with it."""
        return self.revision if self.forked_from_id is None else revisions(self.pk)

    @property
    def live_tail(self) -> Tail:
        """What the next append needs to know. Kept until the column gets another value."""
        if self._read_tail is None or self._read_tail[0] is not self.tail:
            self._read_tail = self.tail, Tail.load(self.tail)
        return self._read_tail[1]

    def lineage(self, as_of: int | None = None) -> Lineage:
        """The live entries now, or when ``as_of`` was the head.

        Raises:
            Invalid: when the session has no such position yet.
        """
        if as_of is None or as_of == self.head:
            return self.grown(self.stored_lineage(self.closed_spans), self.tail_start, self.head)
        if not 0 <= as_of <= self.head:
            raise Invalid(
                f"as_of is {as_of}, but the session's head is {self.head}. Use 0 to {self.head}.",
                head=self.head,
            )
        rewind = self.rewinds().filter(position__lte=as_of).order_by("-position").first()
        if rewind is not None:
            return self.grown(self.stored_lineage(rewind.body), rewind.position + 1, as_of)
        if as_of <= self.fork_position:
            return self.shared_lineage.cut(as_of)
        return self.grown(self.shared_lineage, self.fork_position + 1, as_of)

    @property
    def shared_lineage(self) -> Lineage:
        """The parent's lineage up to the fork position."""
        return self.stored_lineage(self.fork_spans)

    def stored_lineage(self, stored: Any) -> Lineage:
        """A lineage from ``fork_spans``, ``closed_spans`` or the body of one of this session's rewinds."""
        return Lineage.of(stored, self._load, self._load_all, self._all_owners)

    def parts_with(self, kind: str, last: int) -> Iterator[Span]:
        """Where live rows of a rare kind may be, up to a position, newest first; of each session one range.

        Args:
            kind: of entries, or :data:`historyapp.models.ancestors.SUMMARIES`.
        """
        if self.forked_from_id is not None:
            if kind == SUMMARIES:
                having = summarised([ancestor.id for ancestor in self.ancestors])
            else:
                having = {ancestor.id for ancestor in self.ancestors if kind in ancestor.has}
            yield from parts(self.ancestors, last, having)
        elif last:
            yield Span(str(self.pk), 1, last)

    def _all_owners(self) -> tuple[str, ...]:
        """This session and those that it was forked from, oldest first; empty for a fork not stored yet."""
        if self.forked_from_id is None:
            return (str(self.pk),)
        return tuple(str(ancestor.id) for ancestor in reversed(self.ancestors))

    @cached_property
    def ancestors(self) -> tuple[Ancestor, ...]:
        """This session and those that it was forked from, with the rare kinds of entries in them."""
        return ancestors(self.pk, RARE_KINDS)

    @cached_property
    def _loaded(self) -> dict[tuple[str, int], Lineage]:
        return {}  # entries and fork points never change

    def _load(self, session: str, position: int) -> Lineage:
        """The lineage stored at a rewind or the fork point of this session or of one that shares entries."""
        key = session, position
        if key not in self._loaded:
            self._load_all([key])
        return self._loaded[key]

    def _load_all(self, places: Iterable[tuple[str, int]]) -> None:
        """Reads such lineages: hundreds with one query, and one more if some are of forks."""
        missing = [place for place in set(places) if place not in self._loaded]
        for start in range(0, len(missing), _PLACES_AT_ONCE):
            wanted = set(missing[start : start + _PLACES_AT_ONCE])
            stored = _stored_at_rewinds(wanted)
            if forks := wanted - stored.keys():
                spans = _stored_at_forks({session for session, _ in forks})
                stored |= {(session, position): spans[session] for session, position in forks}
            self._loaded.update({place: self.stored_lineage(form) for place, form in stored.items()})

    def grown(self, closed: Lineage, first: int, last: int) -> Lineage:
        """A lineage and then this session's own entries ``first`` to ``last``, if there are any."""
        return closed.extend(str(self.id), first, last) if first <= last else closed

    def rewinds(self) -> "models.QuerySet[Any]":
        """This session's own rewind entries."""
        return self.entries.filter(kind="rewind")


def _stored_at_rewinds(places: Collection[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """What the rewinds among some places store. A page reads fifty, so it is written in SQL."""
    where, values = at_places(places)
    with connection.cursor() as cursor:
        cursor.execute(f"{_REWINDS} AND ({where})", values)
        return {
            (str(as_uuid(session)), position): load_dumped(unpack(body))
            for session, position, body in cursor.fetchall()
        }


def _stored_at_forks(sessions: Collection[str]) -> dict[str, Any]:
    """What the fork points of some sessions store."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"{_FORK_SPANS} ({', '.join(['%s'] * len(sessions))})", [*map(session_value, sessions)]
        )
        return {str(as_uuid(session)): load_dumped(stored) for session, stored in cursor.fetchall()}


def session_ids(lineage: Lineage) -> list[UUID]:
    """The ids of the sessions that a lineage's entries may be of."""
    return [UUID(session) for session in lineage.owners]

"""Snapshots: records served contexts, rebuilds them from the log and compares two of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from uuid import UUID

from django.db.models import F
from uuid_utils.compat import uuid7

from historyapp.core.context_diff import (
    CacheEffect,
    PrefixDiff,
    SegmentDiff,
    cache_effect,
    diff_prefix,
    diff_segments,
)
from historyapp.core.errors import NotFound
from historyapp.core.excerpts import Excerpt
from historyapp.core.formats import prefix_bytes, render_bytes
from historyapp.core.formats.base import EARLIER_START, START
from historyapp.core.json import dump_plain
from historyapp.core.manifest import Manifest
from historyapp.core.settings import load_settings
from historyapp.models import Session, Snapshot, TokenCorrection
from historyapp.models.fields import pack
from historyapp.models.snapshot_histories import SnapshotHistory, TrackedHistory
from historyapp.services.contexts import (
    BuiltContext,
    ContextSpec,
    Request,
    RequestedContext,
    build,
    digest,
    model_of,
    resolve_options,
)
from historyapp.services.corrections import correction_of
from historyapp.services.prices import price_list
from historyapp.services.statements import store_excerpts
from historyapp.services.transactions import writing

MAX_NEW_EXCERPTS = 100
"""The maximum number of excerpts stored with one snapshot. Agents wait while they are written."""


@dataclass(frozen=True, slots=True)
class ServedContext:
    """A context that was built for a request, with the values that rebuilding it needs."""

    built: BuiltContext
    session: Session
    position: int
    summaries: list[str]
    """Ids of the summaries that the context may use."""
    correction: TokenCorrection | None
    new_excerpts: Mapping[tuple[UUID, int], Excerpt]
    """The excerpts to store, by the session and the anchor of the step's row."""


def serve_context(session: Session, requested: RequestedContext) -> ServedContext:
    """Builds the context for a request. Nothing is written.

    Raises:
        Invalid: as :func:`historyapp.services.contexts.build`, and when ``as_of`` lies beyond the head.
    """
    past = TrackedHistory(session, requested.as_of)
    correction = correction_of(session.project_id, model_of(session, requested))
    built = build(past, resolve_options(session, requested, correction), requested.live_screen)
    position = session.head if requested.as_of is None else requested.as_of
    return ServedContext(built, session, position, list(past.summary_ids), correction, past.new_excerpts)


def record_snapshot(served: ServedContext, *, counted: int | None = None, id: UUID | None = None) -> Snapshot:
    """Stores the snapshot of a served context, and excerpts that later contexts read.

    Args:
        counted: its tokens as the provider counted them.
        id: the snapshot's id; by default a new one.
    """
    built, spec = served.built, served.built.spec
    snapshot = Snapshot(
        id=id or uuid7(),
        session=served.session,
        position=served.position,
        policy=spec.policy,
        format=spec.format,
        model=spec.model,
        max_tokens=spec.max_tokens,
        settings=spec.settings.model_dump(),
        factor=spec.factor,
        tools=list(spec.tools),
        screen_tokens=spec.screen_tokens,
        summaries=served.summaries,
        manifest=built.manifest.model_dump(exclude_defaults=True),
        sha256=built.sha256,
        prefix_sha256=built.prefix_sha256,
        estimated=built.tokens,
        counted=counted,
    )
    excerpts = packed_excerpts(served.new_excerpts)
    with writing():
        # Like an append, it locks the session's row before those of steps.
        Session.objects.filter(pk=served.session.pk).update(revision=F("revision") + 1)
        snapshot.save(force_insert=True)
        store_excerpts(excerpts)
    return snapshot


def packed_excerpts(
    excerpts: Mapping[tuple[UUID, int], Excerpt],
) -> list[tuple[UUID, int, str | bytes]]:
    """The excerpts to store with a snapshot, those of the newest steps, in the order of all transactions."""
    newest = sorted(excerpts, key=lambda key: key[1])[-MAX_NEW_EXCERPTS:]  # a fork has the later anchors
    return [(*key, pack(dump_plain(excerpts[key].dump()))) for key in sorted(newest)]


def find_snapshot(session: Session, id: UUID, as_of: int | None = None) -> Snapshot:
    """The session's own snapshot with this id.

    Raises:
        NotFound: when the session has no such snapshot, or it was recorded after ``as_of``.
    """
    session.lineage(as_of)  # refuses a position beyond the head
    snapshot = Snapshot.objects.filter(session=session, pk=id).first()
    if snapshot is None or (as_of is not None and snapshot.position > as_of):
        raise NotFound(f"There is no snapshot {id} in this session.")
    return snapshot


@dataclass(frozen=True, slots=True)
class RebuiltRequest:
    """A request rebuilt from the log, without the live screen."""

    request: Request
    sha256: str
    matches: bool
    """Whether it equals the served request byte for byte."""


def rebuild_request(session: Session, snapshot: Snapshot) -> RebuiltRequest:
    """Rebuilds the request of a snapshot from the same log and spec."""
    past = SnapshotHistory(session, snapshot.position, snapshot.summaries)
    spec = ContextSpec(
        policy=snapshot.policy,
        format=snapshot.format,
        model=snapshot.model,
        max_tokens=snapshot.max_tokens,
        settings=load_settings(snapshot.settings),
        factor=snapshot.factor,
        tools=snapshot.tools,
        screen_tokens=snapshot.screen_tokens,
        keeps_all_reasoning=not snapshot.prefix_sha256,
    )
    excerpts_only = replace(spec, notes_as_earlier=True)
    earlier_scores = replace(excerpts_only, scores_as_earlier=True)
    few_names = replace(earlier_scores, reads_few_names=True)
    unfilled = replace(few_names, fills_newest=False)
    specs_by_version = (spec, excerpts_only, earlier_scores, few_names, unfilled)
    requests = (build(past, spec).request for spec in specs_by_version)
    newest = next(requests)
    for request in chain([newest], requests):
        if served := _as_served(request, snapshot.sha256):
            return RebuiltRequest(served, snapshot.sha256, True)
    return RebuiltRequest(newest, digest(newest), False)


def _as_served(request: Request, sha256: str) -> Request | None:
    """The request as it is or with the text at the beginning of earlier versions, whichever has the hash."""
    if digest(request) == sha256:
        return request
    earlier = json.loads(render_bytes(request).decode().replace(START, EARLIER_START))
    return earlier if digest(earlier) == sha256 else None


@dataclass(frozen=True, slots=True)
class SnapshotComparison:
    """The changes from an earlier snapshot to a later one."""

    earlier: Snapshot
    later: Snapshot
    segments: SegmentDiff
    prefix: PrefixDiff
    cache: CacheEffect


def diff_snapshots(session: Session, a: Snapshot, b: Snapshot) -> SnapshotComparison:
    """Compares two snapshots, in any order, without their live screens."""
    earlier, later = sorted((a, b), key=lambda snapshot: snapshot.pk)
    snapshots = (earlier, later)
    prefix = diff_prefix(*(prefix_bytes(rebuild_request(session, row).request) for row in snapshots))
    segments = diff_segments(*(Manifest.model_validate(row.manifest).segments for row in snapshots))
    effect = cache_effect(tokens_of(later), prefix.share, price_list().of(later.model))
    return SnapshotComparison(earlier, later, segments, prefix, effect)


def tokens_of(snapshot: Snapshot) -> int:
    """The input tokens of a snapshot: billed, otherwise counted by the provider, otherwise estimated."""
    counts = (snapshot.billed, snapshot.counted, snapshot.estimated)
    return next(tokens for tokens in counts if tokens is not None)

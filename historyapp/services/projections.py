"""Rebuilds the projections of a session's log and compares them with the stored ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Max

from historyapp.core.entries import Rewind
from historyapp.core.overview.running import WAIT
from historyapp.core.projection import Step, Tail, Totals, advance
from historyapp.core.run_clock import Clock
from historyapp.core.usage import NO_CALLS, ModelTotals, names_fit
from historyapp.models import Entry, Episode, Session, StaleOutcomes
from historyapp.models.episodes import columns
from historyapp.models.own_rows import OwnRow, own_rows
from historyapp.models.projects import PURGED
from historyapp.models.stored_totals import SHARED
from historyapp.models.strips import read_strip
from historyapp.models.tails import tail_of
from historyapp.services.append import apply_tail
from historyapp.services.figures.day_checks import recount_days
from historyapp.services.figures.run_figures import recount
from historyapp.services.list_columns import (
    LIST_COLUMNS,
    PLACE_COLUMNS,
    read_shared,
    set_duration,
    tail_after_rewind,
)
from historyapp.services.names.rebuild import rebuild_names
from historyapp.services.outcomes import OUTCOME_COLUMNS
from historyapp.services.rewinds import copy_cut_step
from historyapp.services.search.index import rebuild_search
from historyapp.services.text_index import rebuild_text
from historyapp.services.transactions import writing

_PROJECTED_COLUMNS = (
    "head", "closed_spans", "tail_start", "tail", "last_entry_at", "steps", "errors", "tokens", "cost",
    *LIST_COLUMNS, "is_listed",
)  # fmt: skip
_BATCH_SIZE = 500
_LATER_TOTALS = ("idle", "interruptions")
"""Totals that entries of earlier versions do not have."""


@dataclass(slots=True)
class RebuildReport:
    """The result of rebuilding one session."""

    session: Session
    entries: int = 0
    differences: list[str] = field(default_factory=list)
    """One sentence for each difference between the stored rows and the log."""
    without_models: int | None = None
    """The position of the first entry whose totals are not split by model, because an earlier version wrote
    it; or None."""
    lacking: set[str] = field(default_factory=set)
    """The totals of :data:`_LATER_TOTALS` that an entry lacks, because an earlier version wrote it. Entries
    after it lack a part of them."""


def parents_first() -> Iterator[Session]:
    """All sessions, each after the one it was forked from. Those that a purge is deleting are left out."""
    roots = Session.objects.filter(forked_from=None).exclude(project=PURGED)
    generation = list(roots.values_list("pk", flat=True))
    while generation:
        for start in range(0, len(generation), 500):
            yield from Session.objects.filter(pk__in=generation[start : start + 500])
        children = Session.objects.exclude(forked_from=None).values_list("pk", "forked_from")
        parents = set(generation)
        generation = [child for child, parent in children if parent in parents]


def rebuild(session: Session, *, check_only: bool = False) -> RebuildReport:
    """Rebuilds a session's counters, episode rows and text blocks by reading its log from the start.

    A fork reads its parent's rows, so rebuild parents first (:func:`parents_first`).

    Args:
        check_only: compare only; change nothing.
    """
    with writing():
        locked = Session.objects.select_for_update(no_key=True).get(pk=session.pk)
        before = _stored(locked)
        report = RebuildReport(locked)
        _replay(locked, report)
        stale = StaleOutcomes.objects.filter(session=locked)
        after = _stored(locked)
        is_stale = stale.exists()
        # Not compared: what depends on prices, and all list columns if an earlier version stored them.
        has_list_columns = before["session"]["is_listed"] and not is_stale
        ignored = ("money", "cost_is_minimum") if has_list_columns else (*LIST_COLUMNS, "is_listed")
        after["session"] |= {name: before["session"][name] for name in ignored}
        _copy_old_state(before["session"]["tail"], after["session"]["tail"], report)
        report.differences.extend(_compare(before, after, is_stale=is_stale))
        stale.delete()
        report.differences.extend(recount(locked))
        report.differences.extend(recount_days(locked))
        report.differences.extend(rebuild_text(locked))
        report.differences.extend(rebuild_names(locked))
        report.differences.extend(rebuild_search(locked))
        if check_only:
            transaction.set_rollback(True)
    return report


def _replay(session: Session, report: RebuildReport) -> None:
    steps = Episode.objects.filter(session=session)
    # Snapshots of forks lock these rows in this order, without the session. DELETE would lock them in any.
    list(steps.select_for_update().order_by("anchor").values_list("anchor"))
    steps.delete()
    shared = session.shared_lineage
    newest = Entry.objects.defer("body", "metadata").newest(shared)
    if newest is not None:
        session.last_entry_at = newest.created_at
    session.head, session.tail_start = session.fork_position, session.fork_position + 1
    session.closed_spans = shared.dump()
    tail = tail_of(shared)
    if session.forked_from_id:
        tail = copy_cut_step(session.pk, tail, session.fork_position)._replace(clock=Clock(is_waiting=True))
    rows = _EpisodeWriter(session, tail.step)
    own = Entry.objects.filter(session=session).aggregate(last=Max("position"))
    for entry in own_rows(session.pk, session.fork_position + 1, own["last"] or 0):
        tail = _apply_entry(session, tail, entry, rows)
        report.entries += 1
        if not _same_totals(entry, tail.totals.dump(), report):
            report.differences.append(f"entry {entry.position} has different running totals")
        else:
            tail = tail._replace(totals=_with_stored_fields(tail.totals, entry))
    rows.flush()
    revision = session.revision
    lineage = session.lineage()
    apply_tail(session, tail, read_shared(session, lineage) if session.forked_from_id else None)
    set_duration(session, lineage)
    session.revision, session.is_listed = revision, True
    session.strip = read_strip(lineage, session.steps)
    session.save(update_fields=[*_PROJECTED_COLUMNS, *PLACE_COLUMNS])


def _apply_entry(session: Session, tail: Tail, entry: OwnRow, rows: "_EpisodeWriter") -> Tail:
    session.head, loaded = entry.position, entry.core()
    body = loaded.body
    if isinstance(body, Rewind):
        rows.flush()
        lineage = session.stored_lineage({"spans": body.spans, "older": body.older})
        session.closed_spans, session.tail_start = lineage.dump(), entry.position + 1
        tail = copy_cut_step(session.pk, tail_of(lineage), entry.position)
        tail = tail_after_rewind(session, lineage, tail, entry.created_at)
        rows.stored = tail.step
        return tail
    session.last_entry_at = entry.created_at
    advanced = advance(tail, loaded)
    rows.changed.update((step.anchor, step) for step in advanced.changed)
    if len(rows.changed) >= _BATCH_SIZE:
        rows.flush()
    return advanced.tail


def _same_totals(entry: OwnRow, computed: dict[str, Any], report: RebuildReport) -> bool:
    """Whether an entry's totals match the log.

    Earlier versions stored no totals by model, or fewer fields of them, or longer names. Entries are never
    edited, so only the stored fields are compared, and totals with longer names are not.
    """
    stored = dict(entry.totals)
    stored_models, models = stored.pop("models", {}), computed.pop("models", {})
    for name in _LATER_TOTALS:
        then, now = stored.pop(name, 0), computed.pop(name, 0)
        if now > 0 and not then:
            report.lacking.add(name)
        if then != now and name not in report.lacking:
            return False
    if stored != computed:
        return False
    if models and not stored_models and report.without_models is None:
        report.without_models = entry.position
    if report.without_models is not None or not names_fit([*filter(None, stored_models)]):
        return True
    return stored_models.keys() == models.keys() and all(
        figures == models[name][: len(figures)] for name, figures in stored_models.items()
    )


def _with_stored_fields(totals: Totals, entry: OwnRow) -> Totals:
    """The totals with those fields as the entry has them that entries of earlier versions lack.

    Costs of a part of a session are differences of stored totals, so the session's totals must not have more
    than its newest entry.
    """
    totals = totals._replace(**{name: entry.totals.get(name, 0) for name in _LATER_TOTALS})
    if not any(figures.cache_write_hour or figures.missing_output for figures in totals.models.values()):
        return totals
    stored, models = Totals.load(entry.totals).models, dict[str, ModelTotals]()
    for name, used in totals.models.items():
        known = stored.get(name, NO_CALLS)
        models[name] = used._replace(
            cache_write_hour=known.cache_write_hour, missing_output=known.missing_output
        )
    return totals._replace(models=models)


def _copy_old_state(stored: dict[str, Any], rebuilt: dict[str, Any], report: RebuildReport) -> None:
    """Copies the state of a tail if an earlier version wrote the tail or the first entries."""
    rebuilt["running"] = stored.get("running", {})  # earlier versions remembered no command
    if not rebuilt["running"]:
        del rebuilt["running"]
    is_earlier = "clock" not in stored
    for name, total in (("clock", "idle"), ("is_interrupted", "interruptions")):
        if is_earlier or total in report.lacking:
            rebuilt.pop(name, None)
            rebuilt |= {name: stored[name]} if name in stored else {}


class _EpisodeWriter:
    """Collects episode rows and writes them in batches."""

    def __init__(self, session: Session, stored: Step | None) -> None:
        self.session = session
        self.stored = stored
        self.changed: dict[int, Step] = {}

    def flush(self) -> None:
        newest = next(reversed(self.changed.values()), None)
        if self.stored is not None and (changed := self.changed.pop(self.stored.anchor, None)):
            Episode.objects.filter(session=self.session, anchor=changed.anchor).update(**columns(changed))
        Episode.objects.bulk_create(Episode.of(self.session.pk, step) for step in self.changed.values())
        self.stored = newest or self.stored
        self.changed = {}


def _stored(session: Session) -> dict[str, Any]:
    """All stored projections of a session."""
    row = Session.objects.filter(pk=session.pk).values(*_PROJECTED_COLUMNS).get()
    episodes = Episode.objects.filter(session=session).order_by("anchor").values()
    return {"session": row, **{f"step row {e['anchor']}": e for e in episodes}}


def _compare(before: dict[str, Any], after: dict[str, Any], *, is_stale: bool) -> Iterator[str]:
    # An earlier version stored no kind in the rows of steps with tool calls.
    is_earlier = any(row.get("tool_names") and not row["kind"] for row in before.values())
    ignored = OUTCOME_COLUMNS if is_stale or is_earlier else ()
    for name in dict.fromkeys((*before, *after)):
        stored, rebuilt = before.get(name), after.get(name)
        if stored is not None and rebuilt is not None:
            rebuilt = _with_excerpts(stored, _without_new_outcomes(stored, rebuilt, ignored))
            rebuilt = _without_new_waits(stored, rebuilt)
        if stored == rebuilt:
            continue
        if stored is None or rebuilt is None:
            yield f"{name} was {'missing' if stored is None else 'not in the log'}"
        else:
            differing = [column for column in rebuilt if stored[column] != rebuilt[column]]
            yield f"{name} differed in {', '.join(differing)}"


def _without_new_outcomes(
    stored: dict[str, Any], rebuilt: dict[str, Any], ignored: Sequence[str]
) -> dict[str, Any]:
    """The rebuilt row with the stored values of ignored columns, and without new fields of the tail and of
    its newest step."""
    if "tail" not in rebuilt:
        return {**rebuilt, **{name: stored[name] for name in ignored}}
    stored_step, rebuilt_step = (row["tail"].get("step") or {} for row in (stored, rebuilt))
    step = {name: value for name, value in rebuilt_step.items() if name in stored_step}
    step |= {name: stored_step[name] for name in ignored if name in step}
    tail = {**rebuilt["tail"], "step": step or rebuilt_step or None}
    if SHARED not in stored["tail"]:
        tail.pop(SHARED, None)
    for name in ("begins_turn", "is_compacted"):
        if ignored and name not in stored["tail"]:
            tail.pop(name, None)
    if ignored:
        tail["input_preview"] = stored["tail"].get("input_preview", "")
    return {**rebuilt, "tail": tail}


def _without_new_waits(stored: dict[str, Any], rebuilt: dict[str, Any]) -> dict[str, Any]:
    """The rebuilt row without the command for which a step waits, if an earlier version stored none."""
    if "tail" in rebuilt:
        steps = (row["tail"].get("step") or {} for row in (stored, rebuilt))
        step = _without_new_waits(*steps) or None
        return {**rebuilt, "tail": {**rebuilt["tail"], "step": step}}
    is_new = not stored.get("target") and rebuilt.get("target", "").startswith(WAIT)
    return {**rebuilt, "target": stored["target"]} if is_new and "target" in stored else rebuilt


def _with_excerpts(stored: dict[str, Any], rebuilt: dict[str, Any]) -> dict[str, Any]:
    """The rebuilt row with the stored excerpt: contexts compute and store excerpts again. In the tail of an
    earlier version, the step has an excerpt, but not every column."""
    if "excerpt" in stored:
        return {**rebuilt, "excerpt": stored["excerpt"]}
    stored_step, rebuilt_step = (row["tail"].get("step") or {} for row in (stored, rebuilt))
    step = {name: value for name, value in rebuilt_step.items() if name in stored_step}
    if step and "excerpt" in stored_step:
        step["excerpt"] = stored_step["excerpt"]
    return {**rebuilt, "tail": {**rebuilt["tail"], "step": step or rebuilt_step or None}}

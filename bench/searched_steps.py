"""Fills a database with sessions whose steps are those of the corpus, with rare names that differ.

The rows of sessions and entries are written directly, many in each statement. Runs inside Django.
"""

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from historyapp.core.json import load_dumped
from historyapp.core.search_documents import (
    SearchDocument,
    UnreadEntry,
    day_tokens,
    document_of,
    project_token,
    session_token,
    split_steps,
)
from historyapp.core.searchable import passages
from historyapp.models import Project, SearchProgress, SearchStep, Session
from historyapp.models.changes import newest_cursor
from historyapp.models.entries import Entry
from historyapp.models.fields import pack, unpack, uuid_value
from historyapp.models.search_steps import logged_entries
from historyapp.models.sql import fetch_all
from historyapp.models.vendor import on_sqlite
from historyapp.services.search.index import MAX_STEPS, insert_rows
from historyapp.services.transactions import writing

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
VARIANTS = 12
"""Spellings of each rare name, so that the vocabulary grows as that of real projects does."""
RARE = 3
"""A word that occurs in at most this many steps is spelled differently in each variant."""
AGENTS = ("fixer", "writer", "tester", "reviewer", "nightly")
MODELS = ("gpt-5", "gpt-5-mini", "claude-opus-4-5", "claude-sonnet-4-5")
TAGS = ("nightly", "ci", "bug", "docs", "release")
DAYS = 90
NIL = UUID(int=0)
SESSIONS_AT_ONCE = 25
_NAME = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{6,40}")
_ADD = (
    "INSERT INTO historyapp_entry (session_id, position, kind, created_at, body, metadata, tokens, totals) "
    "VALUES {rows}"
)
_AT_ONCE = 1000


class PooledEntry(NamedTuple):
    kind: str
    body: str | bytes
    """As its column has it."""


Step = list[PooledEntry]


def fill(steps: int, sessions: int) -> Project:
    """A project of sessions with as many steps in each."""
    pool = _pool()
    project = Project.objects.create(name="searched")
    chance, started, now = random.Random(7), time.monotonic(), timezone.now()
    for start in range(0, sessions, SESSIONS_AT_ONCE):
        with transaction.atomic():
            new_sessions = [
                _session(project, number, steps // sessions, now)
                for number in range(start, min(sessions, start + SESSIONS_AT_ONCE))
            ]
            Session.objects.bulk_create(new_sessions)
            for session in new_sessions:
                _write(session, _chosen(chance, pool, steps // sessions))
            Session.objects.bulk_update(new_sessions, ["head"])
        if start % 500 == 0:
            sys.stderr.write(f"session {start:,} after {time.monotonic() - started:.0f} s\n")
    return project


def _session(project: Project, number: int, steps: int, now: datetime) -> Session:
    at = now - timedelta(days=DAYS) + timedelta(days=DAYS) * (number / 5000)
    tag = TAGS[number % len(TAGS)]
    return Session(
        project=project, title=f"run {number} of the corpus", agent=AGENTS[number % len(AGENTS)],
        model=MODELS[number % len(MODELS)], tags_text=f"\n{tag}\n", last_entry_at=at,
        tail_start=1, steps=steps, cost=number * 1000, tokens=steps * 900, errors=number % 30,
    )  # fmt: skip


def _pool() -> list[list[Step]]:
    """The corpus' steps in order, for each variant."""
    if not Session.objects.filter(project__name="corpus").exists():
        corpus = Project.objects.create(name="corpus")
        with redirect_stdout(StringIO()):
            call_command("import", str(CORPUS), project=corpus.name, verbosity=0)
    plain: list[list[tuple[str, str]]] = []
    for session in Session.objects.filter(project__name="corpus").order_by("pk"):
        bodies = dict(Entry.objects.filter(session=session).values_list("position", "body"))
        for run in split_steps(logged_entries(session.pk, session.fork_position + 1, session.head)):
            plain.append([(logged.kind, json.dumps(bodies[logged.position])) for logged in run])
    counts: Counter[str] = Counter()
    for step in plain:
        counts.update({name for _, body in step for name in _NAME.findall(body)})
    rare = {name for name, count in counts.items() if count <= RARE}
    return [[_packed(step, _renamed(rare, variant)) for step in plain] for variant in range(VARIANTS)]


def _renamed(rare: set[str], variant: int) -> "Callable[[re.Match[str]], str]":
    ending = chr(97 + variant) * 2 if variant else ""

    def written(found: "re.Match[str]") -> str:
        name = found[0]
        return name[: len(name) - len(ending)] + ending if name in rare else name

    return written


def _packed(step: list[tuple[str, str]], written: "Callable[[re.Match[str]], str]") -> Step:
    return [PooledEntry(kind, pack(_NAME.sub(written, body))) for kind, body in step]


def _chosen(chance: random.Random, pool: list[list[Step]], count: int) -> Iterator[Step]:
    """Runs of 20 steps that follow each other in the corpus."""
    while count > 0:
        steps = pool[chance.randrange(VARIANTS)]
        start = chance.randrange(len(steps) - 20)
        yield from steps[start : start + min(20, count)]
        count -= 20


def _write(session: Session, steps: Iterator[Step]) -> None:
    rows: list[tuple[Any, ...]] = []
    at = session.last_entry_at
    number = 0
    for step in steps:
        for entry in step:
            number += entry.kind == "model_output"
            session.head += 1
            totals = f'{{"steps":{number}}}'
            when = connection.ops.adapt_datetimefield_value(at) if on_sqlite() else at
            rows.append(
                (uuid_value(session.pk), session.head, entry.kind, when, entry.body, "{}", 500, totals)
            )
        at += timedelta(seconds=5)
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _AT_ONCE):
            batch = rows[start : start + _AT_ONCE]
            places = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s)"] * len(batch))
            cursor.execute(_ADD.format(rows=places), [value for row in batch for value in row])


def index_directly(project: Project, steps: int, sessions: int) -> None:
    """Makes the rows of the index from documents that are made once for each step of the corpus.

    The rows are those that workers make, which takes three times as long.
    """
    pool, chance, started = _pool(), random.Random(7), time.monotonic()
    known: dict[int, SearchDocument] = {}
    done = set(SearchStep.objects.filter(project=project).values_list("session", flat=True).distinct())
    for number, session in enumerate(Session.objects.filter(project=project).order_by("pk")):
        chosen = list(_chosen(chance, pool, steps // sessions))
        if session.pk not in done:
            _index(session, [_known(known, step) for step in chosen])
        if number % 100 == 0:
            sys.stderr.write(f"index of session {number:,} after {time.monotonic() - started:.0f} s\n")
    cursor = str(newest_cursor(project.pk))
    SearchProgress.objects.update_or_create(project=project, defaults={"cursor": cursor, "is_behind": False})


def _known(known: dict[int, SearchDocument], step: Step) -> SearchDocument:
    """The document of a pooled step, with positions from 1 and without the tokens of its session and day."""
    if id(step) not in known:
        at, run = timezone.now(), []
        for place, entry in enumerate(step, 1):
            body = load_dumped(unpack(entry.body))
            run.append(UnreadEntry(place, entry.kind, 1, at, 500, partial(_body, body)))
        document = document_of(NIL, NIL, run)
        known[id(step)] = replace(document, tokens=document.tokens.split(" ", 4)[4])
    return known[id(step)]


def _body(body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    return body, 0


def _index(session: Session, step_documents: Sequence[SearchDocument]) -> None:
    documents, position, at = list[SearchDocument](), 0, session.last_entry_at
    scope = f"{project_token(session.project_id)} {session_token(session.pk)}"
    for number, known in enumerate(step_documents, 1):
        documents.append(
            replace(
                known, first=position + 1, last=position + known.last, anchor=position + known.anchor, at=at,
                step=number, tokens=f"{scope} {' '.join(day_tokens(at))} {known.tokens}",
            )
        )  # fmt: skip
        position += known.last
        at += timedelta(seconds=5)
    for start in range(0, len(documents), MAX_STEPS):
        with writing():
            insert_rows(session, documents[start : start + MAX_STEPS])


def text_bytes(sessions: Sequence[UUID]) -> float:
    """The UTF-8 bytes of searched text in a step, from a sample of sessions."""
    size = steps = 0
    for session in sessions:
        head = fetch_all("SELECT head FROM historyapp_session WHERE id = %s", [uuid_value(session)])[0][0]
        for run in split_steps(logged_entries(session, 1, head)):
            steps += 1
            for logged in run:
                texts = passages(logged.position, logged.step, logged.kind, logged.read()[0])
                size += sum(len(passage.text.encode()) for passage in texts)
    return size / steps

"""Every kind of entry can be appended, found by its kind and seen on the page; an input is in contexts."""

import json

import pytest
from django.db import connection

from historyapp.api.root import api
from historyapp.core.entries import INPUT_KINDS, KINDS, EntryDraft, dump_body
from historyapp.models import Entry, Project
from historyapp.models.history import History
from historyapp.models.sessions import RARE_KINDS
from historyapp.services.append import append
from historyapp.services.sessions import create_session
from tests.api.agent import Agent, ask, called
from tests.core.entries import sample

APPENDED = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rewind"])
INPUTS = pytest.mark.parametrize("kind", INPUT_KINDS)
WORDS = "the garden wall"


@APPENDED
def test_an_entry_is_appended_and_found_by_its_kind(run: Agent, kind: str) -> None:
    entry = {"kind": kind, **json.loads(json.dumps(dump_body(sample(kind, WORDS))))}
    assert run.append(ask(), called("a"), entry)
    [*_, newest] = run.get(f"/entries?kind={kind}")["items"]
    assert {name: newest[name] for name in entry} == entry


@APPENDED
def test_the_openapi_document_has_each_kind(kind: str) -> None:
    schemas = api.get_openapi_schema()["components"]["schemas"].values()
    kinds = [schema.get("properties", {}).get("kind", {}).get("const") for schema in schemas]
    assert kinds.count(kind) == 2  # on its way in and on its way out


@pytest.mark.django_db
@pytest.mark.parametrize("kind", RARE_KINDS)
def test_each_rare_kind_has_an_index(kind: str) -> None:
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, Entry._meta.db_table)
    assert f"entry_{kind}" in constraints


@INPUTS
def test_contexts_read_each_input_kind_from_the_database(db: None, kind: str) -> None:
    session = create_session(Project.objects.create(name="p"))
    bodies = [sample("model_output"), sample(kind, WORDS)]
    session = append(session.project, session.pk, [EntryDraft(body) for body in bodies]).session
    assert [aside.position for aside in History(session).inputs_newest_first()] == [2]

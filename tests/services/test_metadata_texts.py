"""One text of the metadata of many sessions is read without the values of other fields."""

import tracemalloc
from typing import Any

import pytest

from historyapp.models import Project, Session
from historyapp.models.metadata_texts import metadata_texts
from historyapp.models.session_lists import exit_statuses
from historyapp.services.sessions import create_session
from historyapp.services.subagents import link_subagents

NESTED: list[Any] = [[[[]]] for _ in range(2_400)]
"""19,000 characters of JSON take 0.7 MB of memory."""


@pytest.fixture
def children(project: Project) -> list[Session]:
    """Sessions of one parent, which no call of it started."""
    parent = create_session(project)
    for _ in range(3):
        create_session(project, metadata={"a": NESTED, "exit_status": "done"})
    Session.objects.exclude(pk=parent.pk).update(spawned_by=parent, status=Session.Status.FINISHED)
    return list(Session.objects.exclude(pk=parent.pk))


def test_the_values_of_other_fields_take_no_memory(children: list[Session]) -> None:
    """An import of 500 bytes read the metadata of 200 sub-agents: 637 MB, for 19 s."""
    parent = children[0].spawned_by_id
    assert parent is not None
    for _ in range(2):  # the first time also imports modules
        tracemalloc.start()
        link_subagents([parent])
        found = exit_statuses(children)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 500_000
    assert found == {child.pk: "done" for child in children}


def test_only_texts_are_returned(project: Project) -> None:
    session = create_session(project, metadata={"a": "\udcff", "b": 1, "c": ["d"], "e": "f"})
    [(id, texts)] = metadata_texts(Session.objects.all(), "a", "b", "c")
    assert (id, list(texts)) == (session.pk, ["a"])

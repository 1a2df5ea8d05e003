"""Lists of sessions, runs, links and caps do not load the metadata of their sessions."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from historyapp.models import Project, Session
from historyapp.services.caps import set_caps
from historyapp.services.compression.request import RunRequest
from historyapp.services.compression.start import start_run
from historyapp.services.rewinds import fork
from historyapp.services.shares import ShareOptions, create_share
from tests.dashboard.pages import fragment

PAGES = [
    *("/", "/sessions/{id}/folded", "/search?q=text", "/palette?q=repair", "/compressions", "/project"),
    *("/evaluations", "/figures", "/compare?a={fork}", "/compressions/progress?run={run}"),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_list_does_not_load_the_metadata(
    alice: Client, project: Project, session: Session, page: str
) -> None:
    other = fork(project, session.pk)
    run = start_run(project, other.pk, RunRequest("simple_extract")).run
    create_share(project, other.pk, ShareOptions())
    set_caps(project, {"day": 1_000_000}, session=other)
    with CaptureQueriesContext(connection) as queries:
        response = fragment(alice, page.format(id=session.pk, fork=other.pk, run=run.pk))
    assert response.status_code == 200
    assert not [query["sql"] for query in queries if '"metadata"' in query["sql"]]

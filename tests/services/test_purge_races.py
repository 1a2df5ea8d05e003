"""A purge in the middle of another operation leaves no text of the session in any table.

Each operation runs several times. Each time, the purge starts before another statement of the operation.
"""

import zipfile
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from itertools import count
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, connection
from django.test import Client

from historyapp.models import Project, Session, Webhook
from historyapp.models.evaluations import Evaluation
from historyapp.services.append import append
from historyapp.services.bulk.zip_exports import export_zip
from historyapp.services.exports import export_session
from historyapp.services.figures.feed import follow_changes
from historyapp.services.figures.run_figures import count_ahead
from historyapp.services.names.index import add_chunk
from historyapp.services.search.index import catch_up
from historyapp.services.sessions import create_session
from historyapp.services.text_index import index_text
from historyapp.services.webhooks.endpoints import create_webhook
from historyapp.services.webhooks.fan_out import add_deliveries
from tests.api.conftest import key_for
from tests.purging import Interrupter, purge_everything
from tests.services.drafts import act, ask, failed, ok
from tests.services.test_retention import tables_with

pytestmark = pytest.mark.django_db(transaction=True)
MARKER = "zebra-4711"


class Race:
    """A session whose title and entries contain ``MARKER``, and a client with a key."""

    def __init__(self) -> None:
        self.project = Project.objects.create(name="ours")
        self.webhook = create_webhook(self.project, "https://example.com/")
        self._client = Client(headers={"Authorization": f"Bearer {key_for(self.project, 'alice')}"})
        self.statuses: set[int] = set()
        self.start()
        lines = "".join(export_session(Session.objects.get(), "playhead_jsonl").chunks)
        self._transcript = lines.replace(str(self.session), "an-id").splitlines(keepends=True)

    def start(self) -> None:
        """Creates the session."""
        self.session = create_session(self.project, names={"title": f"about {MARKER}", "agent": MARKER}).pk
        drafts = [ask(MARKER), act(path=MARKER), failed(reason=MARKER), act("b"), ok()]
        append(self.project, self.session, drafts)

    def post(self, path: str, body: object) -> None:
        headers = {"Idempotency-Key": uuid4().hex}
        response = self._client.post(f"/api/v1{path}", body, content_type="application/json", headers=headers)
        self.statuses.add(response.status_code)

    def upload(self, entries: int = 5) -> None:
        """Imports the header and the first entries of the transcript."""
        content = "".join(self._transcript[: 1 + entries]).encode()
        file = SimpleUploadedFile(f"{MARKER}.jsonl", content)
        headers = {"Idempotency-Key": uuid4().hex}
        response = self._client.post("/api/v1/imports", {"files": file}, headers=headers)
        self.statuses.add(response.status_code)


@pytest.fixture
def race() -> Race:
    return Race()


def export_as_jsonl(race: Race) -> None:
    _check_zip(b"".join(export_zip(race.project, [race.session], "playhead_jsonl").chunks))


def export_as_markdown(race: Race) -> None:
    _check_zip(b"".join(export_zip(race.project, [race.session], "markdown").chunks))


def _check_zip(content: bytes) -> None:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[-1] == "index.json"


def import_a_file(race: Race) -> None:
    race.upload()


def import_a_file_that_has_grown(race: Race) -> None:
    race.upload()


def index_for_search(race: Race) -> None:
    catch_up(race.project.pk, lambda: False)


def update_indexes(race: Race) -> None:
    index_text(race.session)
    count_ahead(race.session, lambda: False)
    if session := Session.objects.filter(pk=race.session).first():
        with suppress(IntegrityError):  # a worker logs it, and nothing is stored
            while add_chunk(session):
                pass


def count_figures(race: Race) -> None:
    while follow_changes(lambda: False):
        pass


def build_a_context(race: Race) -> None:
    race.post(f"/sessions/{race.session}/contexts", {})


def append_an_action(race: Race) -> None:
    race.post(f"/sessions/{race.session}/actions", {"thoughts": MARKER, "use_tool": {"name": "ls"}})


def start_a_compression(race: Race) -> None:
    race.post(f"/sessions/{race.session}/compressions", {"model": "local"})


def make_a_fork(race: Race) -> None:
    race.post(f"/sessions/{race.session}/forks", {})


def start_a_bulk_action(race: Race) -> None:
    race.post("/bulk-actions", {"action": "archive", "sessions": [str(race.session)]})


def start_and_cancel_an_evaluation(race: Race) -> None:
    race.post("/evaluations", {"sessions": [str(race.session)], "budgets": [1000]})
    evaluation = Evaluation.objects.order_by("pk").last()
    if evaluation is not None:
        race.post(f"/evaluations/{evaluation.pk}/cancellations", {})


def create_deliveries(race: Race) -> None:
    claim = uuid4()
    Webhook.objects.filter(pk=race.webhook.pk).update(claim=claim)
    while add_deliveries(Webhook.objects.get(pk=race.webhook.pk), claim):
        pass


OPERATIONS: dict[Callable[[Race], None], set[int]] = {
    export_as_jsonl: set(),
    export_as_markdown: set(),
    import_a_file: {201, 409},
    import_a_file_that_has_grown: {201, 409},
    index_for_search: set(),
    update_indexes: set(),
    count_figures: set(),
    build_a_context: {201, 404},
    append_an_action: {201, 404, 409},
    start_a_compression: {202, 404, 409},
    make_a_fork: {201, 404},
    start_a_bulk_action: {202},
    start_and_cancel_an_evaluation: {200, 202, 422},
    create_deliveries: set(),
}
"""The operations, and the statuses of their responses."""


EXPORTS = (export_as_jsonl, export_as_markdown)
ALTERNATELY = {import_a_file: (1, 2), import_a_file_that_has_grown: (2, 2)}
"""The first and every further point of ``some`` for operations that write almost the same."""


@pytest.mark.parametrize("statements", ["some", pytest.param("all", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.__name__))
def test_a_purge_leaves_no_text(race: Race, operation: Callable[[Race], None], statements: str) -> None:
    """``some`` are every third of an export, which reads most of the time, and those before others write."""
    first = every = 3 if statements == "some" and operation in EXPORTS else 1
    if statements == "some" and operation in ALTERNATELY:
        first, every = ALTERNATELY[operation]
    if statements == "some" and connection.vendor == "postgresql":
        every *= 2  # there are more points
    writes_alone = statements == "some" and operation not in EXPORTS
    seen = set[int]()
    for number in count(first, every):
        if operation in (import_a_file, import_a_file_that_has_grown):
            purge_everything(race.project)
        if operation is import_a_file_that_has_grown:
            race.upload(entries=2)
        race.statuses.clear()
        interrupter = Interrupter(race.project, number, writes_alone=writes_alone)
        was_purged = interrupter.run(lambda: operation(race))
        seen |= race.statuses
        purge_everything(race.project)  # what the operation has added after the purge
        if operation is count_figures:
            count_figures(race)  # subtracts the figures of deleted sessions
        assert tables_with(MARKER) == set(), f"The purge started at point {number}."
        if not was_purged:
            break
        race.start()
    assert seen <= OPERATIONS[operation]
    assert number > first, "It was never purged."

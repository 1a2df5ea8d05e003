"""Schemathesis against the OpenAPI document: examples, edge cases, random values and call sequences."""

import re
import sys
from collections import Counter
from io import BytesIO
from typing import Any

import pytest
import schemathesis
import werkzeug.test
from django.core.wsgi import get_wsgi_application
from django.db import connection
from schemathesis.core.failures import Failure
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import RecordedScenario, ScenarioRecorder
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.openapi.checks import EnsureResourceAvailability, UseAfterFree
from schemathesis.schemas import BaseSchema

from historyapp.api.root import api
from historyapp.models import Project
from tests.api.conftest import key_for
from tests.examples import examples, runs_all_examples

STATES = ["2xx", "3xx", "402", "404", "409", "422"]
CONFIG: dict[str, Any] = {
    "seed": 1,
    "continue-on-failure": True,
    "generation": {"deterministic": True, "no-shrink": True, "database": "none"},
    "checks": {
        # A valid request may not fit the state: a step that is not there, a key that was used, a cap reached.
        # `valid_requests_pass_validation` checks that validation itself does not refuse it.
        "positive_data_acceptance": {"expected-statuses": STATES},
    },
}
OPERATIONS = [
    operation["operationId"]
    for methods in api.get_openapi_schema()["paths"].values()
    for operation in methods.values()
]
PHASES = ("coverage", "examples", "fuzzing")
ONE_PHASE = [
    {
        "include-operation-id": OPERATIONS[first::8],
        "phases": {
            "examples": {"fill-missing": True},
            **{other: {"enabled": False} for other in PHASES if other != phase},
        },
    }
    for first, phase in enumerate(["coverage", *["examples", "fuzzing"] * 3, "examples"])
]
"""``make test`` tries edges for every eighth operation, examples for half of all, random requests for others.

An operation without examples gets a random request. Sequences are tried for all operations.
"""
KEEPING = re.compile(r"DELETE /api/v1/sessions/[^/]+(/compressions/[^/]+)?")
"""The DELETEs that delete nothing: an archived session stays readable and can be set to live again, and a
cancelled compression still shows its summaries. All other deleted things must return 404 from then on."""


@schemathesis.check
def valid_requests_pass_validation(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: "schemathesis.Case[Any]"
) -> None:
    """The document declares every rule of validation: a request that it allows passes validation."""
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    # In JSON, 2.0 is the integer 2. In a URL, the text "2.0" is not an integer.
    is_a_float = any(isinstance(value, float) for value in (case.query or {}).values())
    if positive and not is_a_float and response.status_code == 422:
        assert "errors" not in response.json(), response.text


@pytest.fixture
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets schemathesis call the application without a server: a request by HTTP costs twice as much."""
    call, encode = werkzeug.Client.open, werkzeug.test.stream_encode_multipart

    def encode_empty_files_too(*arguments: Any, **options: Any) -> tuple[BytesIO, int, str]:
        # werkzeug leaves out the empty line between the head and the content of a file that is empty.
        stream, _, boundary = encode(*arguments, **options)
        end = b"\r\n--" + boundary.encode()
        body = stream.read().replace(b"\r\n" + end, b"\r\n\r\n" + end)
        return BytesIO(body), len(body), boundary

    def call_without_sockets(self: werkzeug.Client, *arguments: Any, **options: Any) -> Any:
        for setting in ("max_redirects", "verify", "cert"):
            options.pop(setting, None)
        return call(self, *arguments, **options)

    monkeypatch.setattr(werkzeug.Client, "open", call_without_sockets)
    monkeypatch.setattr(werkzeug.test, "stream_encode_multipart", encode_empty_files_too)
    monkeypatch.setitem(sys.modules, "flask", None)  # otherwise each call searches all of sys.path for it


def skip_similar_edges(schema: BaseSchema) -> None:
    """Tries the first valid and the first invalid edge case of each operation and place in a request.

    Of each kind of edge case it also tries the first one for each parameter and each place of a body.
    Operations share the types of parameters and bodies.
    """
    seen: set[Any] = set()

    def is_tried(context: schemathesis.HookContext, case: "schemathesis.Case[Any]") -> bool:
        edge = case.meta and case.meta.phase.data
        if not isinstance(edge, CoveragePhaseData):
            return True
        assert case.meta
        keys = {
            (case.operation.label, edge.parameter_location, case.meta.generation.mode),
            (edge.scenario, edge.parameter_location, edge.parameter, edge.location),
        }
        is_new = not keys <= seen
        seen.update(keys)
        return is_new

    schema.hooks.register_hook_with_name(is_tried, "filter_case")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_in_process")
def test_the_api_matches_its_openapi_document() -> None:
    key = key_for(Project.objects.create(name="Alice's"), "schemathesis")
    headers = {"Authorization": f"Bearer {key}"}
    generation, fuzzing = (
        {**CONFIG["generation"], "max-examples": examples(20, minimum=1, part=part)} for part in (5, 20)
    )
    config = schemathesis.Config.from_dict({
        **CONFIG,
        "generation": generation,
        "phases": {"fuzzing": {"generation": fuzzing}},
        "operations": [] if runs_all_examples() else ONE_PHASE,
        "headers": headers,
    })  # fmt: skip
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), config=config)
    if not runs_all_examples():
        skip_similar_edges(schema)
    failures: dict[str, str] = {}
    checked: Counter[str] = Counter()
    for event in from_schema(schema).execute():
        assert not isinstance(event, (events.NonFatalError, events.FatalError)), event
        if isinstance(event, events.ScenarioFinished):
            checked[event.phase.value] += len(event.recorder.checks)
            failures |= failures_of(event)
    connection.close()
    assert not failures, "\n\n".join(f"{what}\n{how}" for what, how in failures.items())
    assert set(checked) == {"examples", "coverage", "fuzzing", "stateful"}
    assert all(count > 20 for count in checked.values()), checked


def failures_of(event: events.ScenarioFinished) -> dict[str, str]:
    """Each kind of failure, with a request that causes it."""
    failures = {}
    for case_id, checks in event.recorder.checks.items():
        for check in checks:
            failure = check.failure_info and check.failure_info.failure
            excused = failure and (
                is_about_kept_data(failure) or follows_a_replay(failure, event.recorder, case_id)
            )
            if failure and not excused:
                case = event.recorder.cases[case_id].value
                failures[f"{check.name}: {case.operation.label}"] = case.as_curl_command()[:1000]
    return failures


def is_about_kept_data(failure: Failure) -> bool:
    """Whether the check ``use_after_free`` fails because a DELETE keeps the data by contract."""
    return isinstance(failure, UseAfterFree) and KEEPING.fullmatch(failure.free) is not None


def follows_a_replay(failure: Failure, recorder: RecordedScenario, case_id: str) -> bool:
    """Whether the POST that should have created the missing resource was a repeated one.

    Its response is the stored one, and an earlier sequence of requests may have deleted the resource.
    """
    if not isinstance(failure, EnsureResourceAvailability):
        return False
    parent = recorder.find_parent(case_id=case_id)
    response = parent and recorder.find_response(case_id=parent.id)
    return response is not None and "idempotency-replayed" in response.headers


@pytest.mark.parametrize(
    ("path", "excused"),
    [("sessions/1", True), ("sessions/1/compressions/2", True), ("sessions/1/summaries/2", False)],
)
def test_only_a_session_or_a_compression_can_be_read_after_its_delete(path: str, excused: bool) -> None:
    url = f"/api/v1/{path}"
    failure = UseAfterFree(operation="", message="", free=f"DELETE {url}", usage=f"GET {url}")
    assert is_about_kept_data(failure) is excused


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_in_process")
@pytest.mark.parametrize("repeated", [True, False])
def test_a_missing_resource_is_excused_if_its_post_was_repeated(repeated: bool) -> None:
    key = key_for(Project.objects.create(name="Alice's"), "schemathesis")
    headers = {"Authorization": f"Bearer {key}"}
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
    body: dict[str, Any] = {"name": "failed", "query": "status:error"}
    create = schema["/api/v1/searches"]["POST"].Case(body=body, headers={"Idempotency-Key": "1"})
    delete = schema["/api/v1/searches/{search_id}"]["DELETE"].Case()
    recorder = ScenarioRecorder(label="")
    recorder.record_case(case=create)
    recorder.record_case(case=delete, parent_id=create.id)
    for _ in range(2 if repeated else 1):
        recorder.record_response(case_id=create.id, response=create.call(headers=headers))
    failure = EnsureResourceAvailability(operation="", message="", created_with="", not_available_with="")
    assert follows_a_replay(failure, recorder, delete.id) is repeated

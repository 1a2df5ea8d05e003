"""What ``deploy/`` names exists: commands, options, variables, files; and it gives no secret away."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser

from historyapp.env import SECRETS
from tests.test_house import ROOT, variables

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "playhead")
UNITS = sorted(DEPLOY.glob("*.service"))
OF_POSTGRES = {"POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD_FILE", "POSTGRES_INITDB_ARGS"}
OF_PYTHON = {"PATH", "PYTHONUNBUFFERED"}
LIVE_PORT = "8000"


def known_variables() -> set[str]:
    return variables() | {f"{name}_FILE" for name in SECRETS}


def parse_command(arguments: list[str]) -> None:
    """Fails unless ``playhead`` accepts the command and its options."""
    name, *options = arguments
    app = get_commands()[name]
    assert isinstance(app, str)
    parser = load_command_class(app, name).create_parser("playhead", name)
    assert isinstance(parser, CommandParser)
    parser.called_from_command_line = False  # it then raises an error instead of ending the process
    parser.parse_args(options)


def settings_of(unit: Path) -> dict[str, list[str]]:
    """The values of each directive, in order."""
    values: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), flags=re.MULTILINE):
        values.setdefault(name, []).append(value)
    return values


@pytest.mark.parametrize("name", OURS)
def test_the_commands_of_the_services_exist_with_their_options(name: str) -> None:
    parse_command(SERVICES[name]["command"])


def test_the_health_check_of_a_worker_is_a_command() -> None:
    kind, program, *arguments = SERVICES["worker"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "playhead")
    parse_command(arguments)


def test_every_service_that_stays_has_a_health_check() -> None:
    stay = {name for name, service in SERVICES.items() if service["restart"] != "no"}
    assert stay == {"web", "worker", "postgres", "redis"}
    assert {name for name in stay if "healthcheck" not in SERVICES[name]} == set()


def test_a_service_starts_when_what_it_needs_is_ready() -> None:
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            once = SERVICES[needed]["restart"] == "no"
            assert how["condition"] == ("service_completed_successfully" if once else "service_healthy")


@pytest.mark.parametrize("name", OURS)
def test_the_variables_of_the_services_are_settings(name: str) -> None:
    assert set(SERVICES[name]["environment"]) - known_variables() == set()


def test_the_services_of_others_get_only_their_own_variables() -> None:
    assert set(SERVICES["postgres"]["environment"]) - OF_POSTGRES == set()
    assert "environment" not in SERVICES["redis"]


def test_secrets_are_in_files_that_are_not_in_the_repository() -> None:
    for service in SERVICES.values():
        environment = service.get("environment", {})
        assert set(environment) & (set(SECRETS) - {"REDIS_URL"}) == set()
        files = {value for name, value in environment.items() if name.endswith("_FILE")}
        assert files == {f"/run/secrets/{name}" for name in service.get("secrets", [])}
        assert "@" not in str(environment)
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text().split()
    assert all(secret["file"].startswith("secrets/") for secret in COMPOSE["secrets"].values())


def test_the_databases_cannot_be_reached_from_outside() -> None:
    assert COMPOSE["networks"]["data"] == {"internal": True}
    for name in ("postgres", "redis"):
        assert SERVICES[name]["networks"] == ["data"]
        assert "ports" not in SERVICES[name]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["web"]["ports"])


@pytest.mark.parametrize("name", OURS)
def test_a_container_has_no_rights_that_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert "no-new-privileges:true" in service["security_opt"]


def test_the_image_is_made_from_what_the_repository_has() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    allowed = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), flags=re.MULTILINE)
    copied = [
        name
        for names in re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.MULTILINE)
        for name in names.split()
    ]
    assert sorted(copied) == sorted(allowed)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert set(re.findall(r"\b([A-Z][A-Z_]+)=", text)) - known_variables() - OF_PYTHON == set()
    (command,) = re.findall(r"^CMD \[(.+)\]$", text, flags=re.MULTILINE)
    parse_command(re.findall(r'"([^"]+)"', command))
    assert re.search(r"^USER playhead$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_commands_and_variables_of_a_unit_exist(unit: Path) -> None:
    unit_settings = settings_of(unit)
    (line,) = unit_settings["ExecStart"]
    program, *arguments = line.replace("%i", LIVE_PORT).split()
    assert Path(program).name == "playhead"
    parse_command(arguments)
    assert {value.partition("=")[0] for value in unit_settings["Environment"]} - known_variables() == set()
    assert unit_settings["EnvironmentFile"] == ["/etc/playhead/playhead.env"]


def test_the_variables_of_the_environment_file_are_settings() -> None:
    text = (DEPLOY / "playhead.env").read_text()
    given = dict(re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE))
    assert set(given) - known_variables() == set()
    assert {name for name in SECRETS if given.get(name)} == set()


HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "User": "playhead",
}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_hardened_and_restarts(unit: Path) -> None:
    unit_settings = settings_of(unit)
    assert {name: unit_settings.get(name) for name in HARDENING} == {
        name: [v] for name, v in HARDENING.items()
    }
    # The worker sets its own priority, which belongs to @resources.
    assert unit_settings["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert unit_settings["Restart"][0] in ("always", "on-failure")


def test_the_database_allows_the_connections_that_the_docs_add_up() -> None:
    rows = re.findall(r"^\| (web process|worker) \| (\d+) \|", (ROOT / "docs/scaling.md").read_text(), re.M)
    web, worker = (int(connections) for _, connections in rows)
    composed = (DEPLOY / "compose.yaml").read_text()
    assert f"a web process uses {web} connections and a worker {worker}:" in composed
    allowed = int(SERVICES["postgres"]["command"][-1].removeprefix("max_connections="))
    assert 2 * (web + worker) + 2 * worker <= allowed


def test_a_unit_waits_longer_than_the_server_and_its_worker_take_to_stop() -> None:
    from historyapp.server import STOP_SECONDS as SERVER
    from historyapp.supervisor import STOP_SECONDS as WORKER

    waits = [int(settings_of(unit)["TimeoutStopSec"][0]) for unit in UNITS]
    waits += [int(SERVICES[name]["stop_grace_period"].removesuffix("s")) for name in ("web", "worker")]
    assert min(waits) > SERVER + WORKER

"""``playhead keys``: a key is shown once, and revoking works at once."""

from datetime import timedelta

import pytest
from django.utils import timezone

from historyapp.models import ApiKey, AuditRecord, Project
from historyapp.services.bootstrap import default_project
from historyapp.services.keys import hash_secret
from tests.commands.conftest import Run


def test_only_the_new_key_is_printed_so_that_a_script_can_read_it(run: Run) -> None:
    ran = run("keys", "create", "ci")
    text = ran.out.removesuffix("\n")
    assert text.startswith("ph_")
    assert "\n" not in text
    assert ApiKey.objects.get().key_hash == hash_secret(text)
    assert ran.err == "Store it now: it cannot be shown again.\n"


def test_a_key_reads_and_writes_by_default(run: Run) -> None:
    run("keys", "create", "agent")
    run("keys", "create", "viewer", "--scopes", "read")
    assert dict(ApiKey.objects.values_list("name", "scopes")) == {
        "agent": ["read", "write"],
        "viewer": ["read"],
    }


def test_a_key_can_have_an_expiry(run: Run) -> None:
    run("keys", "create", "guest", "--expires", 30)
    expires_at = ApiKey.objects.get().expires_at
    assert expires_at
    assert abs(expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=5)


@pytest.mark.parametrize("name", ["", "x" * 201, "\udc80", "a\0b"])
def test_a_name_that_cannot_be_stored_is_refused(run: Run, name: str) -> None:
    assert "a name has 1 to 200 characters" in run("keys", "create", name).error


@pytest.mark.parametrize("days", ["0", "-1", "soon", "1e9", "99999999"])
def test_an_invalid_number_of_days_is_refused(run: Run, days: str) -> None:
    assert "is not a number of days" in run("keys", "create", "guest", f"--expires={days}").error


def test_an_unknown_scope_is_refused_in_one_sentence(run: Run) -> None:
    ran = run("keys", "create", "x", "--scopes", "read,root")
    assert ran.error == "There is no scope root. Use read, write, admin, spend."
    assert not ApiKey.objects.exists()


def test_the_list_shows_the_scopes_and_the_state_of_each_key_but_never_the_key(run: Run) -> None:
    text = run("keys", "create", "agent").out.strip()
    run("keys", "create", "old", "--expires", 1)
    ApiKey.objects.filter(name="old").update(expires_at=timezone.now() - timedelta(days=2))
    run("keys", "create", "lost")
    run("keys", "revoke", ApiKey.objects.get(name="lost").prefix)
    lines = {line.split()[1]: line for line in run("keys", "list").out.splitlines()}
    assert text[:10] in lines["agent"]
    assert text[:14] not in lines["agent"]
    assert lines["agent"].split()[2:] == ["read,", "write", lines["agent"].split()[4], "never", "works"]
    assert "expired" in lines["old"]
    assert "revoked" in lines["lost"]


def test_a_name_cannot_steer_the_terminal(run: Run) -> None:
    run("keys", "create", "\x1b[2J[bold]")
    assert "\\x1b[2J[bold]" in run("keys", "list").out


def test_a_revoked_key_is_refused(run: Run) -> None:
    prefix = run("keys", "create", "agent").out[:10]
    assert run("keys", "revoke", prefix).out == f"agent ({prefix}…) is revoked.\n"
    assert not ApiKey.objects.usable(timezone.now()).exists()
    refused = run("keys", "revoke", prefix).error
    assert refused.startswith(f"No usable key has {prefix} as its first 10 characters or as its id.")


def test_keys_with_the_same_prefix_are_revoked_by_id(run: Run) -> None:
    for name in ("one", "two"):
        run("keys", "create", name)
    ApiKey.objects.update(prefix="ph_1234567")
    one, two = ApiKey.objects.order_by("created_at")
    error = run("keys", "revoke", "ph_1234567").error
    assert error.startswith("2 keys begin with ph_1234567. Revoke one by its id: ")
    assert str(one.pk) in error
    assert run("keys", "revoke", one.pk).out == "one (ph_1234567…) is revoked.\n"
    assert list(ApiKey.objects.usable(timezone.now())) == [two]


def test_keys_belong_to_the_named_project(run: Run) -> None:
    default_project()
    other = Project.objects.create(name="Other")
    run("keys", "create", "agent", "--project", "Other")
    assert ApiKey.objects.get().project == other
    assert "agent" not in run("keys", "list").out
    assert "agent" in run("keys", "list", "--project", "Other").out


def test_the_error_of_an_unknown_project_lists_the_known_ones(run: Run) -> None:
    default_project()
    assert (
        run("keys", "list", "--project", "Oter").error
        == "There is no project 'Oter'. The projects are: Default."
    )


def test_creating_and_revoking_a_key_is_audited(run: Run) -> None:
    run("keys", "revoke", run("keys", "create", "agent").out[:10])
    actions = AuditRecord.objects.order_by("created_at").values_list("actor", "action")
    assert list(actions) == [("command line", "make key"), ("command line", "revoke key")]


def test_an_owner_grants_and_withdraws_the_scope_spend(run: Run) -> None:
    run("keys", "create", "agent")
    prefix = ApiKey.objects.get().prefix
    assert run("keys", "grant", prefix).out == f"agent ({prefix}…) now has the scopes read, write, spend.\n"
    assert ApiKey.objects.get().scopes == ["read", "write", "spend"]
    assert run("keys", "withdraw", prefix).out == f"agent ({prefix}…) now has the scopes read, write.\n"
    assert ApiKey.objects.get().scopes == ["read", "write"]
    assert AuditRecord.objects.filter(action="change scopes").count() == 2


def test_the_error_of_an_invalid_grant_gives_the_reason(run: Run) -> None:
    run("keys", "create", "agent")
    prefix = ApiKey.objects.get().prefix
    assert run("keys", "grant", prefix, "--scopes", "root").error.startswith("There is no scope root.")
    assert run("keys", "grant", "ph_nobody").error.startswith(
        "No usable key has ph_nobody as its first 10 characters"
    )

"""Keys and sign-in links: shown once, stored as hashes, useless once revoked, used or expired."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from historyapp.core.errors import Invalid, NotFound
from historyapp.models import ApiKey, AuditRecord, Project, SignInLink
from historyapp.services.bootstrap import bootstrap
from historyapp.services.keys import (
    bootstrap_key,
    change_scopes,
    create_key,
    create_sign_in_link,
    find_key,
    on_credential,
    record_use,
    revoke_key,
    use_sign_in_link,
)


def test_a_key_is_found_by_its_text_and_stored_as_a_hash(project: Project) -> None:
    key, text = create_key(project, "laptop", scopes=["write", "read"], actor="user:alice")
    assert text.startswith("ph_")
    assert find_key(text) == key
    read = find_key(text)
    assert read is not None
    assert (read.project, read.scopes) == (project, ["read", "write"])
    stored = ApiKey.objects.values().get()
    assert text not in str(stored)
    assert find_key(text[:-1]) is None
    assert AuditRecord.objects.get().actor == "user:alice"


def test_only_a_found_key_is_reported_with_its_project(project: Project) -> None:
    _, text = create_key(project, "laptop")
    owners: list[bytes] = []
    token = on_credential.set(owners.append)
    try:
        find_key("ph_invented")
        assert owners == []
        find_key(text)
    finally:
        on_credential.reset(token)
    assert owners == [project.pk.bytes]


def test_deferred_fields_of_a_key_are_loaded_on_use(project: Project) -> None:
    key, text = create_key(project, "laptop")
    read = find_key(text)
    assert read is not None
    assert (read.name, read.project.name) == (key.name, project.name)
    read.scopes.append("admin")
    again = find_key(text)
    assert again is not None
    assert "admin" not in again.scopes
    read.name = "desk"
    read.save(update_fields=["name"])
    assert ApiKey.objects.get().name == "desk"


def test_the_error_of_an_unknown_scope_lists_the_known_ones(project: Project) -> None:
    with pytest.raises(Invalid, match="read, write, admin, spend"):
        create_key(project, "laptop", scopes=["root"])


def test_expiry_and_last_use_have_a_time_zone(project: Project) -> None:
    now = timezone.now()
    key, text = create_key(project, "laptop", expires_at=now + timedelta(hours=1))
    record_use(key, now)
    read = find_key(text)
    assert read is not None
    assert (read.expires_at, read.last_used_at) == (now + timedelta(hours=1), now)


def test_the_last_use_is_stored_to_the_minute(project: Project) -> None:
    now = timezone.now()
    key, _ = create_key(project, "laptop")
    for later in (0, 30, 59, 90):
        record_use(ApiKey.objects.get(pk=key.pk), now + timedelta(seconds=later))
    assert ApiKey.objects.get().last_used_at == now + timedelta(seconds=90)


def test_the_error_of_a_revoked_key_says_when(project: Project) -> None:
    key, text = create_key(project, "laptop")
    revoke_key(project, key.prefix)
    read = find_key(text)
    assert read is not None
    assert read.revoked_at is not None
    assert not ApiKey.objects.usable(timezone.now()).exists()
    with pytest.raises(NotFound):
        revoke_key(project, key.prefix)
    with pytest.raises(NotFound):
        revoke_key(Project.objects.create(name="Charlie's"), key.prefix)


@pytest.mark.django_db
def test_a_fresh_installation_has_an_owner_a_project_and_a_key_that_stay() -> None:
    first, second = bootstrap(), bootstrap()
    assert (first.project, first.user, first.api_key) == (second.project, second.user, second.api_key)
    assert first.sign_in_path != second.sign_in_path
    assert list(first.project.members.all()) == [first.user]
    assert ApiKey.objects.count() == 1


@pytest.mark.django_db
def test_the_first_key_can_be_chosen(settings: Settings) -> None:
    settings.PLAYHEAD_API_KEY = "ph_mine_0123456789abcdef"
    assert bootstrap().api_key == "ph_mine_0123456789abcdef"
    assert find_key("ph_mine_0123456789abcdef") is not None


@pytest.mark.django_db
def test_a_revoked_first_key_stays_revoked() -> None:
    first = bootstrap()
    assert first.api_key is not None
    revoke_key(first.project, first.api_key[:10])
    assert bootstrap().api_key is None
    assert ApiKey.objects.count() == 1


def test_a_sign_in_link_works_once(db: None) -> None:
    alice = User.objects.create_user("alice")
    token = create_sign_in_link(alice)
    assert token not in str(SignInLink.objects.values().get())
    assert use_sign_in_link(token) == alice
    with pytest.raises(NotFound, match="used or has expired"):
        use_sign_in_link(token)


def test_a_sign_in_link_ends_after_15_minutes(db: None) -> None:
    token = create_sign_in_link(User.objects.create_user("alice"))
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(NotFound, match="used or has expired"):
        use_sign_in_link(token)


def test_a_link_of_a_disabled_user_does_not_work(db: None) -> None:
    token = create_sign_in_link(User.objects.create_user("bob"))
    User.objects.update(is_active=False)
    with pytest.raises(NotFound):
        use_sign_in_link(token)


def test_the_first_key_of_a_project_may_spend_and_others_may_not(project: Project) -> None:
    text = bootstrap_key(project)
    assert text is not None
    first = find_key(text)
    assert first is not None
    assert "spend" in first.scopes
    assert "spend" not in create_key(project, "agent")[0].scopes


def test_an_existing_first_key_does_not_gain_the_scope_at_the_next_start(project: Project) -> None:
    text = bootstrap_key(project)
    ApiKey.objects.update(scopes=["read", "write", "admin"])  # as earlier versions made it
    assert bootstrap_key(project) == text
    assert ApiKey.objects.get().scopes == ["read", "write", "admin"]


def test_a_scope_is_granted_and_withdrawn_and_both_are_recorded(project: Project) -> None:
    key, _ = create_key(project, "agent")
    assert change_scopes(key, add=["spend"], actor="user:alice").scopes == ["read", "write", "spend"]
    assert change_scopes(key, add=["spend"], actor="user:alice").scopes == ["read", "write", "spend"]
    assert change_scopes(key, remove=["spend"]).scopes == ["read", "write"]
    records = AuditRecord.objects.filter(action="change scopes").order_by("created_at")
    assert [record.detail["scopes"] for record in records] == [["read", "write", "spend"], ["read", "write"]]


def test_a_key_keeps_at_least_one_scope(project: Project) -> None:
    key, _ = create_key(project, "agent", scopes=["read"])
    with pytest.raises(Invalid, match="Revoke it instead"):
        change_scopes(key, remove=["read"])
    with pytest.raises(Invalid, match="There is no scope root"):
        change_scopes(key, add=["root"])

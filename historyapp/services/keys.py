"""API keys and sign-in links. Each is shown once, and only its hash is stored."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.models import SCOPES, ApiKey, Project, SignInLink
from historyapp.models.sql import api_key
from historyapp.running_servers import running_address
from historyapp.services.audit import add_audit_record
from historyapp.services.transactions import writing

SIGN_IN_MINUTES = 15
LOCAL_ADDRESS = "http://127.0.0.1:8000"
_PREFIX_LENGTH = 10
on_credential: ContextVar[Callable[[bytes], None] | None] = ContextVar("on_credential", default=None)
"""Called with the owner when the credential of this thread's request is found: with the project of a key or
share link, or with a person. Set by ``historyapp.front``, which counts unknown credentials by their address.
"""


def hash_secret(secret: str) -> str:
    """SHA-256 in hex, which is stored instead of a key or token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def create_key(
    project: Project,
    name: str,
    *,
    scopes: Sequence[str] = ("read", "write"),
    expires_at: datetime | None = None,
    actor: str = "",
    text: str = "",
) -> tuple[ApiKey, str]:
    """Creates a key. Returns the key and its text, which is not stored.

    Args:
        text: the text of the key; by default a random one.

    Raises:
        Invalid: for a scope that does not exist.
    """
    text = text or f"ph_{secrets.token_urlsafe(32)}"
    _check_scopes(scopes)
    with writing():
        key = ApiKey.objects.create(
            project=project,
            name=name,
            prefix=text[:_PREFIX_LENGTH],
            key_hash=hash_secret(text),
            scopes=[scope for scope in SCOPES if scope in scopes],
            expires_at=expires_at,
        )
        detail = {"key": str(key.pk), "name": name, "scopes": key.scopes}
        add_audit_record(project.pk, actor, "make key", None, detail)
    return key, text


def find_key(text: str) -> ApiKey | None:
    """The key with this text, or None. The key may be expired or revoked."""
    key = api_key(hash_secret(text))
    if key is not None and key.revoked_at is None:
        notify_of_credential(key.project_id.bytes)
    return key


def find_owners(hashes: Collection[str]) -> dict[str, bytes | None]:
    """The ids of the projects of API keys, by the hash of the key. None for a revoked key. Without keys that
    do not exist.
    """
    keys = ApiKey.objects.filter(key_hash__in=hashes)
    rows = keys.values_list("key_hash", "project_id", "revoked_at")
    return {key_hash: None if revoked_at else project.bytes for key_hash, project, revoked_at in rows}


def notify_of_credential(owner: bytes) -> None:
    """Calls ``on_credential``, if it is set."""
    if notify := on_credential.get():
        notify(owner)


def revoke_key(project: Project, name: str, *, actor: str = "") -> ApiKey:
    """Revokes a key; it stops working at once. Arguments and errors as :func:`usable_key`."""
    with writing():
        key = usable_key(project, name, "Revoke")
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        add_audit_record(project.pk, actor, "revoke key", None, {"key": str(key.pk)})
        return key


def change_scopes(
    key: ApiKey, *, add: Collection[str] = (), remove: Collection[str] = (), actor: str = ""
) -> ApiKey:
    """Adds scopes to a key and removes scopes from it. The change applies from the key's next request.

    Raises:
        Invalid: for a scope that does not exist, or when the key would have no scope left.
    """
    _check_scopes([*add, *remove])
    with writing():
        keys = ApiKey.objects.select_for_update(of=("self",), no_key=True)
        key = keys.select_related("project").get(pk=key.pk)
        scopes = [scope for scope in SCOPES if scope in {*key.scopes, *add} - set(remove)]
        if not scopes:
            raise Invalid("The key would have no scope left. Revoke it instead.")
        if scopes != key.scopes:
            key.scopes = scopes
            key.save(update_fields=["scopes"])
            detail = {"key": str(key.pk), "scopes": scopes}
            add_audit_record(key.project_id, actor, "change scopes", None, detail)
        return key


def usable_key(project: Project, name: str, verb: str = "Name") -> ApiKey:
    """The project's key with this name, if it is not revoked. It is locked until the transaction ends.

    Args:
        name: the first ten characters of the key, or its id.
        verb: the verb in the error for several matching keys, such as ``Revoke``.

    Raises:
        NotFound: when the project has no such key, or it was revoked.
        Conflict: when several keys begin with the same characters.
    """
    locked = ApiKey.objects.select_for_update(of=("self",), no_key=True)  # runs refer to it meanwhile
    usable = locked.filter(project=project, revoked_at=None)
    try:
        keys = list(usable.filter(pk=UUID(name)))
    except ValueError:
        keys = []
    keys = keys or list(usable.filter(prefix=name[:_PREFIX_LENGTH]))
    if len(keys) > 1:
        ids = ", ".join(str(key.pk) for key in keys)
        raise Conflict(f"{len(keys)} keys begin with {name}. {verb} one by its id: {ids}.")
    if not keys:
        raise NotFound(
            f"No usable key has {name} as its first {_PREFIX_LENGTH} characters or as its id. "
            "`playhead keys list` shows the keys."
        )
    return keys[0]


def _check_scopes(scopes: Collection[str]) -> None:
    if not scopes:
        raise Invalid(f"No scope is given. Use {', '.join(SCOPES)}.")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise Invalid(f"There is no scope {', '.join(unknown)}. Use {', '.join(SCOPES)}.")


def record_use(key: ApiKey, now: datetime) -> None:
    """Updates ``last_used_at`` at most once a minute. Waits only 0.1 seconds for other writers, because
    requests that read wait for it."""
    if key.last_used_at is None or abs(now - key.last_used_at) > timedelta(minutes=1):
        with writing(max_wait=0.1):
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def bootstrap_key(project: Project) -> str | None:
    """The project's first key: ``PLAYHEAD_API_KEY``, or one derived from ``SECRET_KEY``.

    It can be shown at each start although only its hash is stored. None if it was revoked.
    """
    message = f"first key of {project.pk}".encode()
    derived = hmac.new(settings.SECRET_KEY.encode(), message, "sha256").hexdigest()
    text = settings.PLAYHEAD_API_KEY or f"ph_{derived}"
    key = find_key(text)
    if key is None:
        create_key(project, "first key", scopes=SCOPES, actor="bootstrap", text=text)
    return None if key and key.revoked_at else text


def create_sign_in_link(user: User) -> str:
    """A token that signs the user in once, within 15 minutes."""
    token = secrets.token_urlsafe(32)
    now = timezone.now()
    with writing():
        SignInLink.objects.filter(expires_at__lt=now - timedelta(days=1)).delete()
        end = now + timedelta(minutes=SIGN_IN_MINUTES)
        SignInLink.objects.create(token_hash=hash_secret(token), user=user, expires_at=end)
    return token


def default_address() -> str:
    """The default server address in sign-in links."""
    return settings.PLAYHEAD_BASE_URL or running_address(settings.PLAYHEAD_HOME) or LOCAL_ADDRESS


def check_sign_in_link(token: str) -> None:
    """Checks that a sign-in link can be used, without using it up.

    Raises:
        NotFound: as :func:`use_sign_in_link`.
    """
    _usable_link(SignInLink.objects.filter(token_hash=hash_secret(token)).first())


def use_sign_in_link(token: str) -> User:
    """Uses up a sign-in link. Returns its user.

    Raises:
        NotFound: when the link never existed, has been used or has expired. The error does not say which.
    """
    with writing():
        links = SignInLink.objects.select_for_update()
        link = _usable_link(links.filter(token_hash=hash_secret(token)).first())
        link.used_at = timezone.now()
        link.save(update_fields=["used_at"])
        return link.user


def _usable_link(link: SignInLink | None) -> SignInLink:
    now = timezone.now()
    # A link that expires later than this was created before the clock was set back.
    latest = now + timedelta(minutes=SIGN_IN_MINUTES)
    usable = link is not None and not link.used_at and now <= link.expires_at <= latest
    if link is None or not usable or not link.user.is_active:
        raise NotFound("This sign-in link has been used or has expired.")
    return link

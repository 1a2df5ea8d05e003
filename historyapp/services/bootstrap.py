"""What a fresh installation needs to be of use: an owner, a project, a key and a way to sign in."""

from dataclasses import dataclass

from django.contrib.auth.models import User

from historyapp.models import Membership, Project
from historyapp.services.keys import bootstrap_key, create_sign_in_link
from historyapp.services.transactions import writing


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What ``playhead up`` shows when it is ready."""

    project: Project
    user: User
    api_key: str | None
    """The first key; None once it has been revoked."""
    sign_in_path: str
    """Path of a link that signs the owner in once, within 15 minutes."""


def bootstrap() -> Bootstrap:
    """Makes the owner, the default project and its first key where missing, and a new sign-in link."""
    with writing():
        project, user = default_project(), owner()
        Membership.objects.get_or_create(project=project, user=user, defaults={"is_owner": True})
        key = bootstrap_key(project)
    return Bootstrap(project, user, key, f"/sign-in/{create_sign_in_link(user)}")


def default_project() -> Project:
    """The oldest project; made when there is none."""
    return Project.objects.order_by("created_at", "id").first() or Project.objects.create(name="Default")


def owner() -> User:
    """The person who runs this installation; made without a password when there is nobody."""
    user = User.objects.filter(is_superuser=True).order_by("id").first()
    return user or User.objects.create_superuser("owner")

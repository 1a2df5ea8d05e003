"""Saves, renames and deletes searches of all sessions."""

from uuid import UUID

from django.utils import timezone

from historyapp.core.errors import Conflict, Invalid, NotFound
from historyapp.core.search_query import parse_query
from historyapp.core.text import clean
from historyapp.models import Project, SavedSearch
from historyapp.models.saved_searches import MAX_NAME, MAX_SAVED
from historyapp.services.transactions import writing


def save_search(project: Project, name: str, query: str, *, actor: str = "") -> SavedSearch:
    """Saves a query under a new name.

    Raises:
        Invalid: when the name or the query is empty or too long, or the query cannot be parsed.
        Conflict: when the name is taken, or the project has too many saved searches.
    """
    name, query = _checked_name(name), clean(query).strip()
    if not query:
        raise Invalid("The query is empty. Run a search, then save it.")
    parse_query(query, timezone.now())
    with writing():
        project.locked()
        saved = SavedSearch.objects.filter(project=project)
        if saved.count() >= MAX_SAVED:
            raise Conflict(f"A project has at most {MAX_SAVED} saved searches. Delete one first.")
        _check_free(project, name)
        return SavedSearch.objects.create(project=project, name=name, query=query, actor=actor)


def rename_search(project: Project, search_id: UUID, name: str) -> SavedSearch:
    """Renames a saved search.

    Raises:
        NotFound: when the project has no such search.
        Invalid: when the name is empty or too long.
        Conflict: when another saved search has the name.
    """
    name = _checked_name(name)
    with writing():
        project.locked()
        saved = SavedSearch.objects.filter(project=project, pk=search_id).first()
        if saved is None:
            raise _not_found(search_id)
        if saved.name != name:
            _check_free(project, name)
            saved.name = name
            saved.save(update_fields=["name"])
        return saved


def delete_search(project: Project, search_id: UUID) -> None:
    """Deletes a saved search.

    Raises:
        NotFound: when the project has no such search.
    """
    with writing():
        count, _ = SavedSearch.objects.filter(project=project, pk=search_id).delete()
    if not count:
        raise _not_found(search_id)


def _checked_name(name: str) -> str:
    name = " ".join(clean(name).split())
    if not name:
        raise Invalid("A saved search needs a name.")
    if len(name) > MAX_NAME:
        raise Invalid(f"The name has {len(name):,} characters. Use at most {MAX_NAME}.")
    return name


def _check_free(project: Project, name: str) -> None:
    if SavedSearch.objects.filter(project=project, name=name).exists():
        raise Conflict(f"A saved search named {name} already exists. Choose another name, or delete it.")


def _not_found(search_id: UUID) -> NotFound:
    return NotFound(f"There is no saved search {search_id} in this project.")

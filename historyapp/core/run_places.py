"""Finds the folder and the repository of a run in the metadata that its importer or agent set."""

import re
from collections.abc import Mapping
from typing import Any

from historyapp.core.text import clean

MAX_PLACE = 300
"""Characters. Of a longer folder, the end is kept, which differs most."""
_MAX_READ = 2_000
"""Characters of a value to search for a place."""
_FOLDERS = ("cwd", "folder", "workdir", "working_directory")
_REPOSITORIES = ("repository", "repo", "repository_url")
_SCHEME = re.compile(r"[a-z]{1,10}(?:\+[a-z]{1,10})?://", re.IGNORECASE)
_SSH = re.compile(r"[^/:@\s]{1,100}@([^/:@\s]{1,200}):(?!/)(.*)", re.DOTALL)
_BENCHMARK = re.compile(r"([A-Za-z0-9.-]{1,100}(?:_[A-Za-z0-9.-]{1,100})?)__([\w.-]{1,100})-[0-9]{1,10}")
"""How SWE-bench names its tasks: ``django__django-11099``."""


def places_in(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata about where a run worked, which its forks inherit, at most 2,000 characters of each."""
    names = (*_FOLDERS, *_REPOSITORIES, "instance_id")
    places = {name: metadata[name] for name in names if isinstance(metadata.get(name), str)}
    return {name: place[:_MAX_READ] for name, place in places.items()}


def folder_of(metadata: Mapping[str, Any]) -> str:
    """Where the agent worked; empty if that is not known."""
    folder = _first(metadata, _FOLDERS)
    return (folder.rstrip("/\\") or folder)[-MAX_PLACE:]


def repository_of(metadata: Mapping[str, Any]) -> str:
    """The repository that the agent worked on, as in ``github.com/owner/name``; empty if it is not known.

    User names and passwords in an address are left out.
    """
    if address := _first(metadata, _REPOSITORIES):
        if scheme := _SCHEME.match(address):
            host, slash, path = address[scheme.end() :].partition("/")
            address = host.rpartition("@")[2] + slash + path.partition("?")[0].partition("#")[0]
        elif ssh := _SSH.fullmatch(address):
            address = f"{ssh[1]}/{ssh[2]}"
        return address.rstrip("/").removesuffix(".git")[:MAX_PLACE]
    task = _BENCHMARK.fullmatch(_first(metadata, ("instance_id",)))
    return f"{task[1]}/{task[2]}" if task else ""


def _first(metadata: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = metadata.get(name)
        if isinstance(value, str) and (text := " ".join(clean(value[:_MAX_READ]).split())):
            return text
    return ""

"""Runs pip, which then looks only at the files that a lock lists: ``pip_of_lock.py LOCK install ...``.

An index names the files of all versions of a package. To parse their addresses took a third of pip's time.
"""

import re
import sys
from pathlib import Path
from typing import Any

from pip._internal.cli.main import main
from pip._internal.models.link import Link

lock, *arguments = sys.argv[1:]
hashes = set(re.findall(r"sha256:(\w+)", Path(lock).read_text()))
from_json = Link.from_json


def from_json_if_listed(file: dict[str, Any], page_url: str) -> Link | None:
    digest = file.get("hashes", {}).get("sha256")
    return from_json(file, page_url) if digest is None or digest in hashes else None


Link.from_json = from_json_if_listed
sys.exit(main(arguments))

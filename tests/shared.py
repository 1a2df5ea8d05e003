"""Test data in a folder beside the project, which is not copied into it."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("PLAYHEAD_SHARED", Path(__file__).parents[2] / "shared"))


def needs(path: str) -> pytest.MarkDecorator:
    """Skips a test if the shared data is absent."""
    there = (SHARED / path).exists()
    return pytest.mark.skipif(not there, reason=f"the shared data ({path}) is not beside the project")

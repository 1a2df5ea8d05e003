"""Data that is read from beside the project, never copied into it."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("PLAYHEAD_SHARED", Path(__file__).parents[2] / "shared"))


def needs(path: str) -> pytest.MarkDecorator:
    """Skips a test where the shared data is absent."""
    there = (SHARED / path).exists()
    return pytest.mark.skipif(not there, reason=f"the shared data ({path}) does not lie beside the project")

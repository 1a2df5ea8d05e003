"""The client is for agents on other machines: it needs httpx and nothing of the server."""

import json
import subprocess
import sys

_LOADED = "import historyapp.client, json, sys; print(json.dumps(sorted(sys.modules)))"
_OF_THE_SERVER = {"anthropic", "asgiref", "celery", "django", "granian", "ninja", "openai", "psycopg"}


def test_the_client_loads_without_django_and_the_rest_of_the_server() -> None:
    printed = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, check=True, text=True)
    loaded = json.loads(printed.stdout)
    own = {name for name in loaded if name.startswith(("historyapp.", "dashboard"))}
    assert "historyapp.client.recorder" in own
    assert {
        name
        for name in own
        if not name.startswith(("historyapp.client", "historyapp.core", "historyapp.wire"))
    } == set()
    assert {name.partition(".")[0] for name in loaded} & _OF_THE_SERVER == set()

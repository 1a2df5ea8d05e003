"""Time and bytes of reads and appends in a session of 100,000 steps, compared with one of 100."""

import gzip
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.machinery import KEY, ROOT, Client, action, alternate, home, playhead, report, result

SHORT, LONG = 100, 100_000
FILL = """
import sys
from bench.fill import fill
fill({lengths})
"""


def main(rounds: int = 200) -> None:
    with home() as folder, playhead(folder) as port:
        short, long = filled(folder)
        agent, person = Client(port), _signed_in(port, folder)
        rows = []
        for name, send in _requests(agent, person).items():
            short_ms, long_ms = alternate(
                partial(send, short, SHORT), partial(send, long, LONG), rounds=rounds
            )
            bound = "1.2" if name == "append" else "1.3"
            rows.append(
                (f"{name}: {short_ms:.2f} ms → {long_ms:.2f} ms", f"**{long_ms / short_ms:.2f}**", bound)
            )
        rows += _sizes(person, long)
    report(f"{SHORT} steps → {LONG:,} steps", rows)


def filled(folder: Path) -> tuple[str, str]:
    """The ids of a short and a long session, written by the services into the server's database."""
    code = FILL.format(lengths=(SHORT, LONG))
    environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_SYNCHRONOUS": "OFF"}
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    short, long = json.loads(done.stdout.splitlines()[-1])
    return short, long


def _signed_in(port: int, folder: Path) -> Client:
    """A browser with a session cookie."""
    code = "from historyapp.services.bootstrap import bootstrap; print(bootstrap().sign_in_path)"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    environment = {**os.environ, "PLAYHEAD_HOME": str(folder), "PLAYHEAD_API_KEY": KEY}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    client = Client(port, {"Host": f"127.0.0.1:{port}"})
    _follow(client, done.stdout.split()[-1])
    return client


def _follow(client: Client, path: str) -> None:
    """Signs in like a person: opens the link and presses the button."""
    cookies: dict[str, str] = {}

    def ask(method: str, body: str | None = None) -> str:
        headers = {**client.headers, "Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        client.connection.request(method, path, body, headers)
        response = client.connection.getresponse()
        page = response.read().decode()
        for value in response.headers.get_all("Set-Cookie") or []:
            name, _, rest = value.partition("=")
            cookies[name] = rest.split(";")[0]
        return page

    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', ask("GET"))
    if token:
        ask("POST", f"csrfmiddlewaretoken={token[1]}")
    client.headers = {
        **client.headers,
        "Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items()),
        "Accept-Encoding": "gzip",
    }


def _requests(agent: Client, person: Client) -> dict[str, Any]:
    base = "/api/v1/sessions"
    number = iter(range(1 << 30))

    def append(session: str, steps: int) -> None:
        n = next(number)
        agent.send("POST", f"{base}/{session}/actions", action(n))
        agent.send("POST", f"{base}/{session}/results", result(n))

    def messages(session: str, steps: int) -> None:
        agent.send("GET", f"{base}/{session}/messages")

    def episode(session: str, steps: int) -> None:
        agent.send("GET", f"{base}/{session}/episodes/{steps // 2}")

    def page(session: str, steps: int) -> None:
        person.send("GET", f"/sessions/{session}?step={steps // 2}")

    def move(session: str, steps: int) -> None:
        _move(person, session, steps // 2)

    return {
        "append": append,
        "GET …/messages": messages,
        "GET …/episodes/{n}": episode,
        "session page": page,
        "playhead move": move,
    }


def _move(person: Client, session: str, step: int) -> bytes:
    return person.send("GET", f"/sessions/{session}?step={step}", **{"HX-Request": "true"})


def _sizes(person: Client, session: str) -> list[tuple[str, str, str]]:
    page = person.send("GET", f"/sessions/{session}?step={LONG // 2}")
    move = _move(person, session, LONG // 2)
    assert gzip.decompress(page).startswith(b"<!"), "the page did not come gzipped"
    return [
        ("session page of 100,000 steps, gzip", f"**{len(page) / 1024:.0f} KB**", "150 KB"),
        ("one playhead move, gzip", f"**{len(move) / 1024:.1f} KB**", "30 KB"),
    ]


if __name__ == "__main__":
    main()

"""What one POST costs: with one step, and with 100 steps, compared with bare endpoints for the same JSON.

The bare bulk endpoint inserts as many rows as Playhead: the entries, a row for each step, and the session.
"""

from typing import Any

from bench.machinery import Client, action, alternate, home, playhead, report, result, server

STEPS = 100
ROWS = 2 * STEPS + STEPS + 1


def entries(first: int, steps: int) -> dict[str, Any]:
    """A body of POST …/entries with an output and its results for each step."""
    found: list[dict[str, Any]] = []
    for number in range(first, first + steps):
        found.append({"kind": "model_output", **action(number)})
        found.append({"kind": "tool_results", "results": [result(number)]})
    return {"entries": found}


def main(rounds: int = 300) -> None:
    with (
        home() as ours,
        home() as theirs,
        playhead(ours) as port,
        server("bench.bare:application", {"BARE_HOME": str(theirs)}, "/setup") as bare_port,
    ):
        client, bare = Client(port), Client(bare_port)
        settings = {"settings": {"compress_automatically": False}}
        path = f"/api/v1/sessions/{client.json('POST', '/api/v1/sessions', settings)['id']}/entries"
        number = iter(range(1 << 30))

        def pair(steps: int, floor: str, rounds: int) -> list[float]:
            """Times of a POST with this many steps, and of the bare endpoint at this path, in ms."""
            jobs = (
                lambda: client.send("POST", path, entries(next(number) * steps, steps)),
                lambda: bare.send("POST", floor, entries(next(number) * steps, steps)),
            )
            alternate(*jobs, rounds=20)
            return alternate(*jobs, rounds=rounds)

        one, single = pair(1, "/insert/1", rounds * 3)
        many, bulk = pair(STEPS, f"/bulk/{ROWS}", rounds)
    report(
        "Appending by the POST",
        [
            ("action and result of a step in one POST", f"{one:.2f} ms", ""),
            ("bare endpoint, 1 insert of the same JSON", f"{single:.2f} ms", ""),
            ("**ratio**", f"**{one / single:.2f}**", "2"),
            (f"{STEPS} steps in one POST", f"{many:.1f} ms, {ROWS / many * 1000:,.0f} rows a second", ""),
            (f"bare endpoint, {ROWS} inserts", f"{bulk:.1f} ms, {ROWS / bulk * 1000:,.0f} rows a second", ""),
            ("**share of its rows a second**", f"**{bulk / many:.2f}**", "0.5"),
        ],
    )


if __name__ == "__main__":
    main()

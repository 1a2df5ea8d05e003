"""The time of a durable action and its result over HTTP, compared with an endpoint of bare inserts."""

from bench.machinery import Client, action, alternate, home, playhead, report, result, server

WRITES = 3
"""Rows that one append writes: the entry, its step, its session."""


def main(rounds: int = 600) -> None:
    with (
        home() as playhead_home,
        home() as bare_home,
        playhead(playhead_home) as port,
        server("bench.bare:application", {"BARE_HOME": str(bare_home)}, "/setup") as bare_port,
    ):
        client, bare = Client(port), Client(bare_port)
        session = client.json("POST", "/api/v1/sessions", {})["id"]
        number = iter(range(1 << 30))

        def record() -> None:
            n = next(number)
            client.send("POST", f"/api/v1/sessions/{session}/actions", action(n))
            client.send("POST", f"/api/v1/sessions/{session}/results", result(n))

        def insert(rows: int) -> None:
            n = next(number)
            bare.send("POST", f"/insert/{rows}", action(n))
            bare.send("POST", f"/insert/{rows}", result(n))

        jobs = (record, lambda: insert(WRITES), lambda: insert(1))
        alternate(*jobs, rounds=50)
        appending, same, single = alternate(*jobs, rounds=rounds)
    report(
        "Appending: one durable action + result over HTTP",
        [
            ("action + result", f"{appending:.2f} ms", ""),
            (f"bare endpoint, {WRITES} inserts a request", f"{same:.2f} ms", ""),
            ("**ratio**", f"**{appending / same:.2f}**", "3"),
            ("bare endpoint, 1 insert a request", f"{single:.2f} ms (ratio {appending / single:.2f})", ""),
        ],
    )


if __name__ == "__main__":
    main()

"""The processes for large requests of a running server."""

import subprocess


def large_processes(server: int) -> list[int]:
    """Their ids. ``server``: the id of the process of ``playhead up``, whose child is the web process."""
    command = ["ps", "-ww", "-eo", "pid,ppid,args"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()[1:]]
    children = {row[0] for row in rows if row[1] == str(server)}
    return [int(row[0]) for row in rows if row[1] in children and "request_process" in row[2]]

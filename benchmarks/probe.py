"""Asks a server for its status again and again: ``python probe.py PORT TOKEN SECONDS TIMEOUT``.

Prints the seconds of each answer as JSON. In a process of its own, so that reading streams
elsewhere does not make it wait.
"""

from __future__ import annotations

import http.client
import json
import sys
import time

PATH = "/api/status"
PAUSE_S = 0.01


def latencies(port: int, token: str, seconds: float, timeout_s: float) -> list[float]:
    """In seconds, over one connection; a request that takes `timeout_s` is counted as that, and
    ends it."""
    headers = {"Authorization": f"token {token}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    taken: list[float] = []
    end = time.monotonic() + seconds
    while not taken or time.monotonic() < end:
        began = time.perf_counter()
        try:
            connection.request("GET", PATH, headers=headers)
            response = connection.getresponse()
            response.read()
        except TimeoutError:
            return [*taken, timeout_s]
        if response.status != http.client.OK:
            raise RuntimeError(f"{PATH} answered {response.status}")
        taken.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    return taken


if __name__ == "__main__":
    port, token, seconds, timeout_s = sys.argv[1:]
    print(json.dumps(latencies(int(port), token, float(seconds), float(timeout_s))))

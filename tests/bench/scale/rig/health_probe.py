"""`python health_probe.py HOST PORT PATH`: how long a GET takes, again and again, until SIGTERM.

A process of its own, which imports next to nothing: what else the bench does must not be in its
times. Each line of its output is when the request was sent, in seconds since the epoch, and how
many milliseconds it took; -1 for one that failed.
"""

from __future__ import annotations

import http.client
import sys
import time

INTERVAL = 0.05
TIMEOUT = 30.0


def main() -> None:
    host, port, path = sys.argv[1:]
    connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)
    while True:
        at, began = time.time(), time.perf_counter()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            took = 1000 * (time.perf_counter() - began) if response.status == 200 else -1.0
        except (OSError, http.client.HTTPException):
            connection.close()
            took = -1.0
        print(f"{at:.3f} {took:.2f}", flush=True)
        time.sleep(INTERVAL)


if __name__ == "__main__":
    main()

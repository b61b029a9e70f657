"""`python flood.py FILE`: one account that asks for everything at once, as fast as it may.

FILE is JSON: where, with which tokens, and for how many seconds. Each kind of call is repeated as
soon as it is answered, and after a 429 once it may be tried again. The last line of the output has
the number of answers by kind and status.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.scale.rig.agents import heartbeat
from tests.bench.scale.rig.http_client import Connection, NoResponseError

Body = Callable[[int], Any]

LARGE_BYTES = 3 * 2**20 - 8192
"""Of noise: as JSON nearly as much as a document may have."""

PLAIN_BYTES = 64 * 2**20
"""Of zeros: 87 KB once packed."""

ARRAY = 400

TIMEOUT = 60.0

ANSWERS = Counter[str]()


def packed(plain: bytes) -> str:
    return base64.b64encode(zlib.compress(plain, 9)).decode()


BOMB = packed(bytes(PLAIN_BYTES))
LARGE = packed(os.urandom(LARGE_BYTES))
DEEP = {"x": json.loads(f"[{'[],' * 40}[]]")}
"""Parameters of which Python makes as many objects as a submission of a thousand may have."""


def submission(document: str, number: int, runs: int) -> dict[str, Any]:
    return {
        "path": "train.py",
        "document": document,
        "profile": "cpu",
        "request_id": f"flood-{number}-{random.randrange(2**40)}",
        "parameters": [{**DEEP, "place": place} for place in range(runs)],
    }


async def repeat(where: tuple[str, int], until: float, kind: str, call: dict[str, Any]) -> None:
    """One kind of call, on a connection of its own."""
    connection, number = Connection(*where), 0
    headers = {"Authorization": f"Bearer {call['token']}", "Content-Type": "application/json"}
    body: Body | None = call.get("body")
    while time.monotonic() < until:
        number += 1
        content = json.dumps(body(number)).encode() if body else b""
        path = call["path"].format(number=number % 5)
        try:
            response = await connection.request(
                call["method"], path, headers=headers, body=content, timeout=TIMEOUT
            )
        except NoResponseError:
            ANSWERS[f"{kind} none"] += 1
            await asyncio.sleep(0.5)
            continue
        ANSWERS[f"{kind} {response.status}"] += 1
        wait = float(response.headers.get("retry-after", 0 if response.status < 400 else 0.2))
        await asyncio.sleep(min(wait, max(until - time.monotonic(), 0.0)))
    connection.close()


def calls(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each kind of call: by the account's own token, and by that of its server's lease."""
    own = {"token": options["token"]}
    lease = {"token": options["lease_token"], "method": "POST"}
    api, of_lease = "/hub/api/ec2", f"/hub/api/ec2/leases/{options['lease']}"
    user = options["user"]
    reads = {"runs": "runs", "profiles": "profiles", "usage": "usage", "costs": "usage/costs"}
    found = {
        name: {"method": "GET", "path": f"{api}/{path}", **own} for name, path in reads.items()
    }
    found["submit"] = {"method": "POST", "path": f"{api}/runs", **own}
    servers = f"/hub/api/users/{user}/servers/server-{{number}}"
    found["start"] = {"method": "POST", "path": servers, "body": lambda _: {}, **own}
    found["stop"] = {"method": "DELETE", "path": servers, **own}
    found["heartbeat"] = {"path": f"{of_lease}/beat", "body": report, **lease}
    of_runs: dict[str, Body] = {
        "list": lambda _: {"action": "list"},
        "cancel": lambda number: {"action": "cancel", "number": 1 + number, "array": True},
        "undelivered": lambda _: {"action": "undelivered"},
    }
    for name, body in of_runs.items():
        found[f"lease {name}"] = {"path": f"{of_lease}/runs", "body": body, **lease}
    found["lease submit"] = {"path": f"{of_lease}/runs", "body": submit_by_lease, **lease}
    found["lease hardware"] = {"path": f"{of_lease}/hardware", "body": lambda _: {}, **lease}
    found["submit"]["body"] = submit
    return found


def report(_: int) -> dict[str, Any]:
    return heartbeat(0) | {"hold_seconds": 0.0}


def submit(number: int) -> dict[str, Any]:
    """Arrays with what unpacks to 64 MiB, which fill a list, and documents that are large so."""
    return submission(BOMB, number, ARRAY) if number % 2 else submission(LARGE, number, 1)


def submit_by_lease(number: int) -> dict[str, Any]:
    return {"action": "submit", "submission": submit(number + 1)}


async def main() -> None:
    options = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    where, until = ("127.0.0.1", options["port"]), time.monotonic() + options["seconds"]
    kinds = calls(options)
    await asyncio.gather(
        *(
            repeat(where, until, kind, call)
            for kind, call in kinds.items()
            for _ in range(options["connections"])
        )
    )
    print(json.dumps(dict(sorted(ANSWERS.items()))))


if __name__ == "__main__":
    asyncio.run(main())

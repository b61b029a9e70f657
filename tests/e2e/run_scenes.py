"""Runs as the API of the hub describes them: of their own, arrays, with names that are markup."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MARKUP = "<img src=x onerror=document.title='owned'>"
FORMULA = '=HYPERLINK("http://a.example","x")'

ENDS = {
    "succeeded": "All 12 cells have run",
    "failed": "Cell 7 raised OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU "
    "0 has a total capacity of 14.75 GiB of which 1.06 GiB is free.",
    "cancelled": "You cancelled it",
    "cost-cap": "It would have cost more than its cap of 5.00 USD",
    "deadline": "It was not done by its deadline",
    "limit": "The limit of group research is reached: $200 per month",
}


def run(number: int, state: str = "running", **changes: Any) -> dict[str, Any]:
    """`state` is `queued`, `starting`, `running` or an outcome."""
    outcome = state if state in ENDS else None
    began = state not in {"queued", "starting"}
    submitted = NOW - timedelta(minutes=190 + number % 7)
    started = submitted + timedelta(minutes=6)
    cells = {"queued": 0, "starting": 0, "running": 5, "failed": 7, "succeeded": 12}.get(state, 3)
    messages = {
        "queued": "Waits for its turn: 20 runs of this hub have an instance",
        "starting": "Booting g5.xlarge in us-east-1b",
        "running": "Cell 6 is running",
    }
    return {
        "number": number,
        "array": 0,
        "server": "",
        "path": "projects/vision/train.ipynb",
        "parameters": {"epochs": 20, "learning_rate": 0.001},
        "profile": "a10g",
        "profile_name": "A10G, 24 GB",
        "payer": "",
        "state": "ended" if outcome else state,
        "outcome": outcome,
        "message": messages.get(state) or ENDS[state],
        "submitted_at": submitted.isoformat(),
        "started_at": started.isoformat() if began else None,
        "ended_at": (NOW - timedelta(minutes=20)).isoformat() if outcome else None,
        "deadline": None,
        "cells_done": cells,
        "cells_total": 12 if began else 0,
        "attempts": 0 if state == "queued" else 1,
        "retries": 5,
        "instance_type": "" if state == "queued" else "g5.xlarge",
        "zone": "" if state == "queued" else f"us-east-1{'abc'[number % 3]}",
        "market": None if state == "queued" else "spot",
        "usd": 0.0 if state == "queued" else round(0.4 + number % 9 / 7, 4),
        "usd_per_hour": None if outcome or state == "queued" else 0.4123,
        "max_usd": 5.0,
        "has_result": began,
        "delivered": outcome == "succeeded",
    } | changes


def array(first: int, count: int, **changes: Any) -> list[dict[str, Any]]:
    """Of some that have ended, one in 25 of them badly; some that run; and some that wait."""
    done, running = count * 6 // 10, count // 10
    found = []
    for place in range(count):
        if place < done:
            state = "failed" if place % 25 == 3 else "succeeded"
        elif place < done + running:
            state = "starting" if place % 9 == 0 else "running"
        else:
            state = "queued"
        kind = "g6.xlarge" if place % 5 == 2 else "g5.xlarge"
        parameters = {
            "learning_rate": round(10 ** -(1 + place % 7 / 2), 5),
            "optimizer": ("adamw", "sgd", FORMULA)[place % 3],
            "seed": place // 21,
            "epochs": 20,
        }
        known = run(first + place, state, array=first, path="sweeps/resnet-sweep.ipynb")
        known |= {"parameters": parameters, "payer": "group:research"}
        if known["instance_type"]:
            known |= {"instance_type": kind}
        found.append(known | changes)
    return found


def several() -> list[dict[str, Any]]:
    """One of each state, two arrays, and one whose texts are markup."""
    states = ["queued", "starting", "running", *ENDS]
    singles = [run(400 + place, state) for place, state in enumerate(states)]
    singles[2] |= {"attempts": 3, "deadline": (NOW + timedelta(hours=9)).isoformat()}
    script = run(
        410,
        path="tools/" + "export-all-embeddings-" * 5 + "v2.py",
        parameters={},
        cells_done=0,
        cells_total=0,
        message="epoch 12: loss 0.214",
        market="on-demand",
        usd=None,
        usd_per_hour=None,
    )
    hostile = run(
        411,
        "failed",
        path=f"{MARKUP}.ipynb".replace("/", ""),
        parameters={MARKUP: MARKUP, "deep": {"a": [1, 2, {"b": None}]}},
        message=MARKUP,
        profile_name=MARKUP,
        payer="group:" + MARKUP,
        delivered=False,
    )
    done = [each | {"state": "ended", "outcome": "succeeded"} for each in array(300, 6)]
    return answer_order([*singles, script, hostile, *array(100, 200), *done])


def answer_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest first, as the API answers."""
    return sorted(found, key=lambda each: -each["number"])


def runs(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer of `GET runs`."""
    return {"now": NOW.isoformat(), "runs": found}

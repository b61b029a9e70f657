"""A thousand servers as the API of the hub describes them, with names that are markup."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from math import prod
from typing import Any

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MARKUP = "<img src=x onerror=document.title='owned'>"


def server(number: int, **changes: Any) -> dict[str, Any]:
    """One of a thousand: most at work, some idle, starting or stopping."""
    is_idle = number % 6 == 1
    state = {2: "starting", 3: "ending"}.get(number % 40, "ready")
    since = NOW - timedelta(minutes=7 * number % 3000 + 1)
    kind, profile, usd = (
        ("g4dn.xlarge", "T4, 16 GB", 0.158)
        if number % 3
        else ("p4d.24xlarge", "8 × A100, 320 GB", 21.96)
    )
    known: dict[str, Any] = {
        "user": f"user{number:04}",
        "server": "sweep" if number % 10 == 4 else "",
        "head": "",
        "worker": None,
        "run": None,
        "state": state,
        "profile": profile,
        "instance_id": f"i-{number:017x}",
        "instance_type": kind,
        "zone": f"us-east-1{'abc'[number % 3]}",
        "market": "spot" if number % 4 else "on-demand",
        "payer": "group:research" if number % 5 == 0 else f"user:user{number:04}",
        "since": since.isoformat(),
        "ready_at": since.isoformat() if state == "ready" else None,
        "idle_since": (NOW - timedelta(minutes=38)).isoformat() if is_idle else None,
        "doing": "" if is_idle else "train.ipynb is running",
        "stop_at": (NOW + timedelta(minutes=22)).isoformat() if is_idle else None,
        "extended_until": None,
        "extended_by": "",
        "can_sleep": number % 2 == 0 and state == "ready",
        "interruption_at": None,
        "gpu_percent": 0.0 if is_idle else 92.0,
        "usd": round(usd * (number + 1) / 9, 4),
        "usd_per_hour": usd,
        "unknown_prices_of": [],
    }
    known |= changes
    same = {"known_usd": known["usd"], "known_usd_per_hour": known["usd_per_hour"]}
    return same | known


def limit(scope: str, kind: str, words: str, limit: float, used: float) -> dict[str, Any]:
    """One of the limits in both answers."""
    return {
        "scope": scope,
        "kind": kind,
        "words": words,
        "limit": limit,
        "used": used,
        "at_least": False,
        "left": max(limit - used, 0),
        "percent": int(100 * used / limit),
        "renews": "2026-12-01",
        "reached_at": (NOW + timedelta(hours=4, minutes=40)).isoformat(),
    }


def instances(count: int = 1000) -> dict[str, Any]:
    """The answer of `GET instances`."""
    servers = [server(number) for number in range(count)]
    if servers:
        servers[0] |= {"user": MARKUP, "doing": MARKUP, "profile": MARKUP}
        servers[0] |= {"usd": 99999.0, "known_usd": 99999.0}
    return {
        "now": NOW.isoformat(),
        "usd_per_hour": sum(each["usd_per_hour"] for each in servers),
        "unknown_prices": 1,
        "servers": servers,
        "all_usd_per_hour": sum(each["usd_per_hour"] for each in servers),
        "all_known_usd_per_hour": sum(each["usd_per_hour"] for each in servers),
        "all_unpriced": 0,
        "limits": [limit("hub", "usd_per_month", "$10,000 per month", 10_000.0, MONTH_USD)],
        "nearly_used_limits": [
            limit(
                "group:lab", "usd_per_month", f"$50 per month of group {MARKUP}", 50.0, MONTH_USD
            ),
            limit("user:ann", "credit_usd", "$80 of credit of ann", 80.0, MONTH_USD),
        ]
        if servers
        else [],
        "more_nearly_used_limits": 3 if servers else 0,
        "limits_at": (NOW - timedelta(seconds=12)).isoformat(),
        "kept": [
            {
                "user": "kim",
                "server": "",
                "profile": "T4, 16 GB",
                "instance_id": "i-0123456789abcdef0",
                "instance_type": "g4dn.xlarge",
                "zone": "us-east-1a",
                "then": "linger",
                "since": (NOW - timedelta(minutes=10)).isoformat(),
                "until": (NOW + timedelta(minutes=20)).isoformat(),
                "usd_per_hour": 0.158,
                "known_usd_per_hour": 0.158,
                "unknown_prices_of": [],
                "disk_gib": 100,
                "is_ahead": False,
            }
        ],
        "unassigned": [
            {
                "instance_id": "i-0fedcba9876543210",
                "instance_type": "g5.xlarge",
                "zone": "us-east-1c",
                "market": "on-demand",
                "since": (NOW - timedelta(minutes=1)).isoformat(),
                "status": "starting",
                "usd_per_hour": None,
                "known_usd_per_hour": None,
                "unknown_prices_of": ["instance"],
            }
        ],
        "sold_out": [
            {
                "reason": "offer",
                "code": "InsufficientInstanceCapacity",
                "market": "spot",
                "instance_type": "g6e.xlarge",
                "zone": "us-east-1b",
                "quota_class": "",
                "subnet": "",
                "since": NOW.isoformat(),
                "until": (NOW + timedelta(minutes=3)).isoformat(),
            }
        ],
        "failed_starts": [
            {
                "user": "stu",
                "server": "",
                "profile": "L40S, 48 GB",
                "at": (NOW - timedelta(minutes=9)).isoformat(),
                "reason": "capacity",
                "message": f"L40S is sold out {MARKUP}",
            },
            {
                "user": "eva",
                "server": "",
                "profile": "8 × A100, 320 GB",
                "at": (NOW - timedelta(minutes=30)).isoformat(),
                "reason": "limit",
                "message": "$3.12 is left of the limit of eva until 1 December",
            },
        ],
    }


def usage() -> dict[str, Any]:
    """The answer of `GET usage`."""
    ended = {
        "server": "sweep",
        "profile": "T4, 16 GB",
        "instance_types": ["g4dn.xlarge"],
        "markets": ["spot", "on-demand"],
        "payer": "group:research",
        "since": (NOW - timedelta(days=3, hours=5)).isoformat(),
        "ended_at": (NOW - timedelta(days=3)).isoformat(),
        "reason": "idle",
        "message": "It had been idle for 1 hour",
        "usd": 0.74,
        "known_usd": 0.74,
        "idle_seconds": 1620.0,
    }
    unknown = ended | {
        "server": "",
        "profile": MARKUP,
        "since": (NOW - timedelta(days=9)).isoformat(),
        "ended_at": (NOW - timedelta(days=8)).isoformat(),
        "reason": "user",
        "message": "",
        "usd": None,
        "known_usd": None,
    }
    return {
        "now": NOW.isoformat(),
        "user": "admin",
        "servers": [server(5, user="admin", usd=0.51)],
        "sessions": [ended, unknown],
        "more_before": None,
        "limits": [
            limit("user:admin", "usd_per_month", "$200 per month of admin", 200.0, MONTH_USD),
            limit("group:research", "gpu_hours_per_month", "40 GPU-hours per month", 40.0, 41.5),
        ],
    }


MONTH_USD = 60.0
SHARES = {"used": 0.78, "idle": 0.15, "overhead": 0.07}


VALUES = {
    "day": [f"2026-11-{day:02}" for day in range(1, 21)],
    "user": [MARKUP, "ann", "bob", ""],
    "profile": ["t4", "a10g", MARKUP],
    "server": ["", *(f"sweep-{number}" for number in range(8))],
    "payer": ["user:admin", "group:research"],
    "purpose": ["used", "idle", "overhead"],
}


def _share(name: str, value: str) -> float:
    if name == "purpose":
        return SHARES[value]
    values = VALUES.get(name, ["one"])
    weights = [1 + place % 5 for place in range(len(values))]
    return weights[values.index(value)] / sum(weights)


def costs(by: tuple[str, ...], first: str = "2026-11-01") -> dict[str, Any]:
    """The answer of `GET costs` and `GET usage/costs`."""
    sums = []
    for key in product(*(VALUES.get(name, ["one"]) for name in by)):
        usd = round(MONTH_USD * prod(map(_share, by, key)), 4)
        is_measured = "bob" not in key
        sums.append(
            {
                "key": list(key),
                "usd": usd,
                "unknown": int(MARKUP in key),
                "saved_usd": usd * 2,
                "hours": usd * 3,
                "gpu_hours": usd * 2,
                "gpu_measured_hours": usd * is_measured,
                "gpu_busy_hours": usd * 0.61 * is_measured,
            }
        )
    return {
        "first_day": first,
        "last_day": "2026-11-20",
        "today": "2026-11-20",
        "month_ends": "2026-11-30T23:00:00Z",
        "time_zone": "Europe/Berlin",
        "by": list(by),
        "sums": sums,
    }


IDLE_SAVINGS: dict[str, Any] = {
    "first_day": "2026-11-01",
    "last_day": "2026-11-20",
    "sessions": 412,
    "unknown": 0,
    "idle_usd": 9.0,
    "idle_stops": 120,
    "stops_saved_usd": 27.25,
    "hub_limit_seconds": 3600,
    "replays": [
        {"limit_seconds": 3600, "idle_usd": 9.0, "saved_usd": 0.0, "stops": 0},
        {"limit_seconds": 1800, "idle_usd": 5.3, "saved_usd": 3.7, "stops": 130},
    ],
}


def pool() -> dict[str, Any]:
    """The answer of `GET pool`: one group waits, one was set by hand and is sold out."""
    waiting = {
        "profile": "t4",
        "profile_name": "T4, 16 GB",
        "market": "spot",
        "target": 2,
        "stopped_target": 3,
        "homes_ahead": 1,
        "stopped": 2,
        "why": ["The configuration asks for 2.", "The configuration asks for 3 stopped."],
        "waiting": 1,
        "booting": 1,
        "missing": 0,
        "usd_per_hour": 0.42,
        "by_hand": None,
        "failure": None,
        "problem": "",
        "instances": [],
        "stopped_instances": [],
    }
    sold_out = waiting | {
        "profile": "a10g",
        "profile_name": MARKUP,
        "target": 5,
        "stopped_target": 0,
        "homes_ahead": 0,
        "stopped": 0,
        "why": ["An admin has set 5 until 20 November, 18:00 UTC."],
        "waiting": 0,
        "booting": 0,
        "missing": 5,
        "usd_per_hour": 0.0,
        "by_hand": {
            "running": 5,
            "stopped": None,
            "until": (NOW + timedelta(hours=4)).isoformat(),
            "by": MARKUP,
            "at": (NOW - timedelta(minutes=5)).isoformat(),
        },
        "failure": {
            "message": "EC2 has no machine of this kind available right now: spot is sold out in "
            "us-east-1a and b. Try again after 12:05 UTC.",
            "at": (NOW - timedelta(minutes=1)).isoformat(),
            "retry_seconds": 54.0,
        },
    }
    return {
        "now": NOW.isoformat(),
        "usd_per_hour": 0.42,
        "max_usd_per_hour": 8.0,
        "places": [waiting, sold_out],
        "profiles": ["t4", "a10g"],
    }

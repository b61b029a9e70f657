"""The status of a server, as a person with whom it is shared gets it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.notebook.status.guest_status import for_guest
from ec2spawner.notebook.status.notices import notices
from ec2spawner.wire import (
    AdminMessage,
    Cost,
    Credit,
    HourlyPrice,
    Limit,
    Market,
    NotebookStatus,
    PriceChange,
    SleepProgress,
    Stop,
    Wake,
    WokenKernel,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECRET = "secret"


def limited(**changes: Any) -> Cost:
    values: dict[str, Any] = {
        "scope": "group",
        "name": SECRET,
        "kind": "usd_per_month",
        "percent": 80,
        "threshold": 75,
        "used": 160,
        "limit": 200,
        "stops": True,
    }
    totals = {"today_usd": 17.0, "month_usd": 170.0, "known_today_usd": 17.0}
    spent = totals | {"usd": 3.0, "known_month_usd": 170.0, "payer": f"group:{SECRET}"}
    return Cost(as_of=NOW, since=NOW, limits=[Limit(**values | changes)], **spent)


WOKEN = Wake(
    id="1",
    slept_at=NOW,
    trigger="idle",
    state="done",
    kernels=[WokenKernel(path=SECRET, kernel_name="python3", state="done")],
    kernel_count=1,
)


def seen_by_guest(**fields: Any) -> NotebookStatus:
    status = NotebookStatus(managed=True, agent_connected=True, now=NOW, **fields)
    return for_guest(status.model_copy(update={"notices": notices(status)}))


@pytest.mark.parametrize(
    "fields",
    [
        {"message": AdminMessage(id="1", text=SECRET)},
        {"cost": limited()},
        {"cost": limited(stop_at=NOW + timedelta(minutes=5))},
        {"stop": Stop(reason="budget", message=SECRET), "cost": limited()},
        {"saving": SleepProgress(id=SECRET, kernels=1)},
        {"wake": WOKEN},
    ],
)
def test_what_only_the_owner_may_know_is_in_no_part_of_the_status(fields: dict[str, Any]) -> None:
    found = seen_by_guest(**fields)
    assert SECRET not in found.model_dump_json()
    assert not found.can_control
    if found.cost is not None:
        assert (found.cost.usd, found.cost.month_usd, found.cost.limits) == (3.0, None, [])
        assert (found.cost.known_today_usd, found.cost.known_month_usd) == (None, None)


def test_an_announced_stop_still_warns_a_guest() -> None:
    stop_at = NOW + timedelta(minutes=5)
    [found] = seen_by_guest(cost=limited(stop_at=stop_at)).notices
    assert (found.kind, found.until, found.title.code) == ("budget", stop_at, "stops")
    assert [each.code for each in found.details] == ["files-kept"]


def test_a_share_of_a_limit_is_no_notice_of_a_guest() -> None:
    assert seen_by_guest(cost=limited(threshold=100)).notices == []


def test_prices_and_credits_are_the_owners_to_act_upon() -> None:
    before, now = (HourlyPrice(usd_per_hour=usd, market=Market.SPOT) for usd in (0.2, 0.4))
    cost = Cost(
        as_of=NOW,
        since=NOW,
        price_change=PriceChange(why="rise", at=NOW, before=before, now=now),
        credits=[Credit(usd=0.12, why="free-hour", at=NOW)],
    )
    status = NotebookStatus(managed=True, agent_connected=True, now=NOW, cost=cost)
    assert [each.kind for each in notices(status)] == ["price", "credit"]
    assert seen_by_guest(cost=cost).notices == []


def test_other_stops_say_why_to_a_guest_too() -> None:
    found = seen_by_guest(stop=Stop(reason="admin", message="Maintenance"))
    assert found.stop is not None
    assert found.stop.message == found.notices[0].stop.message == "Maintenance"

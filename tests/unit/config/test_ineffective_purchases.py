"""Options of homes, markets, discounts and the warm pool without effect beside another option."""

from __future__ import annotations

import pytest

from tests.unit.config.combined import (
    ANY,
    CPU,
    DISCOUNT,
    EFS,
    ON_DEMAND,
    POOL,
    QUEUE,
    ROLE,
    SPOT,
    Case,
    assert_found,
)

CASES = {
    # --- the home, and what sleeps in it
    "session-above-the-home": Case(
        {"sleep": {"max_disk_gib": 200}},
        {},
        "sleep",
        '"max_disk_gib" is 200, and a home of c.EC2Spawner.home has 50 GiB',
        "write 50 or less",
    ),
    "usual-session-above-a-small-home": Case(
        {"home": {"size_gib": 20}, "sleep": {"max_disk_gib": 50}},
        {},
        "sleep",
        "c.EC2Spawner.home has 20 GiB",
        "write 20 or less",
    ),
    "session-of-a-profile-above-the-home": Case(
        {"profile_list": [ANY | {"sleep": {"max_disk_gib": 101}}], "home": {"size_gib": 100}},
        {},
        'profile_list[0].sleep ("T4")',
        "c.EC2Spawner.home has 100 GiB",
        "size_gib",
    ),
    "size-of-efs": Case(
        {"home": EFS | {"size_gib": 100}},
        {},
        "home",
        '"size_gib" is for homes of kind "ebs", and "kind" is "efs"',
        'leave out "size_gib"',
    ),
    "volume-of-no-home": Case(
        {"home": {"kind": "none", "encrypted": True, "snapshots": {"keep": 2}}},
        {},
        "home",
        '"encrypted" and "snapshots" are for homes of kind "ebs", and "kind" is "none"',
        '"kind": "ebs"',
    ),
    "folder-of-a-volume": Case(
        {"home": {"root": "/homes", "tls": False}},
        {},
        "home",
        '"root" and "tls" are for homes of kind "efs", and "kind" is "ebs"',
        '"kind": "efs"',
    ),
    "copies-without-named-servers": Case(
        {"home": {"named_servers": "copy"}},
        {"allow_named_servers": False},
        "home.named_servers",
        "c.JupyterHub.allow_named_servers is off",
        "c.JupyterHub.allow_named_servers = True",
    ),
    "sleep-of-a-profile-that-saves-nothing": Case(
        {"profile_list": [ANY | {"sleep": {"save": 0}, "idle": {"then": "sleep"}}]},
        {},
        'profile_list[0].idle ("T4")',
        'sleep["save"] is 0',
        '{"then": "stop"}',
    ),
    # --- markets
    "stop-of-spot": Case(
        {"after_stop": "stop", "profile_list": [SPOT]},
        {},
        "after_stop.stop",
        'no profile without its own "after_stop" has an on-demand "market"',
        '"spot-first"',
    ),
    "stop-of-a-spot-profile": Case(
        {"profile_list": [ANY, SPOT | {"slug": "b", "after_stop": {"stop": "7d"}}]},
        {},
        'profile_list[1].after_stop.stop ("T4")',
        'the profile\'s "market" is "spot-only"',
        '"spot-first"',
    ),
    "stopped-instances-of-none": Case(
        {"after_stop": {"linger": "10m", "per_user": 1}},
        {},
        "after_stop.per_user",
        'there is no "stop"',
        'add "stop"',
    ),
    "interruption-on-demand": Case(
        {"interruption": {"then": "stop"}, "profile_list": [ON_DEMAND]},
        {},
        "interruption",
        '"market" of no profile that follows it is spot',
        '"market": "spot-first"',
    ),
    "interruption-of-an-on-demand-profile": Case(
        {"profile_list": [ANY, ON_DEMAND | {"slug": "b", "interruption": {"then": "stop"}}]},
        {},
        'profile_list[1].interruption ("T4")',
        '"market" of this profile is on-demand',
        '"market": "spot-first"',
    ),
    "resume-on-demand-of-spot": Case(
        {"interruption": {"then": "resume-on-demand"}, "profile_list": [SPOT]},
        {},
        "interruption.then",
        'a "market" that the profile allows, and no profile that follows it allows on-demand',
        '"then": "resume"',
    ),
    "resume-on-demand-of-a-spot-profile": Case(
        {"profile_list": [SPOT | {"interruption": {"then": "resume-on-demand"}}]},
        {},
        'profile_list[0].interruption.then ("T4")',
        "this one does not allow on-demand",
        '"then": "resume"',
    ),
    "queue-without-spot": Case(
        {"interruption_queue": QUEUE, "profile_list": [ON_DEMAND]},
        {},
        "interruption_queue",
        'no profile has a spot "market"',
        '"market": "spot-first"',
    ),
    "rehearsals-without-spot": Case(
        {"rehearsal_role": ROLE, "profile_list": [ON_DEMAND]},
        {},
        "rehearsal_role",
        'no profile has a spot "market"',
        '"market": "spot-first"',
    ),
    "no-wait-that-waits": Case(
        {
            "profile_list": [
                ANY | {"market": "spot-wait", "profile_options": {"wait_for_spot": False}}
            ]
        },
        {},
        'profile_list[0].profile_options.wait_for_spot ("T4")',
        '"market" has "spot-wait"',
        'leave "spot-wait" out of "market"',
    ),
    "second-default": Case(
        {"profile_list": [ANY | {"default": True}, CPU | {"default": True}]},
        {},
        'profile_list[1].default ("CPU")',
        "profile_list[0] is a default before it",
        'leave out one "default"',
    ),
    # --- what is paid in advance
    "discount-that-is-over": Case(
        {"discounts": [DISCOUNT | {"until": "2026-11-30"}]},
        {},
        "discounts[0].until",
        "2026-11-30 is over, so the discount of g4dn.xlarge",
        "remove the discount",
    ),
    "discount-of-spot": Case(
        {"discounts": [DISCOUNT], "profile_list": [SPOT]},
        {},
        "discounts[0].instance_type",
        "no profile of profile_list buys g4dn.xlarge on demand",
        "remove the discount",
    ),
    "discount-of-another-type": Case(
        {"discounts": [DISCOUNT | {"instance_type": "g5.xlarge"}], "profile_list": [ON_DEMAND]},
        {},
        "discounts[0].instance_type",
        "no profile of profile_list buys g5.xlarge on demand",
        "remove the discount",
    ),
    "dear-discount": Case(
        {"discounts": [DISCOUNT | {"usd_per_hour": 10}]},
        {},
        "discounts[0].usd_per_hour",
        'USD 10 is more than "instance_type" g4dn.xlarge costs without a discount, USD 0.526',
        "less than 0.526",
    ),
    "order-of-no-reservations": Case(
        {"capacity_reservations": {"before_spot": False}},
        {},
        "capacity_reservations.before_spot",
        'there are no "ids", "tags" or "blocks"',
        'add "ids"',
    ),
    "reservations-of-what-is-stopped": Case(
        {"capacity_reservations": {"tags": {"a": "b"}}, "after_stop": "stop"},
        {},
        "capacity_reservations",
        'c.EC2Spawner.after_stop is "stop"',
        '"after_stop": "terminate"',
    ),
    # --- the warm pool
    "cap-above-the-cap-of-all": Case(
        {"warm_pool": [POOL | {"usd_per_hour": 9}], "warm_pool_usd_per_hour": 5},
        {},
        "warm_pool[0].usd_per_hour",
        "USD 9 is above c.EC2Spawner.warm_pool_usd_per_hour, 5",
        "raise warm_pool_usd_per_hour",
    ),
    "entry-within-another": Case(
        {"warm_pool": [POOL, POOL | {"running": 1, "when": "Mon-Fri 08:00-18:00"}]},
        {},
        "warm_pool[1]",
        "c.EC2Spawner.warm_pool[0] asks for as much or more",
        "`when`",
    ),
    "entry-twice": Case(
        {"warm_pool": [POOL, POOL]},
        {},
        "warm_pool[1]",
        "c.EC2Spawner.warm_pool[0] asks for as much or more",
        "remove it",
    ),
    "pool-above-the-servers": Case(
        {"warm_pool": [POOL], "limits": {"hub": {"servers": 1}}},
        {},
        "warm_pool[0].running",
        "2 instances wait for at most 1 servers (c.EC2Spawner.limits.hub.servers)",
        "raise c.EC2Spawner.limits.hub.servers",
    ),
    "pool-above-jupyterhubs-servers": Case(
        {"warm_pool": [POOL]},
        {"max_servers": 1},
        "warm_pool[0].running",
        "(c.JupyterHub.active_server_limit)",
        "write 1 or less",
    ),
    "cap-below-an-instance": Case(
        {"warm_pool": [POOL | {"market": "on-demand", "usd_per_hour": 0.5}]},
        {},
        "warm_pool[0].running",
        "costs USD 0.526 an hour or more, and c.EC2Spawner.warm_pool[0].usd_per_hour is 0.5",
        "above 0.526",
    ),
    "cap-of-all-below-an-instance": Case(
        {"warm_pool": [POOL], "warm_pool_usd_per_hour": 0.05},
        {},
        "warm_pool[0].running",
        "c.EC2Spawner.warm_pool_usd_per_hour is 0.05",
        "raise c.EC2Spawner.warm_pool_usd_per_hour",
    ),
    "limit-of-the-hub-below-the-pool": Case(
        {
            "profile_list": [ON_DEMAND, CPU],
            "warm_pool": [POOL],
            "limits": {"hub": {"usd_per_hour": 0.4}},
        },
        {},
        "warm_pool[0].running",
        "c.EC2Spawner.limits.hub.usd_per_hour is 0.4",
        "above 0.526",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_option_without_effect_is_found_with_the_other_option_and_the_fix(case: str) -> None:
    assert_found(CASES[case])

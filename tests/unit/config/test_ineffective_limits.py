"""Options of runs, clusters, limits, times and alarms without effect beside another option."""

from __future__ import annotations

import pytest

from tests.unit.config.combined import (
    ANY,
    CPU,
    GROUPS,
    IMAGE,
    ON_DEMAND,
    RUNS,
    SPOT,
    TOPIC,
    Case,
    assert_found,
)

CASES = {
    # --- runs and clusters
    "runs-of-a-user-above-all": Case(
        {"runs": RUNS | {"at_once_per_user": 6}},
        {},
        "runs.at_once_per_user",
        '6 is above "at_once", 5',
        "write 5 or less",
    ),
    "runs-of-a-user-without-runs": Case(
        {"runs": {"at_once_per_user": 6}},
        {},
        "runs.at_once_per_user",
        '"at_once" is 0',
        'add "at_once"',
    ),
    "priorities-without-runs": Case(
        {"runs": {"priorities": {"user:ann": 1}}},
        {},
        "runs.priorities",
        '"at_once" is 0',
        'add "at_once"',
    ),
    "priority-of-a-group-that-pays-for-nobody": Case(
        {"runs": RUNS | {"priorities": {"group:lab": 1}}},
        {},
        'runs.priorities["group:lab"]',
        "by c.EC2Spawner.payers it pays for nobody",
        'add "group": ["lab"] there',
    ),
    "priority-of-a-project-that-pays-for-nobody": Case(
        {"runs": RUNS | {"priorities": {"project:nlp": 1}}, "payers": {"group": ["nlp"]}},
        {},
        'runs.priorities["project:nlp"]',
        "by c.EC2Spawner.payers it pays for nobody",
        'add "project": {"nlp"',
    ),
    "priority-of-a-user-who-pays-for-nothing": Case(
        {
            "runs": RUNS | {"priorities": {"user:ann": 1}},
            "payers": {"user": False, "group": ["lab"]},
        },
        {},
        'runs.priorities["user:ann"]',
        "by c.EC2Spawner.payers it pays for nobody",
        'add "user": True there',
    ),
    "runs-above-the-servers": Case(
        {"runs": RUNS, "limits": {"hub": {"servers": 4}}},
        {},
        "runs.at_once",
        '5 is above "servers" of c.EC2Spawner.limits.hub, 4',
        "raise c.EC2Spawner.limits.hub.servers",
    ),
    "runs-of-a-user-above-the-servers": Case(
        {"runs": RUNS | {"at_once_per_user": 3}, "limits": {"user": {"servers": 2}}},
        {},
        "runs.at_once_per_user",
        '3 is above "servers" of c.EC2Spawner.limits.user, 2',
        "write 2 or less",
    ),
    "workers-above-the-servers": Case(
        {"clusters": {"max_workers": 2}, "limits": {"user": {"servers": 2}}, **GROUPS},
        {},
        "clusters.max_workers",
        'more than "servers" of c.EC2Spawner.limits.user, 2',
        "write 1 or less",
    ),
    "placement-without-clusters": Case(
        {"profile_list": [ANY | {"placement_group": "cluster"}]},
        {},
        'profile_list[0].placement_group ("T4")',
        "c.EC2Spawner.clusters allows none",
        '{"max_workers": 8}',
    ),
    # --- limits
    "limit-above-the-hubs": Case(
        {"limits": {"users": {"ann": {"usd_per_month": 200}}, "hub": {"usd_per_month": 100}}},
        {},
        'limits.users["ann"].usd_per_month',
        "200 is above c.EC2Spawner.limits.hub.usd_per_month, 100",
        "write 100 or less",
    ),
    "age-above-the-hubs": Case(
        {"limits": {"user": {"max_run": "12h"}, "hub": {"max_run": "8h"}}},
        {},
        "limits.user.max_run",
        "is above c.EC2Spawner.limits.hub.max_run",
        "raise that of the hub",
    ),
    "end-of-no-limit": Case(
        {"limits": {"hub": {"servers": 10, "at_limit": "warn"}}},
        {},
        "limits.hub.at_limit",
        "limits of USD or GPU-hours that are used up, and there is none",
        '"usd_per_month": 200',
    ),
    "end-of-no-limits": Case(
        {"limits": {"at_limit": "warn"}},
        {},
        "limits.at_limit",
        "there is none",
        "leave it out",
    ),
    "nobody-starts": Case(
        {"limits": {"user": {"servers": 0}}},
        {},
        "limits.user.servers",
        "nobody can start a server of any profile of c.EC2Spawner.profile_list",
        "raise it",
    ),
    "gpu-hours-without-gpus": Case(
        {"limits": {"user": {"gpu_hours_per_month": 10}}, "profile_list": [CPU]},
        {},
        "limits.user.gpu_hours_per_month",
        "no profile of c.EC2Spawner.profile_list has a GPU",
        '"usd_per_month": 200',
    ),
    "limit-below-a-start": Case(
        {"limits": {"user": {"usd_per_month": 0.5}}, "profile_list": [ON_DEMAND]},
        {},
        "limits.user.usd_per_month",
        'the cheapest of c.EC2Spawner.profile_list, "T4", needs USD 0.526',
        "add a cheaper profile",
    ),
    "rate-below-a-start-on-spot": Case(
        {"limits": {"hub": {"usd_per_hour": 0.05}}, "profile_list": [SPOT]},
        {},
        "limits.hub.usd_per_hour",
        "refuses every start",
        "add a cheaper profile",
    ),
    "gpu-hours-below-a-start": Case(
        {
            "limits": {"user": {"gpu_hours_per_month": 3}},
            "profile_list": [{"display_name": "4 T4", "gpu": "T4", "gpu_count": 4}],
        },
        {},
        "limits.user.gpu_hours_per_month",
        "each profile of c.EC2Spawner.profile_list needs 4",
        "fewer GPUs",
    ),
    # --- idleness and age
    "idle-above-the-age": Case(
        {"idle": {"server": "12h", "max_age": "8h"}},
        {},
        "idle",
        '"server", 12 hours, is never over: servers stop at 8 hours by max_age',
        "shorten it",
    ),
    "idle-of-a-group-above-the-age": Case(
        {"idle": {"server": "1h", "max_age": "8h"}, "idle_by_group": {"lab": {"server": "9h"}}},
        {},
        'idle_by_group["lab"]',
        "servers stop at 8 hours by max_age",
        "raise the other",
    ),
    "idle-above-the-run": Case(
        {"idle": {"server": "3h"}, "limits": {"user": {"max_run": "2h"}}},
        {},
        "idle",
        "by c.EC2Spawner.limits.user.max_run",
        "shorten it",
    ),
    "choice-above-the-age": Case(
        {"idle": {"max_age": "8h", "user_may_set": {"server": ["9h", "10h"]}}},
        {},
        "idle",
        "shortest time of user_may_set",
        "shorten it",
    ),
    "choice-of-a-profile-above-the-age": Case(
        {
            "idle": {"max_age": "1h"},
            "profile_list": [
                ANY
                | {
                    "idle": {"server": "50m"},
                    "profile_options": {"idle": {"min": "50m", "max": "2h"}},
                },
                CPU | {"profile_options": {"idle": {"min": "1h", "max": "2h"}}},
            ],
        },
        {},
        'profile_list[1].profile_options.idle ("CPU")',
        "by max_age",
        "shorten it",
    ),
    "extension-of-nothing": Case(
        {"idle": {"server": 0, "user_may_extend": "4h"}},
        {},
        "idle",
        '"user_may_extend" postpones the stop of idle servers, and "server" is 0',
        'write "server": "1h"',
    ),
    "group-that-profiles-override": Case(
        {
            "idle_by_group": {"lab": {"server": "3h"}},
            "profile_list": [ANY | {"idle": {"server": "20m"}}],
        },
        {},
        'idle_by_group["lab"].server',
        'each profile has a "server" in its own "idle"',
        'leave "server" out of the profiles',
    ),
    # --- alarms
    "alarms-to-nobody": Case(
        {"alarms": {"summary": "Mon 08:00"}},
        {},
        "alarms",
        '"summary" set alarms, and "to" has no destination',
        'add "to"',
    ),
    "threshold-of-another-kind": Case(
        {"alarms": {"to": [TOPIC], "kinds": ["limit"], "idle_gpu": "2h"}},
        {},
        "alarms.idle_gpu",
        'alarms of kind "idle-gpu", which "kinds" leaves out',
        'add "idle-gpu" to "kinds"',
    ),
    "alarm-of-no-limit": Case(
        {"alarms": {"to": [TOPIC], "limit_used": 80}},
        {},
        "alarms.limit_used",
        "c.EC2Spawner.limits has none",
        "c.EC2Spawner.limits = ",
    ),
    "alarm-without-spot": Case(
        {"alarms": {"to": [TOPIC], "price_rise": 80}, "profile_list": [ON_DEMAND]},
        {},
        "alarms.price_rise",
        'no profile has a spot "market"',
        "leave it out",
    ),
    # --- starts
    "boot-above-the-start": Case(
        {"boot_timeout": "20m"},
        {"start_timeout": 900},
        "start_timeout",
        "boot_timeout (1200 s)",
        "c.EC2Spawner.start_timeout = 1500",
    ),
    "short-start-beside-defaults": Case(
        {},
        {"start_timeout": 60},
        "start_timeout",
        "boot_timeout (600 s) and ready_timeout",
        "c.EC2Spawner.start_timeout = ",
    ),
    "owners-of-an-id": Case(
        {"image": {"id": IMAGE, "owners": ["self"]}},
        {},
        "image.owners",
        '"id" names one',
        'write "name"',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_option_without_effect_is_found_with_the_other_option_and_the_fix(case: str) -> None:
    assert_found(CASES[case])

"""When an alarm is raised, and when it is not: each rule on plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.alarms.account_rules import (
    Interruption,
    RefusedQuota,
    Running,
    SpotPool,
    discounts_expiring,
    interruption_storm,
    price_rise,
    quotas_nearly_used,
    quotas_refused,
)
from ec2spawner.core.alarms.alarm import SEVERITIES, Alarm, AlarmRules, Kind, Severity
from ec2spawner.core.alarms.grouping import HOUR, MAX_GROUPED, Raised, admitted, rests
from ec2spawner.core.alarms.leaks import (
    LeakedInstance,
    copied_instance,
    foreign_instance,
    refused_termination,
)
from ec2spawner.core.alarms.retries import is_given_up
from ec2spawner.core.alarms.run_rules import EndedRun, runs_ended
from ec2spawner.core.alarms.server_rules import GpuServer, idle_gpu, unattended_gpu
from ec2spawner.core.alarms.unattended import HIDDEN, is_unattended
from ec2spawner.core.ledger.charges import Rate
from ec2spawner.core.ledger.cost_rows import Resource
from ec2spawner.core.offers.quotas import ListedQuota
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.pricing.price_history import PricePoint
from ec2spawner.wire import GpuSample, KernelState, Market, Telemetry, Worker

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
RULES = AlarmRules()
SERVER = GpuServer("lease-1", "ann", "", "i-1 (g5.xlarge)", 0.45, None)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


# --- one server ---


def test_a_gpu_server_idle_for_hours_is_reported_and_one_in_use_is_not() -> None:
    assert idle_gpu(SERVER, RULES, NOW) is None
    assert idle_gpu(replace(SERVER, idle_since=ago(hours=5.9)), RULES, NOW) is None
    alarm = idle_gpu(replace(SERVER, idle_since=ago(hours=6)), RULES, NOW)
    assert alarm is not None
    assert alarm.kind is Kind.IDLE_GPU
    assert "ann" in alarm.title
    assert "0.45 USD/hour (estimate)" in alarm.body


def test_an_idle_worker_is_named_by_its_server() -> None:
    idle = replace(SERVER, idle_since=ago(hours=6))
    for server, name in (("/2", "ann, worker 2"), ("lab/2", "ann/lab, worker 2")):
        alarm = idle_gpu(replace(idle, server=server), RULES, NOW)
        assert alarm is not None
        assert alarm.title.startswith(f"The GPU worker of {name} has")
        assert "Ask the user to make the cluster smaller" in alarm.body


def test_an_idle_server_is_reported_once_a_day() -> None:
    idle = replace(SERVER, idle_since=ago(hours=9))
    ids = {
        alarm.alarm_id
        for minutes in range(0, 2 * 24 * 60, 10)
        if (alarm := idle_gpu(idle, RULES, NOW + timedelta(minutes=minutes)))
    }
    assert len(ids) == 3, "two days touch three dates"


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    alarm = unattended_gpu(replace(SERVER, usd_per_hour=None), 1800, NOW)
    assert "unknown price" in alarm.body


def test_a_name_is_no_way_into_a_terminal_or_a_mail() -> None:
    hostile = replace(SERVER, user="ann\r\nBcc: all@example.org\x1b[2J")
    assert "\n" not in unattended_gpu(hostile, 1800, NOW).title
    assert "\x1b" not in unattended_gpu(hostile, 1800, NOW).title


def telemetry(use: float | None, *workers: Worker, source: Any = "nvml") -> Telemetry:
    gpu = GpuSample(index=0, name="A10G", use_percent=use)
    return Telemetry(at=NOW, gpu_source=source, gpus=[gpu], workers=list(workers))


def worker(kind: Any, gpu_percent: float | None = None, gpu: int = 0, pid: int = 7) -> Worker:
    return Worker(kind=kind, name="x", pid=pid, gpus=[gpu], gpu_percent=gpu_percent)


@pytest.mark.parametrize(
    ("sample", "unattended"),
    [
        (None, None),
        (telemetry(99, source="none"), None),
        (telemetry(None, worker("program", 99)), None),
        (telemetry(0), False),
        (telemetry(4, worker("program", 4)), False),
        (telemetry(99), None),
        (telemetry(99, worker("program", 99)), True),
        (telemetry(99, worker("program", 99, pid=HIDDEN)), None),
        (telemetry(99, worker("program", None)), True),
        (telemetry(99, worker("program", 0)), None),
        (telemetry(99, worker("kernel", 99)), False),
        (telemetry(99, worker("terminal", 99)), False),
        (telemetry(99, worker("kernel", None)), False),
        (telemetry(99, worker("kernel", 0), worker("program", 99)), True),
    ],
)
def test_a_program_on_a_busy_gpu_that_no_kernel_and_no_terminal_uses(
    sample: Telemetry | None, unattended: bool | None
) -> None:
    assert is_unattended(sample, [], busy_percent=5) is unattended


def test_without_the_process_id_of_a_kernel_a_program_may_be_one() -> None:
    sample = telemetry(99, worker("program", 99))
    kernel = KernelState(id="k", last_activity=NOW)
    assert is_unattended(sample, None, busy_percent=5) is None
    assert is_unattended(sample, [kernel], busy_percent=5) is None
    assert is_unattended(sample, [kernel.model_copy(update={"pid": 8})], busy_percent=5) is True


def test_another_gpus_kernel_does_not_explain_this_one() -> None:
    gpus = [GpuSample(index=number, name="A10G", use_percent=90) for number in (0, 1)]
    on_them = [worker("kernel", 90), worker("program", 90, gpu=1)]
    sample = Telemetry(at=NOW, gpu_source="nvml", gpus=gpus, workers=on_them)
    assert is_unattended(sample, [], busy_percent=5) is True


# --- the account ---


def interruptions(*minutes: float, zone: str = "us-east-1a") -> list[Interruption]:
    return [
        Interruption(f"i-{number}", "g5.xlarge", zone, ago(minutes=m))
        for number, m in enumerate(minutes)
    ]


def test_interruptions_within_the_time_are_a_storm_and_spread_ones_are_not() -> None:
    assert interruption_storm(interruptions(1, 2, 3, 4), RULES, None, NOW) is None
    assert interruption_storm(interruptions(1, 2, 3, 4, 61), RULES, None, NOW) is None
    found = interruptions(1, 2, 3) + interruptions(4, 59, zone="us-east-1b")
    storm = interruption_storm(found, RULES, None, NOW)
    assert storm is not None
    assert "3 of g5.xlarge in us-east-1a, 2 of g5.xlarge in us-east-1b" in storm.body


def test_a_storm_that_was_reported_does_not_make_the_next_one() -> None:
    found = interruptions(1, 10, 11, 12, 13, 14)
    assert interruption_storm(found, RULES, ago(minutes=5), NOW) is None
    assert interruption_storm(found, RULES, ago(minutes=14), NOW) is not None


def pool(*points: tuple[float, float]) -> SpotPool:
    """`points` are (days ago, USD/hour)."""
    history = tuple(PricePoint(ago(days=days), usd) for days, usd in points)
    return SpotPool("g5.xlarge", "us-east-1a", 3, history)


@pytest.mark.parametrize(
    ("history", "rises"),
    [
        ([], False),
        ([(7, 0.40)], False),
        ([(7, 0.40), (0.1, 0.59)], False),
        ([(7, 0.40), (0.1, 0.60)], True),
        ([(7, 0.40), (0.1, 0.90), (0.01, 0.40)], False),
        ([(7, 0.40), (6, 0.90)], False),
        ([(0.1, 0.90)], False),
    ],
)
def test_a_price_is_compared_with_its_median_of_the_week(
    history: list[tuple[float, float]], rises: bool
) -> None:
    assert (price_rise(pool(*history), RULES, NOW) is not None) is rises


QUOTA = ListedQuota("L-3819A6DF", "All G and VT Spot Instance Requests", 64)


@pytest.mark.parametrize(("vcpus", "reported"), [(57, 0), (58, 1), (64, 1)])
def test_a_quota_is_reported_at_ninety_percent(vcpus: int, reported: int) -> None:
    running = [Running(Market.SPOT, "g5.xlarge", vcpus - 4), Running(Market.SPOT, "g4dn.xlarge", 4)]
    others = [Running(Market.ON_DEMAND, "g5.xlarge", 500)]
    found = list(quotas_nearly_used([*running, *others], [QUOTA], RULES, NOW))
    assert [alarm.subject for alarm in found] == ["L-3819A6DF"] * reported


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (RefusedQuota(Market.SPOT, "g", "MaxSpotInstanceCountExceeded"), "L-3819A6DF"),
        (RefusedQuota(Market.ON_DEMAND, "standard", "VcpuLimitExceeded"), "L-1216C47A"),
        (RefusedQuota(Market.SPOT, "p5", "MaxSpotInstanceCountExceeded"), "L-7212CCBC"),
        (RefusedQuota(Market.ON_DEMAND, "hpc", "VcpuLimitExceeded"), "on-demand/hpc"),
    ],
)
def test_a_quota_for_which_ec2_refused_a_launch_is_reported_with_its_code(
    refused: RefusedQuota, code: str
) -> None:
    """AWS merged the quota of spot P5 into that of all P: the account's own list decides."""
    listed = [QUOTA, ListedQuota("L-7212CCBC", "All P Spot Instance Requests", 192)]
    [found] = quotas_refused([refused], [], listed, NOW)
    assert found.subject == code
    assert refused.error in found.body


def test_a_refusal_and_the_hubs_own_use_are_one_alarm_of_a_quota() -> None:
    running = [Running(Market.SPOT, "g5.xlarge", 60)]
    refused = [RefusedQuota(Market.SPOT, "g", "MaxSpotInstanceCountExceeded")]
    [near] = quotas_nearly_used(running, [QUOTA], RULES, NOW)
    [used_up] = quotas_refused(refused, running, [QUOTA], NOW)
    assert used_up.alarm_id == near.alarm_id
    assert "60 of 64 vCPUs" in used_up.body


def discount(**until: float) -> Discount:
    return Discount("g5.xlarge", 0.63, 4, NOW + timedelta(**until) if until else None)


def test_a_discount_is_reported_once_before_it_ends() -> None:
    unreported = [
        discount(),
        discount(days=15),
        discount(days=-1),
        replace(discount(days=1), count=0),
    ]
    assert not list(discounts_expiring(unreported, RULES, NOW))
    [first] = discounts_expiring([discount(days=14)], RULES, NOW)
    [later] = discounts_expiring([discount(days=14)], RULES, NOW + timedelta(days=13))
    assert first.alarm_id == later.alarm_id


# --- leaks ---


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (Rate(1.006), "It costs 1.01 USD/hour (estimate)."),
        (Rate(0.5, (Resource.DISK,)), "It costs at least 0.50 USD/hour (estimate)."),
        (Rate(None, (Resource.INSTANCE, Resource.DISK)), "What it costs is unknown."),
    ],
)
def test_a_leaked_instance_is_reported_with_what_is_known_of_its_cost(
    rate: Rate, words: str
) -> None:
    leaked = LeakedInstance("i-1", "g5.xlarge", "us-east-1a", rate)
    foreign = foreign_instance(leaked, "0123456789abcdef", NOW)
    refused = refused_termination(leaked, 660, "OperationNotPermitted: no", NOW)
    assert words in foreign.body
    assert words in refused.body
    assert foreign.alarm_id == refused.alarm_id == "leak/i-1/"


def test_an_instance_without_a_store_is_not_said_to_end_by_reap() -> None:
    leaked = LeakedInstance("i-1", "g5.xlarge", "us-east-1a", Rate(1.0))
    assert "--yes" in foreign_instance(leaked, "0123456789abcdef", NOW).body
    assert "--yes" not in foreign_instance(leaked, "", NOW).body
    assert "--yes" not in copied_instance(leaked, NOW).body, "it would end this hub's servers"


# --- how many are sent ---


def alarm(number: int, at: datetime = NOW, kind: Kind = Kind.LEAK) -> Alarm:
    return Alarm(kind, f"vol-{number}", "", f"A volume was left over: vol-{number}", "", at)


def test_beyond_the_limit_an_hours_alarms_become_one() -> None:
    raised = admitted((), [alarm(n) for n in range(30)], per_hour=10)
    assert sum(each.grouped for each in raised) == 20
    assert not list(rests(raised, NOW + timedelta(minutes=59))), "the hour is not over"
    [rest] = rests(raised, NOW + HOUR)
    assert "20 more" in rest.title
    assert "vol-29" in rest.body
    [again] = rests(raised, NOW + timedelta(hours=5))
    assert again.alarm_id == rest.alarm_id
    assert not admitted(raised, [rest], per_hour=10)[0].grouped


def test_not_all_alarms_of_an_hour_are_stored_if_somebody_causes_very_many() -> None:
    raised: tuple[Raised, ...] = ()
    for number in range(0, 2000, 100):
        raised += admitted(raised, [alarm(number + n) for n in range(100)], per_hour=10)
    assert len(raised) == 10 + MAX_GROUPED
    [rest] = rests(raised, NOW + HOUR)
    assert f"at least {MAX_GROUPED} more" in rest.title
    assert admitted(raised, [alarm(3000, NOW + HOUR)], per_hour=10)


@given(
    st.lists(
        st.tuples(st.integers(0, 180), st.sampled_from([Kind.LEAK, Kind.IDLE_GPU])), max_size=60
    ),
    st.integers(1, 8),
)
def test_each_alarm_is_sent_or_part_of_a_rest_and_none_is_both(
    when: list[tuple[int, Kind]], per_hour: int
) -> None:
    raised: tuple[Raised, ...] = ()
    for number, (minute, kind) in enumerate(sorted(when)):
        new = alarm(number, NOW + timedelta(minutes=minute), kind)
        raised += admitted(raised, [new], per_hour)
    hours = {(each.alarm.kind, each.alarm.at.hour) for each in raised}
    for kind, hour in hours:
        of_hour = [r for r in raised if (r.alarm.kind, r.alarm.at.hour) == (kind, hour)]
        sent = sum(not each.grouped for each in of_hour)
        assert sent == min(len(of_hour), per_hour)
    counted = sum(int(each.title.split()[1]) for each in rests(raised, NOW + timedelta(days=1)))
    assert counted == sum(each.grouped for each in raised)


def test_one_user_uses_up_half_of_the_messages_and_a_few_lines_of_the_rest() -> None:
    def ended(number: int, user: str) -> Alarm:
        run = EndedRun(number, 0, user, "train.py", "failed", "", None)
        return runs_ended([run], NOW)

    flood = [ended(number, "mallory") for number in range(200)]
    others = [ended(1000, "ann"), ended(1001, "bob")]
    raised = admitted((), [*flood, *others], per_hour=10)
    assert [each.alarm.user for each in raised if not each.grouped] == ["mallory"] * 5 + [
        "ann",
        "bob",
    ]
    late = admitted(raised, [ended(2000 + number, "eve") for number in range(9)], per_hour=10)
    assert sum(not each.grouped for each in late) == 3, "ten in all"
    [rest] = rests((*raised, *late), NOW + HOUR)
    assert "And 201 more alarms" in rest.title
    assert rest.body.count("of mallory failed") == 3
    assert "and 192 more of mallory" in rest.body
    assert rest.body.count("of eve failed") == 3
    assert "and 3 more of eve" in rest.body


def test_every_kind_has_a_severity_and_only_a_planted_program_is_a_failure() -> None:
    assert SEVERITIES.keys() == set(Kind)
    failures = [kind for kind, severity in SEVERITIES.items() if severity is Severity.FAILURE]
    assert failures == [Kind.UNATTENDED_GPU]


def test_what_no_destination_took_for_days_is_given_up() -> None:
    assert not is_given_up(ago(days=3), NOW)
    assert is_given_up(ago(days=3, minutes=1), NOW)

"""Which notices a person gets, and for how long: each id is shown once."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.instances.gpu_xid_errors import GRAVITY
from ec2spawner.notebook.status.guest_status import notices_for_guest
from ec2spawner.notebook.status.notice_events import RESEND_SECONDS, SCHEMA_ID, NoticeEvents, schema
from ec2spawner.notebook.status.notices import notices
from ec2spawner.telemetry.nvml_gpu import NvmlGpu
from ec2spawner.wire import (
    AdminMessage,
    Cost,
    Credit,
    DiskUse,
    GpuHistory,
    GpuSample,
    History,
    HourlyPrice,
    Idleness,
    IdlePolicy,
    KeepChoice,
    Limit,
    Market,
    NotebookStatus,
    Notice,
    NoticesEvent,
    PriceChange,
    ScheduledEvent,
    Stop,
    Telemetry,
    Wake,
    WokenKernel,
    WorkersCost,
    sentence,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATER = KeepChoice(until=NOW + 60 * MINUTE, changes=True)


def status(now: datetime = NOW, **fields: Any) -> NotebookStatus:
    known: dict[str, Any] = {"managed": True, "agent_connected": True, "idle_policy": IdlePolicy()}
    return NotebookStatus(**known | {"now": now, "keep": [LATER]} | fields)


def idle(since: datetime, stop_at: datetime, warn_at: datetime) -> Idleness:
    return Idleness(idle_since=since, stop_at=stop_at, warn_at=warn_at)


def machine(*gpus: GpuSample) -> Telemetry:
    return Telemetry(at=NOW, gpu_source="nvml", gpus=list(gpus))


def codes(notice: Notice) -> list[str]:
    return [each.code for each in notice.details]


def only(found: list[Notice]) -> Notice:
    [notice] = found
    return notice


IDLE = idle(NOW - 50 * MINUTE, NOW + 10 * MINUTE, NOW)


def test_there_are_no_notices_without_a_reason() -> None:
    assert notices(status()) == []
    assert notices(status(telemetry=machine(GpuSample(index=0, name="T4", use_percent=3)))) == []


def test_the_idle_warning_appears_in_time_and_ends_with_activity() -> None:
    assert notices(status(NOW - MINUTE, idleness=IDLE)) == []
    warning = only(notices(status(idleness=IDLE)))
    assert (warning.kind, warning.level, warning.until) == ("idle", "warning", IDLE.stop_at)
    assert warning.since == IDLE.idle_since
    assert warning.actions == ["keep", "stop"]
    assert only(notices(status(NOW + 5 * MINUTE, idleness=IDLE))) == warning
    assert notices(status(idleness=Idleness(busy_because="a cell runs"))) == []


def test_a_later_stop_is_another_warning() -> None:
    later = idle(NOW - 50 * MINUTE, NOW + 70 * MINUTE, NOW + 60 * MINUTE)
    assert notices(status(idleness=later)) == []
    again = only(notices(status(NOW + 61 * MINUTE, idleness=later)))
    assert again.id != only(notices(status(idleness=IDLE))).id


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (IdlePolicy(user_may_extend_seconds=0), IDLE),
        (IdlePolicy(max_age_seconds=7200), Idleness(stop_at=NOW + MINUTE, warn_at=NOW)),
        (
            IdlePolicy(max_age_seconds=7200, server_seconds=7200),
            idle(NOW - 50 * MINUTE, NOW + 10 * MINUTE, NOW),
        ),
    ],
    ids=["not allowed", "old and at work", "old before it is idle for long"],
)
def test_no_extension_is_offered_where_none_is_possible(
    policy: IdlePolicy, found: Idleness
) -> None:
    in_vain = [LATER.model_copy(update={"changes": False})]
    warning = only(notices(status(idle_policy=policy, idleness=found, keep=in_vain)))
    assert warning.actions == ["stop"]
    assert (warning.since is None) == ("max-age" in codes(warning))


@pytest.mark.parametrize("keep", [[], [LATER]])
def test_sleep_is_offered_in_place_of_a_stop_that_loses_variables(keep: list[KeepChoice]) -> None:
    limit = Limit(scope="user", kind="usd_per_month", percent=99, stop_at=NOW + 10 * MINUTE)
    cost = Cost(as_of=NOW, since=NOW, limits=[limit])
    for fields in ({"idleness": IDLE}, {"cost": cost}):
        with_sleep = only(notices(status(can_sleep=True, keep=keep, **fields))).actions
        without = only(notices(status(keep=keep, **fields))).actions
        assert (with_sleep[-1], without[-1]) == ("sleep", "stop")
        assert with_sleep[:-1] == without[:-1]


def test_each_end_says_that_workers_end_too() -> None:
    limit = Limit(scope="user", kind="usd_per_month", percent=99, stop_at=NOW + 10 * MINUTE)
    workers = WorkersCost(count=2, running=1, as_of=NOW)
    cost = Cost(as_of=NOW, since=NOW, workers=workers)
    limited = cost.model_copy(update={"limits": [limit]})
    for fields in (
        {"cost": cost, "idleness": IDLE},
        {"cost": limited},
        {"cost": cost, "stop": Stop(reason="user")},
    ):
        assert only(notices(status(**fields))).details[-1] == sentence("workers-end", count=2)


def test_a_stop_replaces_the_warning() -> None:
    notice = only(
        notices(status(idleness=IDLE, stop=Stop(reason="idle", message="Nothing worked")))
    )
    assert (notice.kind, notice.level) == ("stopping", "warning")
    assert notice.since == IDLE.idle_since, "the browser says it by its reader's clock"
    assert codes(notice) == ["documents-saved"]
    assert notice.stop is None
    unknown = only(notices(status(stop=Stop(reason="idle", message="Nothing worked"))))
    assert unknown.since is None
    assert unknown.stop == Stop(reason="idle", message="Nothing worked")
    interrupted = status(stop=Stop(reason="interruption"))
    assert only(notices(interrupted)).kind == "interruption"
    long = only(notices(status(stop=Stop(reason="failed", message="x" * 500))))
    assert long.stop is not None
    assert long.stop.message.endswith("xxx")


def test_a_sleep_that_its_user_chose_is_a_success() -> None:
    for trigger, level in {"user": "success", "hardware": "success", "idle": "warning"}.items():
        stop = Stop(reason="idle" if trigger == "idle" else "user", sleep=trigger)
        assert only(notices(status(stop=stop))).level == level


@pytest.mark.parametrize("reason", ["admin", "hub"])
def test_a_sleep_that_somebody_else_asked_for_is_a_warning_that_names_them(reason: Any) -> None:
    stop = Stop(reason=reason, by="root", sleep="user")
    found = only(notices(status(stop=stop)))
    assert (found.level, found.stop) == ("warning", stop)


def test_a_stop_by_an_admin_names_the_admin() -> None:
    stop = Stop(reason="admin", by="alice")
    notice = only(notices(status(stop=stop)))
    assert notice.title == sentence("stopping-by-admin")
    assert notice.stop == stop
    users = only(notices(status(stop=Stop(reason="user", message="It was stopped from the hub"))))
    assert users.title == sentence("stopping")


def test_a_warning_says_that_the_session_sleeps() -> None:
    sleeps = IdlePolicy(then="sleep")
    limit = Limit(scope="user", kind="usd_per_month", percent=99, stop_at=NOW + 10 * MINUTE)
    cost = Cost(as_of=NOW, since=NOW, limits=[limit])
    for fields in ({"idleness": IDLE}, {"cost": cost}):
        warned = only(notices(status(idle_policy=sleeps, **fields)))
        assert codes(warned)[-1] == "session-kept"
        without = only(notices(status(idle_policy=sleeps, files_kept=False, **fields)))
        assert codes(without)[-1] == "files-lost"


def test_a_warning_of_a_limit_says_that_a_running_cell_may_lose_variables() -> None:
    """Limits wait for no cell, and idle stops have none."""
    limit = Limit(scope="user", kind="usd_per_month", percent=99, stop_at=NOW + 10 * MINUTE)
    running = sentence("kernel-running", name="a.ipynb")
    for idle_policy, cost in (
        (IdlePolicy(then="sleep"), Cost(as_of=NOW, since=NOW, limits=[limit])),
        (IdlePolicy(then="sleep", max_age_seconds=7200), None),
    ):
        busy = Idleness(stop_at=NOW + MINUTE, warn_at=NOW, busy=running)
        found = [*notices(status(idle_policy=idle_policy, idleness=busy, cost=cost))]
        assert codes(found[-1])[-1] == "cell-may-lose-variables"
        assert codes(found[-1]).count("session-kept") == 0


def test_no_notice_promises_files_of_a_home_on_the_instance() -> None:
    warned = only(notices(status(idleness=IDLE, files_kept=False)))
    stopped = only(notices(status(stop=Stop(reason="user"), files_kept=False)))
    assert (codes(warned), codes(stopped)) == (["files-lost"], ["files-not-kept"])


def test_a_server_that_sleeps_is_not_said_to_lose_its_variables() -> None:
    policy = IdlePolicy(then="sleep")
    warned = only(notices(status(idleness=IDLE, idle_policy=policy)))
    assert (warned.title.code, codes(warned)) == ("sleeps", ["session-kept"])
    at = NOW + 2 * MINUTE
    assert codes(only(notices(status(interruption_at=at, idle_policy=policy)))) == ["session-kept"]
    on_instance = only(notices(status(idleness=IDLE, idle_policy=policy, files_kept=False)))
    assert (on_instance.title.code, codes(on_instance)) == ("stops", ["files-lost"])


@pytest.mark.parametrize(
    ("trigger", "title", "detail"),
    [
        ("idle", "session-saving", "session-kept"),
        ("user", "session-saving", "session-kept"),
        ("interruption", "session-moving", "session-continues"),
        ("hardware", "session-moving", "session-continues"),
    ],
)
def test_a_stop_that_saves_the_session_says_where_it_goes(
    trigger: Any, title: str, detail: str
) -> None:
    reason: Any = "interruption" if trigger == "interruption" else "user"
    notice = only(notices(status(stop=Stop(reason=reason, sleep=trigger))))
    assert (notice.title.code, codes(notice)) == (title, [detail])


def test_a_reclaimed_server_that_continues_says_so_from_the_first_second() -> None:
    continues: dict[str, Any] = {"continues": True, "can_sleep": True}
    soon = only(notices(status(interruption_at=NOW + 2 * MINUTE, **continues)))
    assert codes(soon) == ["session-continues-soon"]
    unsaved = continues | {"can_sleep": False}
    soon = only(notices(status(interruption_at=NOW + 2 * MINUTE, **unsaved)))
    assert codes(soon) == ["server-continues-soon"]
    on_instance = continues | {"files_kept": False}
    soon = only(notices(status(interruption_at=NOW + 2 * MINUTE, **on_instance)))
    assert codes(soon) == ["save-now", "files-lost"]


def test_a_notice_that_left_no_time_to_save_still_says_that_the_server_continues() -> None:
    stop = Stop(reason="interruption")
    notice = only(notices(status(stop=stop, continues=True)))
    assert (notice.title.code, codes(notice)) == ("server-moving", ["server-continues"])
    ends = only(notices(status(stop=stop)))
    assert (ends.title.code, codes(ends)) == ("stopping", ["documents-saved"])


def test_a_session_that_was_not_saved_again_says_of_when_it_is() -> None:
    kernel = WokenKernel(path="a.ipynb", kernel_name="python3", state="done", variables=3, later=1)
    first = Wake(
        id="s", slept_at=NOW, trigger="idle", state="done", kernels=[kernel], kernel_count=1
    )
    back = only(notices(status(wake=first)))
    assert (back.level, codes(back)) == ("info", ["session-later"])
    again = only(notices(status(wake=first.model_copy(update={"again": True}))))
    assert (again.level, codes(again)) == ("warning", ["session-older"])
    assert again.id != back.id, "the page has shown that one before"


def test_a_spot_notice_counts_down_and_is_the_only_one() -> None:
    at = NOW + 2 * MINUTE
    for kept, code in ((True, "files-kept"), (False, "files-lost")):
        fields: dict[str, Any] = BUSY | {"interruption_at": at, "files_kept": kept}
        notice = only(notices(status(**fields), hour(0.0)))
        assert (notice.kind, notice.level, notice.until) == ("interruption", "error", at)
        assert codes(notice) == ["save-now", code]
        assert notice.actions == []
        assert only(notices(status(NOW + MINUTE, **fields))) == notice
    assert only(notices(status(interruption_at=at, idleness=IDLE))).kind == "interruption"
    later = only(notices(status(interruption_at=at + MINUTE)))
    assert later.id != only(notices(status(interruption_at=at))).id
    stopped = status(interruption_at=at, stop=Stop(reason="user"))
    assert only(notices(stopped)).kind == "stopping"


def test_a_disk_that_is_nearly_full_is_announced_before_it_is_full() -> None:
    home = DiskUse(kind="home", used_percent=10, inodes_percent=90)
    data = DiskUse(kind="data", used_percent=100, is_writable=False)
    nearly = only(notices(status(disks=[home, data])))
    assert nearly.title == sentence("disk-nearly-full")
    assert nearly.details == [sentence("home-nearly-full")]
    system = DiskUse(kind="system", used_percent=99)
    assert only(notices(status(disks=[home, system]))).id != nearly.id
    assert notices(status(disks=[data, home.model_copy(update={"inodes_percent": 89})])) == []
    full = status(disks=[home], full_disks=[sentence("home-full", gib=1)])
    assert [each.id for each in notices(full)] == ["disk-full"]


def test_gpu_errors_say_what_to_do_and_a_lost_gpu_comes_first() -> None:
    found = notices(
        status(
            undelivered_runs=2,
            full_disks=[
                sentence("home-full", gib=100),
                sentence("folder-bytes", folder="~/data", bytes=10**9),
            ],
            telemetry=machine(
                GpuSample(index=0, name="A100", xid=13, xid_at=NOW),
                GpuSample(index=1, name="A100", lost=True, xid=79),
                GpuSample(index=2, name="A100", ecc_uncorrected=2, ecc_corrected=9),
                GpuSample(index=3, name="A100", ecc_corrected=9, slowed_by=["power"]),
            ),
        )
    )
    assert [(each.level, each.id.split("-")[1]) for each in found[:2]] == [
        ("error", "lost"),
        ("error", "ecc"),
    ]
    assert [each.kind for each in found] == ["gpu", "gpu", "gpu", "disk-full"]
    assert found[2].details == [sentence("xid", number=13)]
    assert found[3].details == [sentence("home-full", gib=100), sentence("results-wait")]


@pytest.mark.parametrize(
    ("xids", "kept"),
    [
        ([13, 31], 31),
        ([79, 13], 79),
        ([63, 79], 79),
        ([94, 45], 94),
        ([79, 48], 48),
        ([13, 999, 94], 999),
    ],
)
def test_no_error_hides_a_more_severe_one(xids: list[int], kept: int) -> None:
    gpu = NvmlGpu(None, 0, None, "A100", "", lambda _: None)
    for minute, xid in enumerate(xids):
        gpu.take_xid(xid, NOW + minute * MINUTE)
    assert gpu.xid == kept
    gpu.take_xid(13, NOW + 90 * MINUTE)
    assert (gpu.xid == 13) == (kept in (31, 94)), "what is history hides nothing"


def test_a_hanging_driver_is_reported_once_beside_known_errors() -> None:
    plate = GpuSample(index=0, name="A100", xid=79, xid_at=NOW)
    silent = Telemetry(at=NOW, gpus=[plate], gpu_error=sentence("gpu-driver-silent"))
    xid, driver = notices(status(telemetry=silent))
    assert (driver.level, xid.level) == ("warning", "error")
    assert codes(driver) == ["gpu-driver-silent", "replace-server-if-it-persists"]
    assert notices(status(NOW + MINUTE, telemetry=silent)) == [xid, driver]
    none = Telemetry(at=NOW, gpu_error=sentence("gpu-driver-not-installed"))
    assert notices(status(telemetry=none)) == [], "the panel says it"
    lost = plate.model_copy(update={"lost": True})
    gone = only(notices(status(telemetry=silent.model_copy(update={"gpus": [lost]}))))
    assert gone.id == "gpu-lost-0"


@pytest.mark.parametrize(
    "gpu", [{"lost": True}, {"ecc_uncorrected": 1}, {"xid": 79}], ids=["lost", "ecc", "xid"]
)
def test_another_instance_is_offered_only_on_managed_servers(
    gpu: dict[str, Any],
) -> None:
    telemetry = machine(GpuSample.model_validate({"index": 0, "name": "A100"} | gpu))
    ours = only(notices(status(telemetry=telemetry)))
    standalone = only(notices(status(telemetry=telemetry, managed=False)))
    assert codes(ours)[-1].startswith("replace-server")
    assert codes(standalone)[-1].startswith("contact-admin")


@pytest.mark.parametrize("xid", [*GRAVITY, 999])
def test_every_xid_is_reported_once_for_each_occurrence(xid: int) -> None:
    first = GpuSample(index=0, name="A100", xid=xid, xid_at=NOW)
    again = GpuSample(index=0, name="A100", xid=xid, xid_at=NOW + MINUTE)
    said = only(notices(status(telemetry=machine(first))))
    assert said.details[0] == sentence("xid", number=xid)
    mild = {13, 31, 43, 45, 63, 68, 94, 109}
    assert said.level == ("warning" if xid in mild else "error")
    assert ("replace-server-if-it-persists" in codes(said)) == (xid not in mild)
    assert said == only(notices(status(NOW + MINUTE, telemetry=machine(first))))
    assert said.id != only(notices(status(telemetry=machine(again)))).id


@pytest.mark.parametrize(("xid", "still_shown"), [(13, False), (63, False), (79, True)])
def test_a_past_error_is_dropped_after_an_hour(xid: int, still_shown: bool) -> None:
    telemetry = machine(GpuSample(index=0, name="A100", xid=xid, xid_at=NOW))
    assert notices(status(NOW + 59 * MINUTE, telemetry=telemetry))
    assert bool(notices(status(NOW + 61 * MINUTE, telemetry=telemetry))) == still_shown


def limit(**changes: Any) -> Limit:
    values: dict[str, Any] = {
        "scope": "group",
        "name": "lab",
        "kind": "usd_per_month",
        "percent": 80,
        "threshold": 75,
        "used": 160,
        "limit": 200,
        "stops": True,
    }
    return Limit(**values | changes)


def limited(**changes: Any) -> Cost:
    return Cost(as_of=NOW, since=NOW, limits=[limit(**changes)])


@pytest.mark.parametrize(
    ("threshold", "level"), [(0, None), (25, "info"), (75, "info"), (100, "warning")]
)
def test_a_notice_appears_at_each_share_of_a_limit(threshold: int, level: str | None) -> None:
    found = notices(status(cost=limited(threshold=threshold)))
    assert [each.level for each in found] == ([level] if level else [])
    for notice in found:
        kind = "usd_per_month"
        amount = sentence("limit-amount", kind=kind, used=160.0, limit=200.0, at_least=False)
        assert notice.details == [amount]
        assert f"-{threshold}-" in notice.id


def test_each_share_is_a_notice_of_its_own() -> None:
    ids = [notices(status(cost=limited(threshold=each)))[0].id for each in (25, 50, 75, 100)]
    ids += [notices(status(cost=limited(name="other")))[0].id]
    assert len(set(ids)) == 5


def test_a_share_is_news_again_once_the_limit_has_renewed() -> None:
    """By the hub's calendar, in which a month may end before or after UTC's."""
    in_december = datetime(2026, 12, 1, 0, 30, tzinfo=UTC)
    of_december, of_january = date(2026, 12, 1), date(2027, 1, 1)
    seen = [
        notices(status(now, cost=limited(renews=renews)))[0].id
        for now, renews in [(NOW, of_december), (in_december, of_december), (NOW, of_january)]
    ]
    assert seen[0] == seen[1] != seen[2]


def test_a_share_of_a_window_is_news_when_it_is_passed_again_not_when_more_is_left() -> None:
    days = [date(2026, 11, day) for day in (18, 21, 22)]
    window = {"kind": "usd_per_window", "days": 7}
    seen = [
        notices(status(cost=limited(passed_on=passed, renews=renews, **window)))[0].id
        for passed, renews in [(days[0], days[1]), (days[0], days[2]), (days[1], days[2])]
    ]
    assert seen[0] == seen[1] != seen[2]


def test_a_stop_that_is_announced_for_another_time_is_another_notice() -> None:
    stops = [notices(status(cost=limited(stop_at=NOW + n * MINUTE)))[0].id for n in (5, 5, 65)]
    assert stops[0] == stops[1] != stops[2]


def test_a_forecast_is_shown_until_the_limit_is_used_up() -> None:
    [found] = notices(status(cost=limited(reached_at=NOW + MINUTE)))
    assert found.details[-1] == sentence("limit-forecast", at=(NOW + MINUTE).timestamp())
    [used_up] = notices(status(cost=limited(reached_at=NOW, threshold=100)))
    assert "limit-forecast" not in {each.code for each in used_up.details}


def test_an_announced_stop_says_when_and_takes_the_place_of_the_share() -> None:
    [found] = notices(status(cost=limited(stop_at=NOW + 5 * MINUTE)))
    assert (found.kind, found.title, found.until) == ("budget", sentence("stops"), NOW + 5 * MINUTE)
    assert notices(status(cost=limited(), stop=Stop(reason="budget")))[0].kind == "stopping"


def test_each_of_several_limits_has_its_notice_beside_the_first_stop() -> None:
    stop_at = NOW + 5 * MINUTE
    several = [
        limit(stop_at=stop_at),
        limit(scope="hub", name="", stop_at=stop_at + MINUTE),
        limit(scope="user", name="ann", threshold=50),
        limit(scope="project", name="nlp", threshold=100),
        limit(scope="user", name="ann", kind="credit_usd", threshold=0),
    ]
    found = notices(status(cost=Cost(as_of=NOW, since=NOW, limits=several)))
    assert [each.id.split("-")[:4] for each in found] == [
        ["limit", "stop", f"{stop_at.timestamp():.0f}"],
        ["limit", "100", "project", "nlp"],
        ["limit", "50", "user", "ann"],
    ]


def test_more_than_a_limit_allows_at_once_is_a_warning_that_stops_nothing() -> None:
    exceeded = {"kind": "servers", "used": 3, "limit": 2, "percent": 150, "threshold": 100}
    [found] = notices(status(cost=limited(**exceeded, stops=False)))
    assert (found.level, found.title.code) == ("warning", "limit-exceeded")
    assert found.details == [
        sentence("limit-runs", kind="servers", used=3.0, limit=2.0),
        sentence("limit-no-start"),
    ]


def test_what_all_users_spend_together_is_not_shown() -> None:
    [found] = notices(status(cost=limited(scope="hub", name="", used=None, limit=None)))
    assert found.title == sentence("limit-share", percent=75, scope="hub", name="")
    assert found.details == []


@pytest.mark.parametrize("cost", [None, Cost(as_of=NOW, since=NOW, month_usd=500)])
def test_without_a_limit_there_is_no_notice_of_one(cost: Cost | None) -> None:
    assert notices(status(cost=cost)) == []


def hour(*use: float | None, gpus: int = 1) -> History:
    steps = list(use) * (720 // len(use))
    one = [GpuHistory(index=index, use_percent=steps) for index in range(gpus)]
    return History(step_seconds=5, at=list(range(len(steps))), gpus=one)


BUSY: dict[str, Any] = {
    "idleness": Idleness(busy_because="train.ipynb is running"),
    "telemetry": machine(GpuSample(index=0, name="T4", use_percent=0)),
    "cost": Cost(as_of=NOW, since=NOW),
}


def test_an_hour_without_the_gpu_suggests_a_smaller_profile_once_for_each_server() -> None:
    found = only(notices(status(**BUSY), hour(0.0, gpus=2)))
    assert (found.kind, found.level) == ("smaller-profile", "info")
    cost = Cost(as_of=NOW + MINUTE, since=NOW, month_usd=1)
    later: dict[str, Any] = {"now": NOW + MINUTE, "cost": cost}
    assert only(notices(status(**BUSY | later), hour(0.0, gpus=2))) == found
    next_server: dict[str, Any] = {"cost": Cost(as_of=NOW, since=NOW + MINUTE)}
    assert only(notices(status(**BUSY | next_server), hour(0.0, gpus=2))).id != found.id


@pytest.mark.parametrize(
    ("fields", "history"),
    [
        (BUSY, None),
        (BUSY, hour(0.0, 0.0, 0.0, 30.0)),
        (BUSY, hour(0.0, None)),
        (BUSY, History(step_seconds=5, at=[1.0], gpus=[GpuHistory(index=0, use_percent=[0.0])])),
        (BUSY | {"telemetry": machine()}, hour(0.0)),
        (BUSY | {"cost": None}, hour(0.0)),
        (BUSY | {"idleness": Idleness(idle_since=NOW - MINUTE)}, hour(0.0)),
    ],
    ids=["unknown", "used", "half measured", "just begun", "no GPU", "not paid for", "idle anyway"],
)
def test_a_used_or_unknown_gpu_suggests_nothing(
    fields: dict[str, Any], history: History | None
) -> None:
    assert notices(status(**fields), history) == []


@given(st.data())
def test_ids_are_unique_and_the_most_severe_comes_first(data: st.DataObject) -> None:
    xids = st.none() | st.sampled_from([*GRAVITY, 7])
    gpus = [
        GpuSample(
            index=index,
            name="A100",
            xid=data.draw(xids),
            lost=data.draw(st.booleans()),
            ecc_uncorrected=data.draw(st.none() | st.integers(0, 3)),
        )
        for index in range(data.draw(st.integers(0, 8)))
    ]
    found = notices(
        status(
            idleness=data.draw(st.sampled_from([None, IDLE])),
            stop=data.draw(st.sampled_from([None, Stop(reason="admin")])),
            interruption_at=data.draw(st.none() | st.just(NOW + MINUTE)),
            files_kept=data.draw(st.booleans()),
            telemetry=machine(*gpus),
            cost=limited(threshold=data.draw(st.sampled_from([0, 50, 100]))),
        )
    )
    assert len({each.id for each in found}) == len(found)
    levels = [["error", "warning", "info"].index(each.level) for each in found]
    assert levels == sorted(levels)


class Recorder:
    """What Jupyter Server's event logger is to us, with its own check of the schema."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self.emitted: list[Any] = []

    def register_event_schema(self, found: dict[str, Any]) -> None:
        jsonschema.Draft7Validator.check_schema(found)
        self.schemas[found["$id"]] = found

    def emit(self, *, schema_id: str, data: Any) -> None:
        jsonschema.validate(data, self.schemas[schema_id])
        self.emitted.append(NoticesEvent.model_validate(data))


def test_notices_are_sent_on_change_and_once_a_minute() -> None:
    recorder, clock = Recorder(), [1000.0]
    events = NoticeEvents(recorder, lambda: clock[0])
    assert schema()["$id"] == SCHEMA_ID in recorder.schemas
    warned = notices(status(idleness=IDLE))
    second = RESEND_SECONDS / 60

    def sent_in(seconds: float, found: list[Notice]) -> list[int]:
        """How many notices each event had, that was emitted in these seconds."""
        del recorder.emitted[:]
        for _ in range(round(seconds)):
            clock[0] += second
            events.tell(found, NOW)
        return [len(each.notices) for each in recorder.emitted]

    assert sent_in(300, []) == []
    assert sent_in(59, warned) == [1]
    assert sent_in(61, warned) == [1], "sent again"
    assert recorder.emitted[0].notices == warned
    assert sent_in(3600, warned) == 4 * [1], "five times in all, and then silence"
    assert sent_in(1, []) == [0]
    assert sent_in(3600, []) == 5 * [0], "that nothing holds any more as well"
    assert sent_in(1, warned) == [1]


def test_an_admins_message_is_one_notice_until_it_is_withdrawn() -> None:
    sent = AdminMessage(id="1", text="Please stop by 18:00")
    shown = only(notices(status(message=sent)))
    assert (shown.kind, shown.id, shown.title.code) == ("message", "message-1", "admin-message")
    assert shown.details == [sentence("message-text", text="Please stop by 18:00")]
    assert notices(status(message=None)) == []


# --- spot capacity, and what came back of a session ------------------------------------------


def woken(state: str = "done", **changes: Any) -> WokenKernel:
    given: dict[str, Any] = {"path": "a.ipynb", "kernel_name": "python3", "variables": 3}
    return WokenKernel(state=state, **given | {"expected": 4} | changes)


def wake(*kernels: WokenKernel, state: str = "done") -> Wake:
    return Wake(
        id="s1",
        slept_at=NOW - 60 * MINUTE,
        trigger="idle",
        state=state,
        kernels=list(kernels),
        kernel_count=len(kernels),
    )


def test_a_rebalance_recommendation_is_an_early_warning() -> None:
    at = NOW - MINUTE
    found = only(notices(status(rebalance_at=at)))
    assert (found.kind, found.level, found.title.code) == ("rebalance", "info", "rebalance")
    with_notice = notices(status(rebalance_at=at, interruption_at=NOW + MINUTE))
    assert [each.kind for each in with_notice] == ["interruption"], "the warning came true"


@pytest.mark.parametrize(
    ("code", "changes", "title", "details", "actions"),
    [
        ("instance-retirement", {"continues": True}, "aws-stops", "continues-before", ["continue"]),
        ("instance-stop", {}, "aws-stops", "sleeps-before", ["continue"]),
        ("system-reboot", {"can_sleep": False}, "aws-reboots", "stops-before", []),
        ("system-maintenance", {}, "aws-maintains", "unreachable-briefly", []),
    ],
)
def test_what_aws_has_announced_is_said_with_what_follows(
    code: Any, changes: dict[str, Any], title: Any, details: str, actions: list[str]
) -> None:
    at = NOW + 9 * 24 * 60 * MINUTE
    event = ScheduledEvent(code=code, not_before=at)
    given: dict[str, Any] = {"scheduled_event": event, "can_sleep": True} | changes
    shown = only(notices(status(**given)))
    assert (shown.kind, shown.title) == ("scheduled-event", sentence(title, at=at.timestamp()))
    assert (codes(shown), shown.actions) == ([details], actions)
    assert shown.level == ("info" if code == "system-maintenance" else "warning")
    reclaimed = notices(status(**given, interruption_at=NOW + MINUTE))
    assert [each.kind for each in reclaimed] == ["interruption"]


def test_a_session_that_is_back_says_what_is_not() -> None:
    whole = only(notices(status(wake=wake(woken(later=1)))))
    assert (whole.level, whole.title.params) == ("info", {"count": 4, "kernels": 1})
    assert codes(whole) == ["session-later"]
    gone = woken("failed", variables=0, code="notebook-gone")
    part = only(notices(status(wake=wake(woken(lost_count=1), gone))))
    assert (part.level, part.title.params) == ("warning", {"count": 3, "kernels": 1})
    assert part.details == [sentence("session-lost", count=5)]
    old = only(notices(status(wake=wake(woken(code="busy", values_of=NOW)))))
    assert (old.level, old.details) == ("warning", [sentence("session-older", at=NOW.timestamp())])
    nothing = only(notices(status(wake=wake(gone))))
    assert nothing.title.code == "session-not-back"


def test_a_cell_that_was_interrupted_is_said_when_the_session_is_back() -> None:
    path = "deep/a-very-long-name-of-a-notebook-2.ipynb"
    cell = woken(path=path, interrupted_cell="c", lost_count=1)
    back = only(notices(status(wake=wake(woken(), cell))))
    assert (back.level, back.actions) == ("warning", ["cell", "panel"])
    assert back.title == sentence("session-cell-interrupted", name="a-very-lo…-2.ipynb")
    assert codes(back) == ["session-lost"]
    older = woken(path=path, interrupted_cell="", values_of=NOW, code="busy")
    no_cell = only(notices(status(wake=wake(older))))
    assert codes(no_cell) == ["session-values-older"]
    assert no_cell.title.code == "session-work-interrupted", "a widget is busy without a cell"
    console = woken(path="", interrupted_cell="")
    assert only(notices(status(wake=wake(console)))).title.code == "session-back"
    gone = woken("failed", variables=0, code="notebook-gone", interrupted_cell="c")
    assert only(notices(status(wake=wake(gone)))).title.code == "session-not-back"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"continues": True, "can_sleep": True}, ["cell-interrupted-soon", "session-moves-soon"]),
        ({"continues": True}, ["cell-interrupted-soon", "server-moves-soon"]),
        ({}, ["cell-interrupted-soon", "save-now"]),
        ({"idle_policy": IdlePolicy(then="sleep")}, ["cell-interrupted-soon", "session-kept"]),
        ({"files_kept": False}, ["save-now", "files-lost"]),
    ],
)
def test_a_notice_of_an_interruption_names_the_notebook_whose_cell_it_ends(
    fields: dict[str, Any], expected: list[str]
) -> None:
    busy = sentence("kernel-running", name="train.ipynb")
    idleness = Idleness(busy=busy, busy_because="train.ipynb is running")
    soon = only(notices(status(interruption_at=NOW + 2 * MINUTE, idleness=idleness, **fields)))
    assert codes(soon) == expected
    if "cell-interrupted-soon" in expected:
        assert soon.details[0].params == {"name": "train.ipynb"}


def test_a_session_that_is_still_waking_is_no_news() -> None:
    assert notices(status(wake=wake(woken("restoring"), state="waking"))) == []


def price(usd_per_hour: float, market: Market = Market.SPOT) -> HourlyPrice:
    return HourlyPrice(usd_per_hour=usd_per_hour, market=market)


def change(why: Any, before: HourlyPrice, now: HourlyPrice) -> Cost:
    found = PriceChange(why=why, at=NOW, before=before, now=now)
    return Cost(as_of=NOW, since=NOW, price_change=found, on_demand_usd_per_hour=0.526)


def test_a_server_that_moved_to_another_price_says_both() -> None:
    cost = change("move", price(0.2), price(0.526, Market.ON_DEMAND))
    found = only(notices(status(cost=cost)))
    assert (found.kind, found.level, found.title.code) == ("price", "warning", "price-moved")
    assert found.title.params == {
        "now": 0.526,
        "market": "on-demand",
        "before": 0.2,
        "before_market": "spot",
    }
    assert codes(found) == ["price-times", "pay-less"]
    assert found.details[0].params == {"times": 2.6}
    assert found.actions[0] == "continue"
    cheaper = only(notices(status(cost=change("move", price(0.526), price(0.2)))))
    assert (cheaper.level, codes(cheaper)) == ("info", [])


def test_a_spot_price_that_rises_is_one_notice_until_it_rises_again() -> None:
    cost = change("rise", price(0.2), price(0.3))
    found = only(notices(status(cost=cost)))
    assert (found.title.code, codes(found)) == ("price-rose", ["price-on-demand", "pay-less"])
    assert only(notices(status(NOW + timedelta(hours=9), cost=cost))).id == found.id
    later = PriceChange(why="rise", at=NOW + timedelta(hours=1), before=price(0.3), now=price(0.4))
    again = cost.model_copy(update={"price_change": later})
    assert only(notices(status(cost=again))).id != found.id
    assert notices(status(cost=Cost(as_of=NOW, since=NOW))) == []


def test_a_start_that_cost_more_than_asked_for_says_so() -> None:
    cost = change("start", price(0.2), price(0.526, Market.ON_DEMAND))
    assert only(notices(status(cost=cost))).title.code == "price-started"


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("free-hour", "not-charged"),
        ("earlier-end", "ended-earlier"),
        ("correction", "price-corrected"),
    ],
)
def test_an_amount_that_falls_is_explained(why: Any, code: str) -> None:
    cost = Cost(as_of=NOW, since=NOW, credits=[Credit(usd=0.12, why=why, at=NOW)])
    found = only(notices(status(cost=cost)))
    assert (found.kind, found.title.code, codes(found)) == ("credit", "today-is-less", [code])
    assert found.title.params == {"usd": 0.12}
    assert notices_for_guest([found]) == [], "what its owner has spent"


def test_an_amount_that_falls_by_less_than_a_cent_interrupts_nobody() -> None:
    credit = Credit(usd=0.002, why="free-hour", at=NOW)
    assert notices(status(cost=Cost(as_of=NOW, since=NOW, credits=[credit]))) == []

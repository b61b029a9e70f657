"""What a person is told, and for how long: by its id each notice is told once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.notebook.notice_events import SCHEMA_ID, NoticeEvents, schema
from ec2spawner.notebook.notices import OF_THE_MACHINE, OF_THE_PROGRAM, notices
from ec2spawner.telemetry.nvml import APPLICATION_XIDS
from ec2spawner.wire import (
    Cost,
    GpuHistory,
    GpuSample,
    History,
    Idleness,
    IdlePolicy,
    NotebookStatus,
    Notice,
    NoticesEvent,
    Stop,
    Telemetry,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def status(now: datetime = NOW, **fields: Any) -> NotebookStatus:
    return NotebookStatus(
        **{"now": now, "managed": True, "agent_connected": True, "idle_policy": IdlePolicy()}
        | fields
    )


def idle(since: datetime, stop_at: datetime, warn_at: datetime) -> Idleness:
    return Idleness(idle_since=since, stop_at=stop_at, warn_at=warn_at, sentence="Nothing works.")


def machine(*gpus: GpuSample) -> Telemetry:
    return Telemetry(at=NOW, gpu_source="nvml", gpus=list(gpus))


def only(found: list[Notice]) -> Notice:
    [notice] = found
    return notice


IDLE = idle(NOW - 50 * MINUTE, NOW + 10 * MINUTE, NOW)


def test_nothing_is_said_while_nothing_is_to_be_said() -> None:
    assert notices(status()) == []
    assert notices(status(telemetry=machine(GpuSample(index=0, name="T4", use_percent=3)))) == []


def test_the_idle_warning_comes_with_its_time_and_goes_with_work() -> None:
    assert notices(status(NOW - MINUTE, idleness=IDLE)) == []
    warning = only(notices(status(idleness=IDLE)))
    assert (warning.kind, warning.level, warning.until) == ("idle", "warning", IDLE.stop_at)
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
def test_what_cannot_be_extended_offers_no_extension(policy: IdlePolicy, found: Idleness) -> None:
    warning = only(notices(status(idle_policy=policy, idleness=found)))
    assert warning.actions == ["stop"]


def test_a_stop_takes_the_place_of_the_warning() -> None:
    told = only(notices(status(idleness=IDLE, stop=Stop(reason="idle", message="Nothing worked"))))
    assert (told.kind, told.level) == ("stopping", "warning")
    assert told.message.startswith("Nothing worked. Files are kept")
    interrupted = status(stop=Stop(reason="interruption"))
    assert only(notices(interrupted)).kind == "interruption"
    long = only(notices(status(stop=Stop(reason="failed", message="x" * 500))))
    assert long.message.endswith("is not.")


def test_nothing_is_promised_of_a_home_that_ends_with_its_machine() -> None:
    for fields in ({"idleness": IDLE}, {"stop": Stop(reason="user")}):
        told = only(notices(status(**fields, files_kept=False)))
        assert "Files on this machine are not kept" in told.message


def test_gpu_errors_say_what_to_do_and_a_lost_gpu_comes_first() -> None:
    found = notices(
        status(
            disk_full="The home is full.",
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
    assert "Xid 13" in found[2].message
    assert "Restart its kernel" in found[2].message


def test_what_counts_as_a_programs_own_error_is_no_fault_of_the_machine() -> None:
    assert OF_THE_PROGRAM.keys() >= APPLICATION_XIDS


@pytest.mark.parametrize(
    "gpu", [{"lost": True}, {"ecc_uncorrected": 1}, {"xid": 79}], ids=["lost", "ecc", "xid"]
)
def test_another_machine_is_offered_only_where_servers_get_theirs_from_us(
    gpu: dict[str, Any],
) -> None:
    telemetry = machine(GpuSample.model_validate({"index": 0, "name": "A100"} | gpu))
    ours = only(notices(status(telemetry=telemetry)))
    alone = only(notices(status(telemetry=telemetry, managed=False)))
    assert ours.message.endswith("start a new server to get another machine.")
    assert alone.message.endswith("tell whoever looks after this machine.")


@pytest.mark.parametrize("xid", [*OF_THE_PROGRAM, *OF_THE_MACHINE, 999])
def test_every_xid_is_told_once_for_each_time_that_it_came(xid: int) -> None:
    first = GpuSample(index=0, name="A100", xid=xid, xid_at=NOW)
    again = GpuSample(index=0, name="A100", xid=xid, xid_at=NOW + MINUTE)
    said = only(notices(status(telemetry=machine(first))))
    assert f"Xid {xid}" in said.message
    assert (said.level == "warning") == (xid in OF_THE_PROGRAM)
    assert said == only(notices(status(NOW + MINUTE, telemetry=machine(first))))
    assert said.id != only(notices(status(telemetry=machine(again)))).id


@pytest.mark.parametrize(("xid", "still_told"), [(13, False), (79, True)])
def test_an_error_of_a_program_is_history_after_an_hour(xid: int, still_told: bool) -> None:
    telemetry = machine(GpuSample(index=0, name="A100", xid=xid, xid_at=NOW))
    assert notices(status(NOW + 59 * MINUTE, telemetry=telemetry))
    assert bool(notices(status(NOW + 61 * MINUTE, telemetry=telemetry))) == still_told


@pytest.mark.parametrize(
    ("spent", "level"), [(159.9, None), (160.0, "info"), (199.0, "info"), (200.0, "warning")]
)
def test_the_budget_is_told_at_its_thresholds(spent: float, level: str | None) -> None:
    cost = Cost(as_of=NOW, since=NOW, month_usd=spent, budget_usd=200)
    found = notices(status(cost=cost))
    assert [each.level for each in found] == ([level] if level else [])
    if found:
        assert "200.00 USD" in found[0].message
        assert "estimate" in found[0].message
        assert found[0].id.endswith("2026-11")


@pytest.mark.parametrize("cost", [None, Cost(as_of=NOW, since=NOW, month_usd=500)])
def test_without_a_budget_there_is_none_to_tell_of(cost: Cost | None) -> None:
    assert notices(status(cost=cost)) == []


def hour(*use: float | None, gpus: int = 1) -> History:
    steps = list(use) * (720 // len(use))
    one = [GpuHistory(index=index, use_percent=steps) for index in range(gpus)]
    return History(step_seconds=5, at=list(range(len(steps))), gpus=one)


BUSY = {
    "idleness": Idleness(busy_because="train.ipynb is running"),
    "telemetry": machine(GpuSample(index=0, name="T4", use_percent=0)),
}


def test_an_hour_without_the_gpu_suggests_a_smaller_profile() -> None:
    found = only(notices(status(**BUSY), hour(0.0, gpus=2)))
    assert (found.kind, found.level) == ("smaller-profile", "info")


@pytest.mark.parametrize(
    ("fields", "history"),
    [
        (BUSY, None),
        (BUSY, hour(0.0, 0.0, 0.0, 30.0)),
        (BUSY, hour(0.0, None)),
        (BUSY, History(step_seconds=5, at=[1.0], gpus=[GpuHistory(index=0, use_percent=[0.0])])),
        (BUSY | {"telemetry": machine()}, hour(0.0)),
        (BUSY | {"managed": False}, hour(0.0)),
        (BUSY | {"idleness": Idleness(idle_since=NOW - MINUTE)}, hour(0.0)),
    ],
    ids=["unknown", "used", "half measured", "just begun", "no GPU", "alone", "idle anyway"],
)
def test_a_used_or_unknown_gpu_suggests_nothing(
    fields: dict[str, Any], history: History | None
) -> None:
    assert notices(status(**fields), history) == []


@given(st.data())
def test_ids_are_unique_and_the_gravest_comes_first(data: st.DataObject) -> None:
    xids = st.none() | st.sampled_from([*OF_THE_PROGRAM, *OF_THE_MACHINE, 7])
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
            telemetry=machine(*gpus),
            cost=Cost(as_of=NOW, since=NOW, month_usd=data.draw(st.floats(0, 300)), budget_usd=200),
        )
    )
    assert len({each.id for each in found}) == len(found)
    levels = [["error", "warning", "info"].index(each.level) for each in found]
    assert levels == sorted(levels)
    # JupyterLab cuts a notification after 140 characters; " in 59 minutes" is the browser's.
    assert all(len(each.title) + len(each.message) <= 140 - 16 * bool(each.until) for each in found)


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


def test_an_event_is_emitted_when_the_list_changes_and_only_then() -> None:
    recorder = Recorder()
    events = NoticeEvents(recorder)
    assert schema()["$id"] == SCHEMA_ID in recorder.schemas
    events.tell([], NOW)
    assert recorder.emitted == []
    told = notices(status(idleness=IDLE))
    for minutes in range(3):
        events.tell(told, NOW + minutes * MINUTE)
    events.tell([], NOW + 3 * MINUTE)
    assert [len(each.notices) for each in recorder.emitted] == [1, 0]
    assert recorder.emitted[0].notices == told

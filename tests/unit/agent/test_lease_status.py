"""What the agent knows of a lease: observations that grow old, news that is worth a call."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ec2spawner.agent.hub.client import HubClient
from ec2spawner.agent.lease_run import LeaseRun
from ec2spawner.agent.lease_status import OBSERVATION_LIMIT, LeaseStatus
from ec2spawner.agent.metadata.identity import Identity
from ec2spawner.agent.notebook_server.process import NotebookProcess
from ec2spawner.agent.settings import NotebookUser, Settings, SettingsError
from ec2spawner.agent.user_requests import extension_sentence
from ec2spawner.core.backoff import Backoff
from ec2spawner.core.idle.activity import Reading
from ec2spawner.notebook.status.notices import notices
from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.wire import (
    AdminMessage,
    Cost,
    ExtendResponse,
    HeartbeatResponse,
    IdlePolicy,
    KernelState,
    Limit,
    NotebookStatus,
    Notice,
    Observation,
    Stop,
    sentence,
)
from tests.unit.agent.lease_grant import lease_grant

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
POLICY = IdlePolicy(server_seconds=3600)
GRANT = lease_grant(POLICY)


class Clock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def status(clock: Clock) -> LeaseStatus:
    sampler = Sampler(find_gpus(), Processes(os.getpid()))
    return LeaseStatus(GRANT, "g4dn.xlarge", sampler, now=clock.now, monotonic=clock.monotonic)


def busy(clock: Clock, state: str = "busy") -> Observation:
    kernel = KernelState(id="k", execution_state=state, last_activity=clock.now())
    return Observation(at=clock.now(), kernels=[kernel])


def test_start_and_end_of_activity_are_news_once(status: LeaseStatus, clock: Clock) -> None:
    assert not status.assess()
    status.observe(busy(clock))
    assert status.assess()
    assert status.heartbeat(0).idle_since is None
    assert not status.assess()
    clock.seconds += 10
    status.observe(busy(clock, "idle"))
    assert status.assess()
    assert status.heartbeat(0).idle_since == clock.now()
    assert not status.assess()


def test_a_heartbeat_has_the_current_state(status: LeaseStatus, clock: Clock) -> None:
    status.assess()
    clock.seconds += 10
    status.observe(busy(clock))
    assert status.heartbeat(0).idle_since is None


class FailingSampler(Sampler):
    """A machine whose figures cannot be had for a while."""

    fails = False

    def readings(self) -> tuple[list[Reading], list[Reading]]:
        if self.fails:
            raise RuntimeError("as the test says")
        return super().readings()


async def test_a_failed_check_is_followed_by_another(tmp_path: Path) -> None:
    user = NotebookUser("me", os.getuid(), os.getgid(), (), tmp_path, "/bin/sh")
    settings = Settings(
        "http://hub", "", False, tmp_path, tmp_path, tmp_path, user, tmp_path, ("true",), None
    )
    sampler = FailingSampler(find_gpus(), Processes(os.getpid()))
    policy = POLICY.model_copy(update={"server_seconds": 2})
    grant = GRANT.model_copy(update={"idle": policy})
    identity = Identity("{}", "", "i-0", "g4dn.xlarge", "127.0.0.1")
    async with aiohttp.ClientSession() as http:
        hub = HubClient("http://hub", http)
        notebook = NotebookProcess(user, tmp_path / "log", {})
        run = LeaseRun(settings, identity, grant, notebook, sampler, hub, http)
        sampler.fails = True
        ticking = asyncio.create_task(run._tick())
        await asyncio.sleep(0.5)
        sampler.fails = False
        run._status.observe(Observation(at=datetime.now(UTC), last_input=datetime.now(UTC)))
        async with asyncio.timeout(90):
            while not run._heartbeat._news.is_set():
                await asyncio.sleep(0.05)
        assert not ticking.done()
        ticking.cancel()


def test_input_is_news_only_when_the_deadline_is_near(status: LeaseStatus, clock: Clock) -> None:
    status.heartbeat(0)
    clock.seconds += 600
    status.observe(Observation(at=clock.now(), last_input=clock.now()))
    assert not status.assess()
    clock.seconds += 2920
    status.observe(Observation(at=clock.now(), last_input=clock.now()))
    assert status.assess()


def test_reports_of_a_silent_extension_expire(status: LeaseStatus, clock: Clock) -> None:
    status.observe(busy(clock))
    clock.seconds += OBSERVATION_LIMIT.total_seconds()
    status.assess()
    assert status.idleness.idle_since is None
    last_seen = clock.now()
    clock.seconds += 1
    status.assess()
    assert status.idleness.idle_since == last_seen


def test_the_hubs_response_is_applied(status: LeaseStatus, clock: Clock) -> None:
    cost = Cost(usd=None, usd_per_hour=None, as_of=NOW, since=NOW)
    until = clock.now() + timedelta(hours=4)
    status.learn(
        HeartbeatResponse(
            state=7,
            cost=cost,
            idle=IdlePolicy(server_seconds=60),
            extended_until=until,
            stop=Stop(reason="user"),
            message=AdminMessage(id="1", text="Please stop by 18:00"),
        )
    )
    assert status.heartbeat(10).state_seen == 7
    state = status.state()
    assert state.message == AdminMessage(id="1", text="Please stop by 18:00")
    assert state.idleness.stop_at == until
    assert state.cost == cost
    assert state.stop.reason == "user"
    assert status.is_extended()
    clock.seconds += 5 * 3600
    assert not status.is_extended()
    assert status.idle_seconds() == 5 * 3600


def continued(clock: Clock, idle_seconds: float) -> LeaseStatus:
    """Of a server that had been idle for so long when it left its last instance."""
    sampler = Sampler(find_gpus(), Processes(os.getpid()))
    grant = GRANT.model_copy(update={"idle_seconds": idle_seconds})
    status = LeaseStatus(grant, "g4dn.xlarge", sampler, now=clock.now, monotonic=clock.monotonic)
    status.begin()
    return status


def woken(clock: Clock, state: str, *, waking: bool) -> Observation:
    return busy(clock, state).model_copy(update={"waking": waking})


def test_kernels_that_wake_do_not_restart_the_idle_time(clock: Clock) -> None:
    status = continued(clock, 1500)
    for state in ("starting", "busy", "busy"):
        clock.seconds += 20
        status.observe(woken(clock, state, waking=True))
        status.assess()
        assert status.idle_seconds() == pytest.approx(1500 + clock.seconds - 1000)
    clock.seconds += 5
    status.observe(woken(clock, "idle", waking=False))
    status.assess()
    assert status.idle_seconds() == pytest.approx(1565)

    clock.seconds += 60
    status.observe(busy(clock, "idle"))  # with a result just now
    status.assess()
    assert status.idle_seconds() == 0.0


def test_who_works_while_a_session_wakes_is_not_idle(clock: Clock) -> None:
    status = continued(clock, 1500)
    clock.seconds += 20
    seen = woken(clock, "busy", waking=True)
    status.observe(seen.model_copy(update={"last_input": clock.now()}))
    status.assess()
    assert status.idle_seconds() == 0.0

    clock.seconds += 20
    status.observe(woken(clock, "busy", waking=False))  # a cell of the user's own
    status.assess()
    assert status.heartbeat(0).idle_since is None


def noticed(status: LeaseStatus, clock: Clock) -> list[Notice]:
    """What the browser is notified of: it saves documents at once, and again before `until`."""
    state = status.state()
    shown = NotebookStatus(
        managed=True,
        agent_connected=True,
        now=clock.now(),
        cost=state.cost,
        idle_policy=state.idle_policy,
        idleness=state.idleness,
        keep=state.keep,
    )
    return notices(shown)


def answer(clock: Clock, **fields: Any) -> HeartbeatResponse:
    cost = Cost(as_of=NOW, since=NOW, limits=fields.pop("limits", []))
    return HeartbeatResponse(state=1, cost=cost, idle=POLICY, **fields)


def test_keep_moves_the_stop_and_the_notice_before_which_documents_are_saved(
    status: LeaseStatus, clock: Clock
) -> None:
    stop_at = clock.now() + timedelta(seconds=3600)
    clock.seconds += 3600 - 60
    status.assess()
    [warning] = noticed(status, clock)
    assert (warning.until, warning.actions) == (stop_at, ["keep", "stop"])
    until = next(each.until for each in status.state().keep if each.changes)
    status.learn(answer(clock, extended_until=until))
    assert status.idleness.stop_at == until
    assert noticed(status, clock) == [], "it is withdrawn, and with it the save before its end"
    clock.seconds = (until - NOW).total_seconds() - 60
    status.assess()
    [later] = noticed(status, clock)
    assert later.until == until
    assert later.id != warning.id, "documents are saved again"


def test_the_page_learns_who_keeps_the_server_on(status: LeaseStatus, clock: Clock) -> None:
    until = clock.now() + timedelta(hours=5)
    status.learn(answer(clock, extended_until=until, extended_by="ops"))
    assert (status.state().extended_until, status.state().extended_by) == (until, "ops")
    status.learn(answer(clock, extended_until=until))
    assert status.state().extended_by == ""


def test_a_stop_by_a_limit_is_not_extended_and_says_so(status: LeaseStatus, clock: Clock) -> None:
    stop_at = clock.now() + timedelta(minutes=10)
    mild = Limit(scope="user", kind="usd_per_month", percent=76, threshold=75)
    stops = mild.model_copy(update={"scope": "group", "name": "lab", "stop_at": stop_at})
    assert any(each.changes for each in status.state().keep)
    status.learn(answer(clock, limits=[mild, stops]))
    assert not any(each.changes for each in status.state().keep)
    [stop, _] = noticed(status, clock)
    assert (stop.until, stop.actions) == (stop_at, ["panel", "stop"])
    assert stop.details[0] == sentence("limit-stops", scope="group", name="lab")
    limit = status.stopping_limit()
    assert limit == stops
    later = ExtendResponse(extended_until=stop_at + timedelta(hours=1))
    said = sentence("limit-not-extended", scope="group", name="lab", at=stop_at.timestamp())
    assert extension_sentence(later, limit) == said
    sooner = ExtendResponse(extended_until=stop_at - timedelta(minutes=1), bounded=True)
    assert extension_sentence(sooner, limit) == sentence("extension-bounded")
    assert extension_sentence(later, None) is None


def test_a_spot_notice_reaches_hub_and_notebook(status: LeaseStatus, clock: Clock) -> None:
    assert (status.heartbeat(0).interruption_at, status.state().interruption_at) == (None, None)
    status.interruption_at = at = clock.now() + timedelta(minutes=2)
    assert (status.heartbeat(0).interruption_at, status.state().interruption_at) == (at, at)


def test_the_oldest_age_is_known_without_a_hub(status: LeaseStatus, clock: Clock) -> None:
    assert not status.is_too_old()
    status.policy = IdlePolicy(max_age_seconds=7200)
    clock.seconds += 7199
    assert not status.is_too_old()
    clock.seconds += 1
    assert status.is_too_old()


def test_waits_grow_with_jitter() -> None:
    backoff = Backoff(first=1.0, longest=8.0)
    waits = [backoff.next() for _ in range(2000)]
    assert all(0.5 * min(2**n, 8) <= wait <= min(2**n, 8) for n, wait in enumerate(waits[:10]))
    assert len({round(wait, 3) for wait in waits[10:]}) > 100
    backoff.reset()
    assert backoff.next() <= 1


ME = f"{os.getuid()}:{os.getgid()}"


def test_settings_of_an_image() -> None:
    settings = Settings.from_environment(
        "http://hub/hub/api/",
        {"EC2SPAWNER_NOTEBOOK_USER": ME, "EC2SPAWNER_NOTEBOOK_HOME": "/home/ada"},
    )
    assert settings.hub_api_url == "http://hub/hub/api"
    assert settings.metadata_endpoint == "http://169.254.169.254"
    assert settings.user.is_agent
    assert str(settings.user.home) == "/home/ada"
    assert settings.poweroff == ("systemctl", "poweroff")


@pytest.mark.parametrize(
    "environment",
    [
        {"EC2SPAWNER_NOTEBOOK_USER": "no such user"},
        {"EC2SPAWNER_NOTEBOOK_USER": "1:x"},
        {"EC2SPAWNER_NOTEBOOK_USER": "-1:-1", "EC2SPAWNER_NOTEBOOK_HOME": "/x"},
        {"EC2SPAWNER_NOTEBOOK_USER": "4242424:4242424"},
        {"EC2SPAWNER_NOTEBOOK_USER": ME, "EC2SPAWNER_POWEROFF": ""},
    ],
)
def test_invalid_settings_name_their_variable(environment: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="EC2SPAWNER_"):
        Settings.from_environment("http://hub", environment)


def test_a_missing_driver_is_logged_once_and_shown_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gpus = find_gpus()
    with caplog.at_level("INFO"):
        samples = [gpus.sample(0.0) for _ in range(5)]
    if gpus.kind == "nvml":
        pytest.skip("NOT TESTED: this machine has an NVIDIA GPU")
    assert samples == [[]] * 5
    assert len(caplog.records) == 1


def test_the_sampler_sees_the_users_processes() -> None:
    sampler = Sampler(find_gpus(), Processes(os.getpid(), include_root=True), interval=0.2)
    sampler.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        sum(range(20_000))
        time.sleep(0)
        if any(reading.percent > 1 for reading in sampler.readings()[1]):
            break
    else:
        raise AssertionError(sampler.readings())
    sampler.stop()
    latest = sampler.latest
    assert latest.gpu_source == "none"
    assert 0 <= latest.cpu_percent <= 100
    assert 0 < latest.memory_used_mib < latest.memory_total_mib


def test_a_run_ends_by_itself_when_its_time_is_over_and_no_hub_says_so(
    clock: Clock, status: LeaseStatus
) -> None:
    clock.seconds += 10_000
    assert not status.must_end(), "a server has no such time"
    status.learn(answer(clock, ends_in_seconds=100.0))
    clock.seconds += 80
    assert not status.must_end()
    status.learn(answer(clock, ends_in_seconds=60.0))
    clock.seconds += 49
    assert not status.must_end(), "the last answer counts"
    clock.seconds += 2
    assert status.must_end()
    status.learn(answer(clock))
    assert not status.must_end()

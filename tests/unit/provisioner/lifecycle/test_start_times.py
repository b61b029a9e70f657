"""The marks of a start, from what the hub sees of its instance and what its agent says."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from ec2spawner.core.starts.phases import Marks, Phase, start_phases
from ec2spawner.provisioner.model.cloud.instance import Instance, InstanceState
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.provisioner.runtime.clock import Clock as HubClock
from ec2spawner.provisioner.state import start_times
from ec2spawner.provisioner.state.start_times import Arrival, StartTimes
from ec2spawner.wire import AgentEvent, Claim, Market
from tests.simulated_cloud import Clock
from tests.stored import NOW, lease


class Hub:
    """A hub's two clocks, and its times of starts."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.times = StartTimes(HubClock(self.clock, self.clock.monotonic))

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def request(self) -> Lease:
        made = lease(requested_at=self.clock())
        self.times.requested(made)
        return made

    def list(self, *running: str, state: InstanceState = InstanceState.RUNNING) -> None:
        self.times.listed({each: instance(each, state) for each in running})

    def buy(self, instance_id: str = "i-1", seconds: float = 2.0) -> None:
        self.times.launch_asked("token")
        self.wait(seconds)
        self.times.launch_answered("token", [instance_id])

    def claim(
        self,
        instance_id: str = "i-1",
        *,
        agent_seconds: float | None = None,
        boot_seconds: float | None = None,
    ) -> None:
        self.times.claimed(instance_id, Arrival(self.times.now(), agent_seconds, boot_seconds))


def instance(instance_id: str, state: InstanceState) -> Instance:
    return Instance(instance_id, state, "g4dn.xlarge", "us-east-1a", Market.SPOT, NOW)


@pytest.fixture
def hub() -> Hub:
    return Hub()


def cold(hub: Hub, agent_seconds: float | None = None, boot_seconds: float | None = None) -> Marks:
    """A start on a new instance, until its lease is granted."""
    asked = hub.request()
    hub.wait(1)
    hub.buy()
    bought = replace(asked, marks=hub.times.bought(asked, "i-1"))
    hub.wait(7)
    hub.list("i-1", state=InstanceState.PENDING)
    hub.wait(2)
    hub.list("i-1")
    hub.wait(20)
    hub.claim(agent_seconds=agent_seconds, boot_seconds=boot_seconds)
    hub.wait(0.5)
    return hub.times.granted(bought, "i-1", hub.times.now())


def test_marks_of_a_new_instance_are_seconds_after_the_request(hub: Hub) -> None:
    marks = cold(hub, agent_seconds=1.5, boot_seconds=17.0)
    assert marks == Marks(
        asked=1, answered=3, running=12, agent_started=30.5, claimed=32, granted=32.5
    )


def test_a_kernel_that_started_before_the_listing_shows_when_the_instance_ran(hub: Hub) -> None:
    assert cold(hub, agent_seconds=1.5, boot_seconds=25.0).running == 5.5


def test_an_agent_that_says_nothing_leaves_its_start_unknown(hub: Hub) -> None:
    marks = cold(hub)
    assert (marks.running, marks.agent_started) == (12, None)


@pytest.mark.parametrize("said", [0.0, 1e12, sys.float_info.max])
def test_whatever_an_agent_says_the_hub_s_own_instants_stay(hub: Hub, said: float) -> None:
    found = start_phases(cold(hub, agent_seconds=said, boot_seconds=said))
    seconds = {each.phase: each.seconds for each in found.phases}
    assert (seconds[Phase.QUEUE], seconds[Phase.BUY], seconds[Phase.CLAIM]) == (1, 2, 0.5)
    assert min(seconds.values()) >= 0
    assert found.total == 32.5


@pytest.mark.parametrize(
    ("said", "known"), [(0.0, 0.0), (86_400, 86_400), (86_400.1, None), (sys.float_info.max, None)]
)
def test_a_time_of_more_than_a_day_is_unknown(said: float, known: float | None) -> None:
    claim = Claim(
        protocol=2,
        document="{}",
        signature="x",
        key="k" * 43,
        boot_seconds=said,
        agent_seconds=said,
    )
    ready = AgentEvent(step="ready", at=NOW, listen_seconds=said)
    assert (claim.boot_seconds, claim.agent_seconds, ready.listen_seconds) == (known,) * 3


@pytest.mark.parametrize("said", [-1.0, float("inf"), float("nan")])
def test_what_is_no_time_is_refused(said: float) -> None:
    with pytest.raises(ValueError, match="listen_seconds"):
        AgentEvent(step="ready", at=NOW, listen_seconds=said)


@pytest.mark.parametrize("said", [sys.float_info.max, float("inf")])
def test_a_mark_that_no_store_can_hold_is_unknown(hub: Hub, said: float) -> None:
    marks = cold(hub, agent_seconds=said, boot_seconds=said)
    json.dumps(asdict(marks), allow_nan=False)
    assert marks.running == 12, "as the listing showed it"


def test_a_wall_clock_that_is_set_changes_no_duration(hub: Hub) -> None:
    asked = hub.request()
    hub.wait(5)
    hub.clock.jump(-3600)
    assert hub.times.seconds(asked) == 5


def test_after_a_restart_the_wall_clock_says_when_the_start_was_requested(hub: Hub) -> None:
    asked = replace(hub.request(), marks=Marks(asked=1, answered=2))
    restarted = Hub()
    restarted.clock.jump(40)
    restarted.claim()
    restarted.wait(1)
    marks = restarted.times.granted(asked, "i-1", restarted.times.now())
    assert marks == Marks(asked=1, answered=2, claimed=40, granted=41)


def test_only_the_first_claim_of_a_boot_counts(hub: Hub) -> None:
    asked = hub.request()
    hub.wait(1)
    hub.claim()
    hub.wait(25)
    hub.claim()
    assert hub.times.granted(asked, "i-1", hub.times.now()).claimed == 1


def test_a_call_that_is_repeated_was_sent_the_first_time(hub: Hub) -> None:
    asked = hub.request()
    hub.times.launch_asked("token")
    hub.wait(4)
    hub.buy(seconds=1)
    assert hub.times.bought(asked, "i-1") == Marks(asked=0, answered=5)


def test_a_stopped_instance_that_is_started_again_boots_anew(hub: Hub) -> None:
    hub.claim()
    hub.wait(3600)
    asked = hub.request()
    sent = hub.times.now()
    hub.wait(1)
    hub.times.started_again("i-1", sent)
    hub.wait(20)
    hub.claim()
    marks = hub.times.granted(asked, "i-1", hub.times.now())
    assert marks == Marks(asked=0, answered=1, claimed=21, granted=21)


def test_an_instance_that_waited_while_another_one_was_lost_boots_no_more(hub: Hub) -> None:
    asked = hub.request()
    hub.wait(10)
    hub.claim("i-2")
    hub.wait(30)
    again = replace(asked, marks=hub.times.sent_back(asked))
    hub.wait(1)
    marks = hub.times.granted(again, "i-2", hub.times.now())
    assert marks == Marks(asked=41, granted=41, lost=40)


def test_a_start_that_fails_while_its_instance_boots_says_so(hub: Hub) -> None:
    asked = hub.request()
    hub.buy()
    bought = replace(asked, marks=hub.times.bought(asked, "i-1"))
    hub.wait(8)
    hub.list("i-1")
    hub.wait(590)
    found = start_phases(hub.times.ended(bought))
    assert [each.phase for each in found.phases] == ["queue", "buy", "pending", "boot"]
    assert (found.phases[-1].seconds, found.phases[-1].is_complete) == (590, False)


def test_instances_that_are_gone_are_forgotten(hub: Hub) -> None:
    asked = hub.request()
    hub.buy("i-1")
    hub.buy("i-2")
    hub.wait(start_times.KEPT_UNLISTED + 1)
    hub.list("i-2")
    assert hub.times.bought(asked, "i-1") == Marks()
    assert hub.times.bought(asked, "i-2").answered is not None


def test_the_wall_clock_may_say_that_a_start_is_still_to_be_requested(hub: Hub) -> None:
    """It was set back while no hub ran."""
    later = lease(requested_at=hub.clock() + timedelta(hours=1))
    assert hub.times.seconds(later) == 0

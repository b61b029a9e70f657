"""What the hub's metrics report while a world lives: from memory, and without user names."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ec2spawner.hub.api.instances import Instances, instances_json
from ec2spawner.hub.app.reporting.metrics import ProvisionerCollector
from ec2spawner.provisioner.instances.overhead_period import Period
from ec2spawner.provisioner.model.leases.lease import LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.monitoring.counters import counted
from tests.unit.provisioner.world import SPEC, World, until

TAKEN = "Server.SpotInstanceTermination"


class Scrape:
    """Prometheus, as it would ask this world's hub."""

    def __init__(self, world: World) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ProvisionerCollector(world.provisioner))

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"ec2spawner_{name}", labels)

    def text(self) -> str:
        return generate_latest(self._registry).decode()


async def test_instances_leases_and_their_hourly_cost(priced: World) -> None:
    world, scrape = priced, Scrape(priced)
    assert scrape.value("leases", state="ready") == 0
    _, ada = await world.ready("ada")
    await world.request("bob")
    await world.boot(2)
    await world.complete_passes(1)
    world.clock.advance(120)
    await ada.heartbeat()
    running = {"state": "running", "market": "spot", "instance_type": "g4dn.xlarge"}
    assert scrape.value("instances", **running) == 2
    assert scrape.value("leases", state="ready") == 1
    assert scrape.value("leases", state="waiting") == 1
    assert world.provisioner.lease_states() == {LeaseState.READY, LeaseState.WAITING}
    assert scrape.value("longest_wait_seconds") == pytest.approx(120, abs=0.1)
    assert scrape.value("usd_per_hour", account="leases", purpose="used") == 0.20
    boots = scrape.value("usd_per_hour", account="overhead", purpose="overhead")
    assert boots == 0.20, "it boots for bob"
    await ada.heartbeat(idle_since=world.clock())
    assert scrape.value("usd_per_hour", account="leases", purpose="idle") == 0.20
    assert scrape.value("usd_per_hour", account="leases", purpose="used") == 0
    assert scrape.value("unknown_prices") == 0
    assert scrape.value("usd_total", account="leases") == pytest.approx(0.20 / 30, abs=1e-4)
    assert "ada" not in scrape.text()
    assert "i-" not in scrape.text().replace("multi-", "")


async def test_unknown_prices_are_counted_and_not_zero(world: World) -> None:
    await world.ready("ada")
    scrape = Scrape(world)
    assert scrape.value("unknown_prices") == 1
    assert scrape.value("usd_per_hour", account="leases", purpose="used") == 0


async def test_an_unknown_disk_takes_no_instance_out_of_the_sums(priced: World) -> None:
    """As in a region whose price list the hub may not read: spot prices are known."""
    world = priced
    world.cloud.gives_public_addresses = True
    await world.restart(region="eu-central-1")
    scrape = Scrape(world)
    await until(lambda: world.provisioner.market.prices._spot, "prices")
    with_disk = replace(SPEC, disk_gib=90)
    await world.ready("ada", spec=with_disk)
    await world.request("bob", spec=with_disk)
    await world.boot(2)
    await world.complete_passes(1)
    used = scrape.value("usd_per_hour", account="leases", purpose="used")
    assert used == pytest.approx(0.20 + 0.005)
    boots = scrape.value("usd_per_hour", account="overhead", purpose="overhead")
    assert boots == pytest.approx(0.20 + 0.005)
    assert scrape.value("unknown_prices") == 2, "of both disks"
    overview = world.provisioner.overview
    lists = ("sold_out", "failed_starts", "limits", "nearly_used_limits")
    nothing: dict[str, Any] = dict.fromkeys(lists, ())
    nothing |= {"all_usd_per_hour": 0.0, "all_known_usd_per_hour": 0.0, "all_unpriced": 0}
    nothing |= {"more_nearly_used_limits": 0}
    nothing |= {"limits_at": world.clock()}
    page = Instances.model_validate_json(
        instances_json(
            world.clock(), overview.servers(), overview.kept(), overview.unassigned(), nothing
        )
    )
    assert page.usd_per_hour == pytest.approx(used + boots), "all that runs"
    [server] = [each for each in page.servers if each.instance_id]
    assert (server.usd, server.usd_per_hour) == (None, None)
    assert server.known_usd_per_hour == pytest.approx(0.20 + 0.005)
    assert server.known_usd == pytest.approx((0.20 + 0.005) / 60), "of the first minute"
    assert server.unknown_prices_of == ("disk",)
    [waiting] = [each for each in page.servers if not each.instance_id]
    assert (waiting.known_usd, waiting.known_usd_per_hour) == (0, None)
    assert waiting.unknown_prices_of == (), "there is no instance yet"
    [booting] = page.unassigned
    assert (booting.status, booting.usd_per_hour) == ("starting", None)
    assert booting.known_usd_per_hour == pytest.approx(0.20 + 0.005)
    assert booting.unknown_prices_of == ("disk",)
    assert page.unknown_prices == 2, "of both disks"


async def test_a_pending_instance_costs_before_its_address_is_known(priced: World) -> None:
    world, scrape = priced, Scrape(priced)
    world.cloud.boot_seconds = 60
    await world.request("ada")
    await world.boot()
    await world.complete_passes(1)
    boots = scrape.value("usd_per_hour", account="overhead", purpose="overhead")
    assert boots == pytest.approx(0.20)
    assert scrape.value("unknown_prices") == 1, "it may get an address"


async def test_overhead_is_counted_once_however_often_it_is_reported(priced: World) -> None:
    world, scrape = priced, Scrape(priced)
    await world.request("ada")
    [instance_id] = await world.boot()
    await world.complete_passes(1)
    world.clock.advance(120)
    instance = world.provisioner._state.instances.listed[instance_id]
    for seconds in (5, 90, 70, 90):  # a clock that was set back shortens it for a moment
        segment = world.provisioner.market.prices.segment(
            instance, instance.launched_at, instance.launched_at + timedelta(seconds=seconds)
        )
        await world.provisioner._retention.overhead.save(Period("boot", (segment,)))
    assert scrape.value("usd_total", account="overhead") == pytest.approx(0.005)


async def test_cost_of_an_unassigned_instance_is_overhead(priced: World) -> None:
    world, scrape = priced, Scrape(priced)
    lease = await world.request("ada")
    await world.boot()
    await world.complete_passes(1)
    world.clock.advance(300)
    await world.stop(lease)
    await until(lambda: not world.cloud.running(), "its end")
    await world.complete_passes(2)
    assert scrape.value("usd_total", account="overhead") == pytest.approx(0.20 / 12, abs=1e-3)
    assert scrape.value("usd_total", account="leases") == 0


async def test_starts_ends_interruptions_and_passes_are_counted(priced: World) -> None:
    world = priced
    start = {"market": "spot", "outcome": "ready"}
    starts = counted("ec2spawner_start_seconds_count", **start)
    taken = counted("ec2spawner_interruptions_total", instance_type="g4dn.xlarge")
    ended = counted("ec2spawner_leases_ended_total", reason="interruption")
    passes = counted("ec2spawner_pass_seconds_count")
    lease, agent = await world.ready("ada")
    await world.complete_passes(1)
    assert counted("ec2spawner_start_seconds_count", **start) == starts + 1
    world.cloud.end(agent.instance_id, TAKEN)
    await world.state(lease, LeaseState.ENDED)
    await world.complete_passes(1)
    assert counted("ec2spawner_leases_ended_total", reason="interruption") == ended + 1
    name = "ec2spawner_interruptions_total"
    assert counted(name, instance_type="g4dn.xlarge") == taken + 1
    assert counted("ec2spawner_pass_seconds_count") > passes
    scrape = Scrape(world)
    world.clock.advance(60)
    age = scrape.value("pass_age_seconds")
    assert age is not None
    assert age <= 60


async def test_a_store_that_fails_is_counted(world: World) -> None:
    errors = counted("ec2spawner_store_errors_total")
    lease, _ = await world.ready("ada")
    world.break_store()
    await world.stop(lease)
    world.fix_store()
    assert counted("ec2spawner_store_errors_total") > errors


async def test_sold_out_marks_are_counted_by_scope(world: World) -> None:
    world.cloud.sell_out(Market.SPOT)
    await world.ready("ada")
    assert Scrape(world).value("sold_out_marks", scope="offer") is not None


async def test_ten_times_the_servers_are_ten_times_the_work_at_most(priced: World) -> None:
    """A scrape is served by the hub's event loop."""
    world = priced
    lease, _ = await world.ready("ada")
    leases = world.provisioner._state.leases._leases

    def seconds(number: int) -> float:
        leases.update({f"lease-{at}": world.now(lease) for at in range(number)})
        scrape, taken = Scrape(world), []
        for _ in range(5):
            began = time.thread_time()
            text = scrape.text()
            taken.append(time.thread_time() - began)
        for at in range(number):
            del leases[f"lease-{at}"]
        assert f'ec2spawner_leases{{state="ready"}} {number + 1:.1f}' in text
        return min(taken)

    assert seconds(1000) < 3 * 10 * seconds(100)

"""The GPU check at boot, by the real agent, against the library of `fake_cuda`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.agent.gpu_check import CHECK_SECONDS, broken_gpu
from ec2spawner.embedded.runtime import pci_bus, shims
from ec2spawner.gpu_check.watchdog import HANG_SECONDS
from ec2spawner.wire import ImageDriver
from tests.fake_cuda import FakeCuda
from tests.integration.agent.lease_on_instance import Machine, StubHub, until


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    return FakeCuda(tmp_path_factory.mktemp("cuda"))


async def first_claim(machine: Machine, hub: StubHub, environment: dict[str, str]) -> str:
    """What the agent's first claim says is broken."""
    device = machine.root / "nvidia0"
    device.touch()
    machine.environment = environment | {"EC2SPAWNER_GPU_DEVICE": str(device)}
    await machine.boot()
    await until(lambda: hub.claims, 40, "a claim")
    assert hub.claims[0].fault.driver is None
    return hub.claims[0].fault.reason


async def test_a_broken_gpu_is_reported_in_the_first_claim_and_410_powers_off(
    machine: Machine, hub: StubHub, cuda: FakeCuda
) -> None:
    hub.claim_statuses = [410]
    broken = await first_claim(machine, hub, cuda.environment(gpus=2, flip=1))
    assert broken.startswith("GPU 1 (Tesla T4): 1 bit of ")
    await until(lambda: machine.powered_off, 20, "off")


async def test_a_gpu_without_a_driver_is_reported_with_that_of_the_image(
    machine: Machine, hub: StubHub
) -> None:
    """As on an image with the open driver and an instance with V100s."""
    pci_bus.show(8, machine.root / "pci")
    modinfo = machine.root / "programs" / "modinfo"
    modinfo.parent.mkdir()
    modinfo.write_text(shims.SHIMS["modinfo"])
    modinfo.chmod(0o755)
    machine.environment = {
        "PATH": f"{modinfo.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "EC2SPAWNER_SIMULATED_GPU": "",
        "EC2SPAWNER_GPU_DEVICE": str(machine.root / "nvidia0"),
        "EC2SPAWNER_PCI_DEVICES": str(machine.root / "pci"),
    }
    hub.claim_statuses = [410]
    await machine.boot()
    await until(lambda: hub.claims, 40, "a claim")
    assert hub.claims[0].fault.driver == ImageDriver(branch=595, modules="open")
    assert "V100" in hub.claims[0].fault.reason
    await until(lambda: machine.powered_off, 20, "off")


async def test_a_slow_gpu_is_logged_and_the_instance_serves(
    machine: Machine, hub: StubHub, cuda: FakeCuda
) -> None:
    hub.give(machine.lease())
    assert await first_claim(machine, hub, cuda.environment(memory=20)) == ""
    assert "Slower than it should be: GPU 0 (Tesla T4)" in machine.log()
    await until(lambda: hub.event("ready"), 40, "ready")


@pytest.mark.parametrize(
    "steered", [{"fail": "cuInit:803"}, {"gpus": 0}, {"free_mib": 1}, {"fail": "cuMemAlloc_v2:999"}]
)
async def test_a_check_that_crashes_does_not_keep_the_instance_from_serving(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steered: dict[str, object]
) -> None:
    for name, text in cuda.environment(**steered).items():
        monkeypatch.setenv(name, text)
    assert await broken_gpu(tmp_path) == ""


async def test_a_check_that_times_out_is_skipped_and_leaves_no_process(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in cuda.environment(hang="cuInit").items():
        monkeypatch.setenv(name, text)
    mark = str(tmp_path / "mark")
    monkeypatch.setenv("MARK_OF_THE_CHECK", mark)
    assert await broken_gpu(tmp_path, seconds=2.0) == ""
    await until(lambda: not _carrying(mark), what="the check's end")


async def test_without_a_gpu_no_check_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ec2spawner.agent.gpu_check._run", None)
    assert await broken_gpu(tmp_path / "nvidia0") == ""
    assert await broken_gpu(None) == ""


def test_the_watchdog_of_the_check_fires_before_the_agents_timeout() -> None:
    assert HANG_SECONDS < CHECK_SECONDS


def _carrying(mark: str) -> list[int]:
    """Processes with this in their environment, other than this one."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found

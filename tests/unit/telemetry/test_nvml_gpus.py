"""The NVML path through the real `nvidia-ml-py`, against the library that `fake_nvml` builds.

Each story runs in a process of its own: NVML, once loaded, is loaded for good.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.telemetry.nvml_gpu import slowed_by
from tests.fake_nvml import FakeNvml

ROOT = Path(__file__).parents[3]

SAMPLE = """
import json, logging, os, sys
from dataclasses import asdict
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="LOG %(message)s")
from ec2spawner.telemetry.nvml import NvmlGpus
state = Path(os.environ["EC2SPAWNER_FAKE_NVML"])
clock = 1000.0
scans = []
steps = json.load(sys.stdin)
gpus = None
for says, seconds, times in steps:
    if says is not None:
        new = state.with_suffix(".new")
        new.write_text(says)
        new.replace(state)
    gpus = gpus or NvmlGpus(clock=lambda: clock)
    for _ in range(times):
        clock += seconds
        samples = [gpu.model_dump(mode="json") for gpu in gpus.sample(0.0)]
        processes = [asdict(each) for each in gpus.processes([])]
        scans.append({"kind": gpus.kind, "error": gpus.error and gpus.error.code, "gpus": samples,
                      "processes": processes})
gpus.close()
print(json.dumps(scans))
"""


@dataclass
class Sampled:
    scans: list[Any]
    log: list[str]

    @property
    def last(self) -> Any:
        return self.scans[-1]


Step = tuple[str | None, float, int]
"""(what the GPUs do from now on, seconds between two scans, how many scans)"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


def sample(environment: dict[str, str], *steps: Step) -> Sampled:
    done = subprocess.run(
        [sys.executable, "-c", SAMPLE],
        input=json.dumps(steps),
        env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    log = [line for line in done.stderr.splitlines() if line.startswith("LOG")]
    return Sampled(json.loads(done.stdout), log)


def eight(more: str = "") -> str:
    return "".join(f"gpu {index} use {10 * index}\n" for index in range(8)) + more


def test_all_figures_of_a_gpu(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        (
            (
                "gpu 0 use 42\ngpu 0 used 4096\ngpu 0 temperature 61\ngpu 0 power 355500\n"
                "gpu 0 sm_clock 1755\ngpu 0 reasons 36\ngpu 0 corrected 3\ngpu 0 uncorrected 1\n"
            ),
            1.0,
            1,
        ),
    )
    assert seen.last["kind"] == "nvml"
    assert seen.last["gpus"] == [
        {
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": "GPU-0",
            "use_percent": 42,
            "memory_used_mib": 4096,
            "memory_total_mib": 81920,
            "temperature_c": 61,
            "power_w": 355.5,
            "power_limit_w": 700,
            "clock_mhz": 1755,
            "clock_max_mhz": 1980,
            "memory_clock_mhz": 2619,
            "slowed_by": ["power", "heat"],
            "ecc_corrected": 3,
            "ecc_uncorrected": 1,
            "xid": None,
            "xid_at": None,
            "lost": False,
            "mig": [],
        }
    ]
    assert seen.log == []


def test_unsupported_figures_are_unknown_and_not_logged(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        ("gpu 0 power -1\ngpu 0 corrected -1\ngpu 0 uncorrected -1\ngpu 0 limit -1\n", 1.0, 5),
    )
    gpu = seen.last["gpus"][0]
    assert [gpu[name] for name in ("power_w", "ecc_corrected", "power_limit_w")] == [None] * 3
    assert gpu["use_percent"] == 0
    assert not gpu["lost"]
    assert seen.log == []


def test_a_gpu_that_falls_off_the_bus_keeps_its_place_and_may_come_back(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        (eight(), 1.0, 3),
        (eight("gpu 3 lost 1\nxid 1 3 79\n"), 1.0, 100),
        # The driver that is opened anew does not list it any more.
        (eight().replace("gpu 3 use 30\n", ""), 1.0, 200),
        (eight(), 1.0, 900),
    )
    lost = seen.scans[3]["gpus"][3]
    assert (lost["lost"], lost["xid"], lost["use_percent"]) == (True, 79, None)
    assert (lost["index"], lost["name"]) == (3, "NVIDIA H100 80GB HBM3")
    unlisted = seen.scans[250]["gpus"]
    assert [gpu["index"] for gpu in unlisted] == list(range(8))
    assert [gpu["lost"] for gpu in unlisted] == [False] * 3 + [True] + [False] * 4
    assert unlisted[4]["use_percent"] == 40, "the others are who they were"
    back = seen.last["gpus"][3]
    assert (back["lost"], back["use_percent"], back["xid"]) == (False, 30, 79)
    assert len(seen.log) == 3, seen.log
    assert [
        word for word in ("Xid 79", "is lost", "responds again") if word not in str(seen.log)
    ] == []


def test_errors_of_a_program_do_not_hide_those_of_the_gpu(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        ("gpu 0 use 0\ngpu 1 use 0\n", 1.0, 1),
        ("gpu 0 use 0\ngpu 1 use 0\nxid 1 0 48\nxid 2 0 31\nxid 3 1 31\n", 1.0, 2),
    )
    first, second = seen.last["gpus"]
    assert (first["xid"], second["xid"]) == (48, 31)
    assert first["xid_at"].endswith("Z")
    assert seen.scans[0]["gpus"][0]["xid"] is None


def test_mig_slices(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        (
            (
                "gpu 0 use 50\ngpu 1 mig 1\nslice 1 0 5120 100\nslice 1 2 5120 200\n"
                "process 1 4242 100 20\n"
            ),
            1.0,
            3,
        ),
    )
    whole, cut = seen.last["gpus"]
    assert (whole["mig"], cut["use_percent"]) == ([], None)
    assert cut["mig"] == [
        {
            "index": place,
            "profile": "1g.5gb",
            "uuid": f"MIG-1-{place}",
            "use_percent": None,
            "memory_used_mib": used,
            "memory_total_mib": 5120,
        }
        for place, used in ((0, 100), (2, 200))
    ]
    assert seen.last["processes"] == [
        {"pid": 4242, "gpu": 1, "memory_mib": 100, "use_percent": None}
    ]


def test_processes_with_their_memory_and_use(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        ("gpu 0 use 90\nprocess 0 100 4096 60\nprocess 0 200 2048 0\nprocess 0 300 1 0\n", 2.0, 4),
        ("gpu 0 use 0\nprocess 0 100 4096 0\nprocess 0 200 2048 25\n", 2.0, 5),
    )

    def uses(scan: Any) -> dict[int, float]:
        return {each["pid"]: each["use_percent"] for each in scan["processes"]}

    assert uses(seen.scans[3]) == {100: 60, 200: 0, 300: 0}
    assert uses(seen.last) == {100: 0, 200: 25}
    assert [each["memory_mib"] for each in seen.last["processes"]] == [4096, 2048]


def test_the_only_process_on_a_gpu_gets_all_its_use(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        ("gpu 0 use 77\nprocess 0 5 100 -1\ngpu 1 use 66\nprocess 1 6 1 -1\nprocess 1 7 1 0", 1, 3),
    )
    assert [(each["pid"], each["use_percent"]) for each in seen.last["processes"]] == [
        (5, 77),
        (6, None),
        (7, None),
    ]


def test_a_driver_with_only_older_function_names(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment, ("old\ngpu 0 reasons 64\ngpu 0 use 9\nprocess 0 5 100 9\n", 1.0, 3)
    )
    assert seen.last["gpus"][0]["slowed_by"] == ["heat"]
    assert [each["pid"] for each in seen.last["processes"]] == [5]
    assert seen.log == []


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (18, "gpu-driver-updated"),
        (4, "gpu-driver-forbidden"),
        (999, "gpu-driver-failed"),
    ],
)
def test_a_driver_that_fails_to_load_is_logged_once_and_retried(
    fake: FakeNvml, code: int, error: str
) -> None:
    seen = sample(fake.environment, (f"init {code}\n", 1.0, 200), ("gpu 0 use 5\n", 1.0, 61))
    assert seen.scans[199]["kind"] == "none"
    assert seen.scans[199]["gpus"] == []
    assert seen.scans[199]["error"] == error
    assert (seen.last["kind"], seen.last["error"]) == ("nvml", None)
    assert seen.last["gpus"][0]["use_percent"] == 5
    assert len(seen.log) == 1, seen.log


def test_a_driver_unloaded_during_use(fake: FakeNvml) -> None:
    seen = sample(
        fake.environment,
        (eight(), 1.0, 2),
        (eight("init 9\ndriver 9\n"), 1.0, 30),
        (eight(), 1.0, 62),
    )
    gone = seen.scans[20]
    assert [gpu["lost"] for gpu in gone["gpus"]] == [True] * 8
    assert [gpu["lost"] for gpu in seen.last["gpus"]] == [False] * 8
    assert seen.last["error"] is None
    assert len([line for line in seen.log if "stopped responding" in line]) == 1, seen.log


def test_a_gpu_on_which_every_call_fails_is_lost(fake: FakeNvml) -> None:
    seen = sample(fake.environment, (eight(), 1.0, 1), (eight("gpu 5 broken 999\n"), 1.0, 200))
    assert [gpu["lost"] for gpu in seen.last["gpus"]] == [index == 5 for index in range(8)]
    assert len(seen.log) <= 3, seen.log


def test_a_missing_library_is_no_error() -> None:
    seen = sample(
        {"LD_LIBRARY_PATH": "", "EC2SPAWNER_FAKE_NVML": "/dev/null"},
        (None, 60.0, 5),
    )
    if seen.last["kind"] == "nvml":
        pytest.skip("this machine has a driver")
    assert seen.last["gpus"] == []
    assert len(seen.log) <= 1


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x0, []),
        (0x1, []),
        (0x4, ["power"]),
        (0x8, ["hardware"]),
        (0x8 | 0x40, ["heat"]),
        (0x20, ["heat"]),
        (0x8 | 0x80, ["hardware"]),
        (0x10, ["sync"]),
        (0x4 | 0x20 | 0x10, ["power", "heat", "sync"]),
    ],
)
def test_throttle_reasons_in_words(reasons: int, words: list[str]) -> None:
    assert slowed_by(reasons) == words


@pytest.mark.gpu
def test_the_gpus_of_this_host() -> None:
    from ec2spawner.telemetry import find_gpus

    gpus = find_gpus()
    try:
        found = gpus.sample(0.0)
        assert (gpus.kind, gpus.error) == ("nvml", None)
        for gpu in found:
            assert gpu.name
            assert gpu.uuid
            assert gpu.memory_total_mib is not None
            assert gpu.mig or gpu.use_percent is not None
            assert gpu.clock_max_mhz is None or (gpu.clock_mhz or 0) <= 1.2 * gpu.clock_max_mhz
        gpus.processes([])
    finally:
        gpus.close()

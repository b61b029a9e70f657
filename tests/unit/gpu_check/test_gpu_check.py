"""The check as it is run, through the real ctypes path, against the library of `fake_cuda`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.gpu_check import measure, watchdog
from tests.fake_cuda import FakeCuda
from tests.fake_nvml import FakeNvml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    return FakeCuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """Where the library says what it was not given back: nothing, ever."""
    file = tmp_path / "left"
    yield file
    assert not file.exists() or file.read_text() == "0\n"


def check(
    environment: dict[str, str], *options: str, code: str = ""
) -> subprocess.CompletedProcess[str]:
    how = ["-c", code] if code else ["-m", "ec2spawner.gpu_check"]
    return subprocess.run(
        [sys.executable, "-P", *how, *options],
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


QUICK = """
import sys
from ec2spawner.gpu_check import command, measure, watchdog
command.SHORT = measure.Plan(seconds=0.002, products=False)
command.FULL = measure.Plan(seconds=0.02, products=True)
from ec2spawner.gpu_check.__main__ import main
sys.exit(main())
"""
"""The check, with hardly any time for each figure: the library's clock needs none."""


def report_of(
    environment: dict[str, str], *options: str, code: str = QUICK
) -> tuple[int, dict[str, Any]]:
    done = check(environment, "--json", *options, code=code)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def values(gpu: dict[str, Any]) -> dict[str, float]:
    return {each["name"]: each["value"] for each in gpu["figures"]}


def test_a_healthy_gpu_is_measured(cuda: FakeCuda, left: Path) -> None:
    environment = cuda.environment(to_gpu=12.2, from_gpu=12.9, memory=250, left=left)
    status, report = report_of(environment, "--short", code="")
    assert (status, report["verdict"]["state"]) == (0, "fine"), report
    [gpu] = report["gpus"]
    expected = {"to_gpu": 12.2, "from_gpu": 12.9, "memory": 250}
    assert values(gpu) == pytest.approx(expected, rel=0.01)
    planned = len(expected) * measure.SHORT.seconds
    assert planned < 1.5, "with Python's start, CUDA's and the copies, under three seconds"


def test_the_full_form_says_plainly_what_it_cannot_measure(cuda: FakeCuda, left: Path) -> None:
    done = check(cuda.environment(left=left))
    assert done.returncode == 0, done.stderr
    assert (
        "Not measured: matrix product, FP32 and matrix product, FP16: neither PyTorch nor CuPy is "
        "installed in this Python."
    ) in done.stdout
    assert done.stdout.rstrip().endswith("As fast as it should be: Tesla T4.")


def test_each_of_several_gpus_is_measured(cuda: FakeCuda, left: Path) -> None:
    status, report = report_of(cuda.environment(gpus=3, slow_gpu=2, left=left), "--short")
    assert status == 1
    assert [gpu["state"] for gpu in report["gpus"]] == ["fine", "fine", "slow"]
    assert report["verdict"]["line"].startswith("Slower than it should be: GPU 2 (Tesla T4): copy")


def test_a_flipped_bit_is_a_broken_gpu(cuda: FakeCuda, left: Path) -> None:
    status, report = report_of(cuda.environment(gpus=2, flip=1, left=left), "--short")
    assert (status, report["verdict"]["state"]) == (1, "broken")
    assert "GPU 1 (Tesla T4): 1 bit of" in report["verdict"]["line"]
    assert [gpu["state"] for gpu in report["gpus"]] == ["fine", "broken"]


@pytest.mark.parametrize(
    ("fail", "state", "said"),
    [
        ("cuMemcpyHtoD_v2:214:3", "broken", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("cuMemcpyDtoD_v2:719", "broken", "CUDA_ERROR_LAUNCH_FAILED"),
        ("cuMemAlloc_v2:2", "unmeasured", "memory is full"),
        ("cuMemAllocHost_v2:1", "unmeasured", "cuMemAllocHost_v2: CUDA_ERROR_INVALID_VALUE (1)"),
        ("cuDevicePrimaryCtxRetain:2", "unmeasured", "memory is full"),
        ("cuCtxSynchronize:4711", "unmeasured", "an unknown error (4711)"),
    ],
)
def test_an_error_during_the_check_is_distinguished_and_resources_are_released(
    cuda: FakeCuda, left: Path, fail: str, state: str, said: str
) -> None:
    status, report = report_of(cuda.environment(gpus=2, fail=fail, left=left), "--short")
    assert report["verdict"]["state"] == state
    assert said in report["verdict"]["line"]
    assert status == {"broken": 1, "unmeasured": 2}[state]


@pytest.mark.parametrize(
    ("steered", "said"),
    [
        ({"gpus": 0}, "shows no GPU"),
        ({"fail": "cuInit:803"}, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        ({"fail": "cuInit:802"}, "CUDA_ERROR_SYSTEM_NOT_READY (802)"),
        ({"fail": "cuInit:214"}, "CUDA_ERROR_ECC_UNCORRECTABLE (214)"),
    ],
)
def test_a_broken_driver_is_no_broken_gpu(
    cuda: FakeCuda, steered: dict[str, object], said: str
) -> None:
    status, report = report_of(cuda.environment(**steered), "--short")
    assert (status, report["verdict"]["state"], report["gpus"]) == (2, "unmeasured", [])
    assert said in report["verdict"]["line"]


def test_a_missing_driver_is_reported(tmp_path: Path) -> None:
    done = check({"LD_LIBRARY_PATH": str(tmp_path)})
    if "Could not be measured" not in done.stdout:
        pytest.skip("this machine has a driver of its own")
    assert done.returncode == 2
    assert "no NVIDIA driver here that CUDA programs can use" in done.stdout


def test_little_free_memory_skips_figures_that_a_cache_would_distort(
    cuda: FakeCuda, left: Path
) -> None:
    status, report = report_of(cuda.environment(free_mib=40, left=left), "--short")
    [gpu] = report["gpus"]
    assert (status, gpu["state"]) == (0, "fine")
    assert values(gpu)["memory"] is None
    assert gpu["figures"][2]["why_not"] == "only 40 MiB of the GPU's memory are free"


def test_a_gpu_without_free_memory_is_reported(cuda: FakeCuda, left: Path) -> None:
    status, report = report_of(cuda.environment(free_mib=1, left=left), "--short")
    assert (status, report["gpus"][0]["state"]) == (2, "unmeasured")
    assert "shut down the kernels that hold it" in report["verdict"]["line"]


def test_a_mig_slice_is_measured_without_expectations(cuda: FakeCuda, left: Path) -> None:
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    status, report = report_of(cuda.environment(name=name, memory_mib=4864, left=left), "--short")
    assert (status, report["verdict"]["state"]) == (0, "unknown")
    assert values(report["gpus"][0])["memory"] == pytest.approx(250, rel=0.01)


@pytest.mark.parametrize(("use", "state"), [(85, "busy"), (4, "slow")])
def test_figures_of_a_shared_gpu_are_not_compared(
    cuda: FakeCuda, tmp_path: Path, use: int, state: str
) -> None:
    nvml = FakeNvml(tmp_path)
    nvml.say(f"gpu 0 use 0\ngpu 1 use {use}")
    both = f"{cuda.folder}{os.pathsep}{nvml.folder}"
    environment = nvml.environment | cuda.environment(gpus=2, slow_gpu=1)
    status, report = report_of(environment | {"LD_LIBRARY_PATH": both}, "--short")
    assert [gpu["used_by_others_percent"] for gpu in report["gpus"]] == [0, use]
    assert report["verdict"]["state"] == state
    assert status == {"busy": 2, "slow": 1}[state]


HANGS = QUICK.replace("command.SHORT", "watchdog.HANG_SECONDS = 0.5; command.SHORT")


@pytest.mark.parametrize("call", ["cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuEventSynchronize"])
def test_a_hanging_gpu_is_broken_and_does_not_block(cuda: FakeCuda, call: str) -> None:
    assert watchdog.HANG_SECONDS > 3
    done = check(cuda.environment(hang=call), "--json", "--short", code=HANGS)
    assert done.returncode == 1, done.stderr
    [line] = done.stdout.splitlines()
    assert "it stopped responding during a copy" in json.loads(line)["verdict"]["line"]


# --- matrix products, by a library that stands in for PyTorch ---------------------------------

TORCH = """
import time
float32, float16 = "float32", "float16"
FREE = {free}

class matmul_settings:
    allow_tf32 = True

class backends:
    class cuda:
        matmul = matmul_settings

class cuda:
    @staticmethod
    def is_available():
        return {available}
    @staticmethod
    def mem_get_info(index):
        assert index == 0
        return FREE, 2 * FREE
    @staticmethod
    def synchronize(index):
        pass
    @staticmethod
    def empty_cache():
        pass

def randn(*shape, device, dtype):
    assert device == "cuda:0"
    return shape, dtype
empty = randn

def matmul(a, b, out):
    (side, _), dtype = out
    if dtype == float32:
        assert not matmul_settings.allow_tf32
    {way}
    time.sleep(2 * side**3 / {{"float32": 50e12, "float16": 400e12}}[dtype])
"""


def with_torch(folder: Path, **given: object) -> dict[str, str]:
    (folder / "torch.py").write_text(
        TORCH.format(**({"free": 2**34, "available": True, "way": "pass"} | given))
    )
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def test_matrix_products_are_measured_where_torch_is_installed(
    cuda: FakeCuda, tmp_path: Path
) -> None:
    status, report = report_of(cuda.environment() | with_torch(tmp_path))
    assert status == 0, report
    found = values(report["gpus"][0])
    # Sleeping takes longer than asked for, on a machine that is busy much longer.
    assert 10 < found["fp32"] <= 50
    assert 20 < found["fp16"] <= 400


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"available": False}, "built without CUDA"),
        ({"free": 2**20}, "not enough of the GPU's memory is free"),
        ({"way": "raise RuntimeError('CUDA out of memory. Tried')"}, "not enough of the GPU's"),
        ({"way": "raise RuntimeError('no kernel image')"}, "RuntimeError: no kernel image"),
        ({"way": "raise RuntimeError()"}, "RuntimeError"),
    ],
)
def test_a_broken_library_costs_only_its_figures(
    cuda: FakeCuda, tmp_path: Path, given: dict[str, object], why: str
) -> None:
    status, report = report_of(cuda.environment() | with_torch(tmp_path, **given))
    assert (status, report["verdict"]["state"]) == (0, "fine")
    left_out = [each for each in report["gpus"][0]["figures"] if each["value"] is None]
    assert [each["name"] for each in left_out] == ["fp32", "fp16"]
    assert all(why in each["why_not"] for each in left_out)


# --- a real one -------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_real_gpu_is_measured() -> None:
    status, report = report_of({}, "--short", code="")
    print(json.dumps(report, indent=2))
    assert report["verdict"]["state"] in {"fine", "unknown", "busy"}, report["verdict"]
    assert status in {0, 2}
    for gpu in report["gpus"]:
        assert all(value > 1 for value in values(gpu).values())

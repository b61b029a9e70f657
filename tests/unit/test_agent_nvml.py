"""The NVML path through the real `nvidia-ml-py`, against a small library built here.

Two GPUs: the first answers, the second has no power reading and then falls off the bus.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = """
#include <string.h>
typedef struct { unsigned int gpu, memory; } use_t;
typedef struct { unsigned long long total, free, used; } memory_t;
static long gpus[2] = {0, 1};
static int reads = 0;
enum { SUCCESS = 0, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };
static int index_of(void *gpu) { return (int)((long *)gpu - gpus); }
static int lost(void *gpu) { return index_of(gpu) == 1 && reads > 2; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int flags) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) { return "as the test says"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **gpu) {
    *gpu = &gpus[index];
    return SUCCESS;
}
int nvmlDeviceGetName(void *gpu, char *name, unsigned int length) {
    strncpy(name, "Tesla T4", length);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *gpu, memory_t *memory) {
    if (lost(gpu)) return GPU_IS_LOST;
    memory->total = 16ULL << 30; memory->used = 4ULL << 30; memory->free = 12ULL << 30;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *gpu, use_t *use) {
    reads++;
    if (lost(gpu)) return GPU_IS_LOST;
    use->gpu = 42; use->memory = 7;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned int *celsius) {
    if (lost(gpu)) return GPU_IS_LOST;
    *celsius = 61;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *gpu, unsigned int *milliwatts) {
    if (lost(gpu)) return GPU_IS_LOST;
    if (index_of(gpu) == 1) return NOT_SUPPORTED;
    *milliwatts = 55500;
    return SUCCESS;
}
"""

READ = """
import json, logging
logging.basicConfig(level=logging.INFO, format="LOG %(message)s")
from ec2spawner.telemetry import find_gpus
gpus = find_gpus()
samples = [[gpu.model_dump() for gpu in gpus.sample(0.0)] for _ in range(5)]
print(json.dumps({"kind": gpus.kind, "samples": samples}))
gpus.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NOT TESTED: the NVML path needs a C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(LIBRARY)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", "libnvidia-ml.so.1", "nvml.c"], cwd=folder, check=True
    )
    return folder


def test_two_gpus_of_which_one_falls_off_the_bus(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env=dict(os.environ)
        | {"LD_LIBRARY_PATH": str(library), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["kind"] == "nvml"
    first, second = found["samples"][0]
    assert first == {
        "index": 0,
        "name": "Tesla T4",
        "use_percent": 42,
        "memory_used_mib": 4096,
        "memory_total_mib": 16384,
        "temperature_c": 61,
        "power_w": 55.5,
    }
    assert (second["index"], second["use_percent"], second["power_w"]) == (1, 42, None)

    first, second = found["samples"][-1]
    assert first["use_percent"] == 42
    figures = {name: value for name, value in second.items() if name not in ("index", "name")}
    assert set(figures.values()) == {None}
    lines = [line for line in done.stderr.splitlines() if line.startswith("LOG")]
    assert len(lines) == 1, "a lost GPU is said once, not at every sample"

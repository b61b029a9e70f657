"""One save of a session, measured in a process of its own.

`python -m tests.bench.saved_session FOLDER proved|plain MIB` prints the figures of `Save` as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

from ec2spawner.sleep import saving
from ec2spawner.sleep.proving.proof import Proofs

SESSION = """
import dataclasses
import numpy as np
import pandas as pd

@dataclasses.dataclass
class Sample:
    name: str
    weights: list

images = np.random.default_rng(0).random((mib // 2, 1 << 17))
frame = pd.DataFrame({"value": images.ravel()[:mib << 14], "row": range(mib << 14)})
by_name = {f"name {number}": (number, number / 7) for number in range(mib * 2000)}
samples = [Sample(str(number), [number, number + 1]) for number in range(mib * 200)]
best = samples[:100]

def scale(array, by=images[0]):
    return array * by

del mib
"""
"""Half of it an array, a quarter a frame, the rest objects; some share others."""


class Save(NamedTuple):
    """One save."""

    seconds: float
    cpu_seconds: float
    """Of the process, and of the children that it has waited for."""
    variables: int
    proved: int
    size_bytes: int


def save(folder: Path, proves: bool, mib: int) -> Save:
    """Make a session of about that size, and save it."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    namespace: dict[str, Any] = vars(module)
    namespace["mib"] = mib
    exec(compile(SESSION, "<cell>", "exec"), namespace)
    if not proves:
        Proofs.run = lambda self: []  # type: ignore[method-assign]
    began, cpu = time.monotonic(), _cpu_seconds()
    manifest = saving.save_namespace(
        namespace, folder, seconds=600, max_bytes=1 << 40, hidden={"__builtins__": None}
    )
    return Save(
        time.monotonic() - began,
        _cpu_seconds() - cpu,
        len(manifest.saved),
        sum(entry.proved for entry in manifest.entries),
        manifest.size_bytes,
    )


def _cpu_seconds() -> float:
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    print(json.dumps(save(Path(sys.argv[1]) / "save", sys.argv[2] == "proved", int(sys.argv[3]))))

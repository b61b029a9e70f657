"""The device nodes of this instance's NVIDIA GPUs, for containers that must not lose them.

NVIDIA's toolkit gives a container its GPUs without the knowledge of runtime and systemd. At a
`systemctl daemon-reload`, such as by `apt install` of a service, systemd applies the devices that
it knows of, and the container has no GPU any more ("Failed to initialize NVML: Unknown Error",
https://github.com/NVIDIA/nvidia-container-toolkit/issues/48). So each node is passed by name, too.
runc names only those to systemd that have a link in /dev/char, which not all drivers make.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from pathlib import Path
from typing import Final

from ..command import run

_NAMES: Final = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)")

MODPROBE_SECONDS: Final = 30.0


async def prepare_gpu_nodes(
    gpu_device: Path | None, links: Path = Path("/dev/char")
) -> tuple[Path, ...]:
    """The nodes beside that of the first GPU, each with its link; none without a GPU.

    Those of unified memory, which come with the first CUDA program, are made before.
    """
    if gpu_device is None or not await asyncio.to_thread(gpu_device.exists):
        return ()
    await run("nvidia-modprobe", "-u", "-c=0", seconds=MODPROBE_SECONDS)
    return await asyncio.to_thread(_link_nodes, gpu_device.parent, links)


def _link_nodes(folder: Path, links: Path) -> tuple[Path, ...]:
    nodes = sorted(
        node
        for node in folder.glob("nvidia*")
        if _NAMES.fullmatch(node.name) and node.is_char_device()
    )
    for node in nodes:
        number = node.stat().st_rdev
        with contextlib.suppress(OSError):  # it is there, or this instance has no such folder
            (links / f"{os.major(number)}:{os.minor(number)}").symlink_to(node)
    return tuple(nodes)

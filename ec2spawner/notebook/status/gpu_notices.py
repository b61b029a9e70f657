"""Notices of GPUs that fail or cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...core.instances import gpu_xid_errors
from ...wire import GpuSample, NotebookStatus, Notice, Sentence, sentence


def gpu_notices(status: NotebookStatus) -> Iterator[Notice]:
    """Each error that a GPU has reported and that is not history."""
    telemetry = status.telemetry
    if telemetry is None or not telemetry.gpus:
        return
    # A server that no hub of ours started cannot be replaced from here.
    fix = sentence("replace-server" if status.managed else "contact-admin")
    if_it_persists = sentence(
        "replace-server-if-it-persists" if status.managed else "contact-admin-if-it-persists"
    )
    if telemetry.gpu_error and not any(gpu.lost for gpu in telemetry.gpus):
        unreadable = sentence("gpus-unreadable")
        yield _of_gpu("silent", unreadable, [telemetry.gpu_error, if_it_persists], "warning")
    for gpu in telemetry.gpus:
        if gpu.lost:
            lost = sentence("gpu-lost", index=gpu.index)
            yield _of_gpu(f"lost-{gpu.index}", lost, [fix], "error")
        elif gpu.xid is not None and not gpu_xid_errors.is_history(gpu.xid, gpu.xid_at, status.now):
            yield _xid(gpu, gpu.xid, if_it_persists)
        if gpu.ecc_uncorrected:
            errors = sentence("gpu-memory-errors", index=gpu.index)
            details = [sentence("results-wrong"), fix]
            yield _of_gpu(f"ecc-{gpu.index}", errors, details, "error")


def _xid(gpu: GpuSample, number: int, if_it_persists: Sentence) -> Notice:
    at = f"-{gpu.xid_at.timestamp():.0f}" if gpu.xid_at else ""
    is_the_machines = gpu_xid_errors.gravity(number) is gpu_xid_errors.Gravity.MACHINE
    what = sentence("xid", number=number)
    return _of_gpu(
        f"xid-{gpu.index}-{number}{at}",
        sentence("gpu-xid", index=gpu.index),
        [what, if_it_persists] if is_the_machines else [what],
        "error" if is_the_machines else "warning",
    )


def _of_gpu(
    notice_id: str, title: Sentence, details: list[Sentence], level: Literal["error", "warning"]
) -> Notice:
    return Notice(
        id=f"gpu-{notice_id}",
        kind="gpu",
        level=level,
        title=title,
        details=details,
        actions=["panel"],
    )

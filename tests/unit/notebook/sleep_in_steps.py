"""A whole sleep in one process, which can be killed at its nth change of the disk: two kernels,
the record, and what is removed afterwards; and the start of the next server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ec2spawner.notebook.sleep import session_record
from ec2spawner.notebook.sleep.committing import KernelSave, commit, last_complete
from ec2spawner.notebook.sleep.lineage import Lineage
from ec2spawner.notebook.sleep.running_kernels import RunningKernel
from ec2spawner.sleep.saving import save_namespace
from ec2spawner.sleep.storage import earlier, folder, manifest
from ec2spawner.sleep.waking.restoring import Restoring
from ec2spawner.wire import SleepOrder

Session = Mapping[str, Mapping[str, Any]]
"""Variables by notebook."""

CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir"})


def sleep(
    root: Path, session: Session, *, max_bytes: int = 1 << 30, stuck: Sequence[str] = ()
) -> None:
    """`stuck`: kernels that save nothing, as if they ran a cell."""
    before = session_record.read(root)
    known = {each.kernel_id: each.generation for each in before.kernels} if before else {}
    lineage = Lineage(known)
    order = SleepOrder(
        id=str(len(session)),
        trigger="idle",
        until=datetime.now(UTC),
        interrupt_busy=False,
        max_bytes=max_bytes,
    )
    saves = []
    for path, namespace in session.items():
        # A kernel keeps its id where its notebook is renamed.
        name = path.removeprefix("new-")
        kernel = RunningKernel(name, "python3", True, "s", path, path, "notebook")
        save = KernelSave(kernel, folder.kernel_key(path, "python3"))
        saves.append(save)
        if path not in stuck:
            try:
                _save(root, save, namespace, lineage, max_bytes)
            except OSError:
                save.why_not = "failed"
    try:
        commit(root, order, saves, [], lineage, 1.0)
    except OSError:
        return
    record = session_record.read(root)
    assert record is not None
    session_record.remove_unused(root, record)


def _save(
    root: Path, save: KernelSave, namespace: Mapping[str, Any], lineage: Lineage, max_bytes: int
) -> None:
    place = root / "kernels" / save.key
    last = save.last = last_complete(root, save, lineage)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if last is not None and last.parent != place:
        folder.link_into(last, place)
    save.generation = folder.new_generation(place)
    save.has_begun = True
    known = earlier.values(earlier.before(save.generation, [last] if last else []))
    saved = save_namespace(
        dict(namespace),
        save.generation,
        seconds=30,
        max_bytes=max_bytes,
        hidden={},
        known=known,
    )
    save.hear({"kind": "saved", **manifest.summary(saved)})


def start(root: Path) -> dict[str, dict[str, Any]]:
    """What the next server restores; afterwards it removes what is not needed."""
    session_record.remove_incomplete(root, "9")
    record = session_record.read(root)
    if record is None:
        return {}
    found = {}
    for each in record.kernels:
        generation = earlier.newest(root / "kernels" / each.generation)
        namespace: dict[str, Any] = {}
        read = manifest.read(generation)
        restored = Restoring(namespace, generation, read).begin(1 << 30)
        assert all(lost.code == "no-space" for lost in restored.lost), restored.lost
        old = earlier.kept_values(generation, read)
        for name, value in old.items():
            Restoring(namespace, value.folder, manifest.read(value.folder)).pick([name])
        found[each.path] = namespace
    woken = session_record.mark_woken(root, record.session.id, datetime.now(UTC))
    assert woken is not None
    session_record.remove_unused(root, woken)
    return found


def killed_at(number: int, root: Path, work: Callable[[], object]) -> bool:
    """Run this in a child that is killed at its nth change of the folder; whether it was."""
    child = os.fork()
    if child == 0:
        parent, count = os.getppid(), 0

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
            if not (is_write or event in CHANGES) or os.getppid() != parent:
                return
            # Of a removal by a folder's descriptor, the name has no path.
            if any(str(root) in str(each) for each in arguments[:2]) or event == "os.remove":
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(watch)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0

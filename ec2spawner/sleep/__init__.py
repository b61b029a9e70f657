"""Sleep and wake: the variables of a kernel saved to the home, and restored from it.

```python
from ec2spawner import sleep

sleep.save(folder, seconds=60, max_bytes=10**10)
sleep.restore(folder, eager_bytes=10**8)
sleep.register(Model, save_model, load_model)
```

Notebooks have `%sleep`, `%wake`, `%keep` and `%forget`, loaded on our instances and elsewhere
after `%load_ext ec2spawner`. Works in any Python; without dill, what only dill can save is
reported. Importing this package imports none of its modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, TypeVar

__all__ = ["register", "restore", "save"]

T = TypeVar("T")


def save(
    folder: str | os.PathLike[str],
    *,
    seconds: float,
    max_bytes: int,
    asleep: str | os.PathLike[str] = "",
) -> None:
    """Save the variables of this kernel to a new folder, `folder.new_generation`.

    `asleep`: a generation that was to be restored here and could not: its values are kept.

    `seconds`: until the deadline; `max_bytes`: of disk. Sends progress and then the result as
    display data of type `application/vnd.ec2spawner.sleep+json`: `{"kind": "saved", ...}`. Raises
    OSError where the folder cannot be written, `owned.NotOurs` where others can write to it, and
    never for a variable: what could not be saved is in the manifest.
    """
    from pathlib import Path

    from . import kernel, report
    from .storage import manifest

    current = kernel.current()
    progress = report.messages(current.shell)
    saved = current.save(
        Path(folder),
        seconds=seconds,
        max_bytes=max_bytes,
        progress=progress,
        asleep=Path(asleep) if asleep else None,
    )
    message = {"kind": "saved", "folder": str(folder), **manifest.summary(saved)}
    report.send(current.shell, message | {"seconds": round(saved.seconds, 2)})


def restore(folder: str | os.PathLike[str], *, eager_bytes: int) -> None:
    """Restore the variables of a generation: so many bytes now, the rest when it is needed.

    Sends progress and then the result: `{"kind": "restored", ...}`. Raises nothing for what
    cannot be read or restored: the result says why.
    """
    from pathlib import Path

    from . import kernel, report
    from .storage import manifest

    current = kernel.current()
    try:
        progress = report.messages(current.shell)
        found = current.restore(Path(folder), eager_bytes=eager_bytes, progress=progress)
        message = found.message()
    except manifest.Unreadable as why:
        message = {"kind": "restored", "code": "damaged", "detail": str(why)}
    report.send(current.shell, message)


def register(
    type: type[T],  # noqa: A002 - says what it is in a call
    save: Callable[[T, IO[bytes]], None],
    load: Callable[[IO[bytes]], T],
) -> None:
    """Save values of this type, and of its subclasses, by functions of your own.

    The most specific registered type wins. See `values.registry.register`.
    """
    from .values import registry

    registry.register(type, save, load)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ec2spawner.sleep`."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext ec2spawner.sleep`."""
    from .magics import unload

    unload(shell)

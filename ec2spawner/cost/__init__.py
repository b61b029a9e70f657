"""The cost of work: of a cell, a block of code or an epoch.

```python
from ec2spawner import cost

with cost.track("preparing"):
    ...
for epoch in cost.epochs(range(10)):
    ...
cost.now()
cost.on_interruption(save_now)
```

Notebooks have `%%cost` and `%cost`, loaded on our instances and elsewhere after
`%load_ext ec2spawner`. Scripts use the same functions.
The figures are the hub's, from this machine's agent; without an agent only durations are known.
Amounts are in USD, with the machine's disks and public address.
"""

from __future__ import annotations

from typing import Any

from .block import track
from .current import Now, now
from .epochs import epochs
from .interruption import on_interruption

__all__ = ["Now", "epochs", "now", "on_interruption", "track"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ec2spawner.cost`."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext ec2spawner.cost`."""
    from .magics import unload

    unload(shell)

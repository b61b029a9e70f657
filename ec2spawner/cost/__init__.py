"""Cost of the work, not of the hour: of a cell, a block, an epoch.

```python
from ec2spawner import cost

with cost.track("preparing"):
    ...
for epoch in cost.epochs(range(10)):
    ...
cost.now()
```

In a notebook there are `%%cost` and `%cost`: on our instances by themselves, elsewhere after
`%load_ext ec2spawner`. In a script it works the same.
The figures are those of the hub, from this machine's agent; without one, only durations are
known. Amounts in USD are of the machine's time, without its disks.
"""

from __future__ import annotations

from typing import Any

from .block import track
from .current import Now, now
from .epochs import epochs

__all__ = ["Now", "epochs", "now", "track"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ec2spawner.cost`."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext ec2spawner.cost`."""
    from .magics import unload

    unload(shell)

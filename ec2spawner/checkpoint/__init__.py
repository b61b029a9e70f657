"""Loops that survive the end of their machine: saved on a schedule and at a notice, and resumed.

```python
from ec2spawner import checkpoint

for epoch in checkpoint.resumable(range(100), save=save, load=load, every="5m"):
    train(model, epoch)
```

`save(path)` writes the loop's state as a file or folder of that name; `load(path)` reads it back.
Run again, in a new kernel or on another machine, the loop continues after its last checkpoint.
It needs neither Jupyter nor an agent: without one it saves on schedule.
"""

from __future__ import annotations

from .loop import clear, resumable
from .record import CheckpointError, LoopChanged, LoopLeft

__all__ = ["CheckpointError", "LoopChanged", "LoopLeft", "clear", "resumable"]

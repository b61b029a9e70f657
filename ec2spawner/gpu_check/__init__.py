"""Is this machine as fast as it should be? Measures its GPUs, and says so in one line.

`ec2spawner gpu-check` in a terminal, `%gpu_check` in a notebook, and
a short form that the agent runs when its machine boots. The measuring is a process of its own
(`python -m ec2spawner.gpu_check`): no CUDA context stays behind, and a driver that hangs holds up
nobody else.
"""

from __future__ import annotations

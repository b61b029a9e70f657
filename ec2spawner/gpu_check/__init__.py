"""Measures whether the GPUs are as fast as expected, and reports it in one line.

`ec2spawner gpu-check` in a terminal, `%gpu_check` in a notebook, and a short form that the agent
runs at boot. It measures in a separate process (`python -m ec2spawner.gpu_check`), so that no CUDA
context remains and a hanging driver blocks nothing else.
"""

from __future__ import annotations

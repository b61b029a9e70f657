"""How much is read ahead, and how fast."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 16 * 2**30
"""An environment with PyTorch and CUDA's libraries has 5 to 10 GiB."""

MAX_SECONDS: Final = 900.0
"""An instance that runs only to be prepared costs money while it reads."""

BYTES_PER_SECOND: Final = 100 * 2**20
"""Below the 125 MiB/s of a gp3 volume: what else the boot reads finds room beside it."""

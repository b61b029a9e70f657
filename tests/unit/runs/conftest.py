"""jupyter-scheduler is beside the environment: in it, every notebook server would load it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / ".venv/scheduler"))

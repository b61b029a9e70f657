"""The Jupyter Server extension: what only the notebook server can see, and what the browser asks.

Nothing is imported before Jupyter Server asks for the extension, so that the package costs
nothing where it is not used.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .extension import NotebookExtension

    return [{"module": "ec2spawner.notebook.extension", "app": NotebookExtension}]

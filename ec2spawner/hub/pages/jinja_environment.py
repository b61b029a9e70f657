"""The folder of our templates, and the environment that renders our parts of JupyterHub's pages."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...core.text.durations import approximate

TEMPLATES = Path(__file__).parent / "templates"
"""For `JupyterHub.template_paths`: our pages extend its own."""

environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""For what JupyterHub puts on its pages as HTML: every value is escaped."""

environment.filters["duration"] = approximate

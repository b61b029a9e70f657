"""Our templates: where they lie, and how the parts of pages that we make are rendered."""

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
"""For what JupyterHub puts on its pages as HTML: all that is given is escaped."""

environment.filters["duration"] = approximate

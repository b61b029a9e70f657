"""Pages of the hub as JupyterHub renders them, without a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from ec2spawner.hub.pages.jinja_environment import TEMPLATES


def hub_html(name: str, **context: Any) -> str:
    """The page of this template of ours, over JupyterHub's own."""
    stock = FileSystemLoader(Path(DATA_FILES_PATH) / "templates")
    loader = ChoiceLoader(
        [PrefixLoader({"templates": stock}), FileSystemLoader(TEMPLATES), stock],
    )
    base = {"base_url": "/hub/", "static_url": lambda path, **_: path, "parsed_scopes": {}}
    return Environment(loader=loader, autoescape=True).get_template(name).render(base | context)

"""What the lab extension is registered for in each notebook that is open."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.canned_server import KERNEL, until
from tests.e2e.panel_lab import Lab

LONG = "long.ipynb"
NOTEBOOK = ".jp-Notebook:visible .jp-WindowedPanel-outer"
FIRST_VISIBLE = """notebook => {
  const { top } = notebook.getBoundingClientRect();
  const cells = [...notebook.querySelectorAll('.jp-Cell')];
  const first = cells.find(cell => cell.getBoundingClientRect().bottom > top);
  return first ? Number(first.dataset.windowedListIndex) : -1;
}"""
LOSE_KERNEL = """() => {
  const { kernel } = [...window.jupyterapp.shell.widgets('main')]
    .map(each => each.sessionContext?.session).find(each => each?.kernel);
  Object.defineProperty(kernel, 'connectionStatus', {
    configurable: true, get: () => 'disconnected'
  });
  window.reconnected = false;
  kernel.reconnect = async () => {
    delete kernel.connectionStatus;
    delete kernel.reconnect;
    window.reconnected = true;
  };
}"""


def is_scrolled_to_where_it_was(lab: Lab) -> None:
    """When it is opened again; and at each time its missed outputs are asked for."""
    output = {"output_type": "stream", "name": "stdout", "text": "line\n" * 12}
    code = {"cell_type": "code", "metadata": {}, "outputs": [output], "execution_count": 1}
    cells = [code | {"id": f"cell-{number}", "source": "x"} for number in range(40)]
    content = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    file = lab.server.folder / "work" / LONG
    file.write_text(json.dumps(content))
    notebook = lab.page.locator(NOTEBOOK)

    def first_visible() -> int:
        return int(notebook.evaluate(FIRST_VISIBLE))

    def is_remembered(request: Any) -> bool:
        cell = f'"cell":"cell-{first_visible()}"'
        return "/api/workspaces/" in request.url and cell in (request.post_data or "")

    missed = re.compile(rf"/ec2spawner/api/outputs\?path={LONG}")
    try:
        with lab.page.expect_request(missed), lab.in_front(LONG):
            until(lambda: first_visible() == 0)
            with lab.page.expect_request(is_remembered):
                notebook.evaluate("notebook => { notebook.scrollTop = 3000; }")
            seen = first_visible()
            assert seen > 5
        with lab.page.expect_request(missed), lab.in_front(LONG):
            until(lambda: first_visible() == seen)
    finally:
        file.unlink()


def loses_its_kernel(page: Any) -> None:
    """The connection to it, as after a network failure; JupyterLab itself does nothing."""
    page.evaluate(LOSE_KERNEL)


def has_its_kernel_again(page: Any) -> None:
    page.wait_for_function("window.reconnected")

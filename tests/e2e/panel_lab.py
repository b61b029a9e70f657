"""JupyterLab with the panel open, as all tests of the panel share it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.wire import ClusterStatus, History, Idleness, NotebookStatus
from tests.e2e import panel_scenes as scenes
from tests.e2e.canned_server import PANEL, STATUS_URL, Server, choose_theme, idle, status, until

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

WIDTHS = (250, 400, 700)
MINUTE = timedelta(minutes=1)

OPEN = """async path => {
  const opened = await window.jupyterapp.commands.execute('docmanager:open', { path });
  await opened.revealed;
  await opened.sessionContext.ready;
}"""
CLOSE = """async path => {
  const { serviceManager, shell } = window.jupyterapp;
  [...shell.widgets('main')].find(each => each.context?.path === path).dispose();
  const sessions = [...serviceManager.sessions.running()].filter(each => each.path === path);
  await Promise.all(sessions.map(each => serviceManager.sessions.shutdown(each.id)));
}"""


class Lab:
    """JupyterLab with the panel open."""

    def __init__(self, page: Any, server: Server) -> None:
        self.page = page
        self.server = server
        self.panel = page.locator(PANEL)

    def shows(self, answer: NotebookStatus, history: History | None = None) -> Any:
        """The panel, when it has that status."""
        self.server.remembers(history or scenes.last_hour())
        self.server.says(answer)
        with self.page.expect_response(STATUS_URL):
            self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return self.panel

    def choose_theme(self, theme: str) -> None:
        choose_theme(self.page, theme)

    def widen(self, width: int) -> None:
        """Drag the sidebar's edge."""
        handle = self.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:visible").last
        box, panel = handle.bounding_box(), self.panel.bounding_box()
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + box["width"] / 2, y)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + box["width"] / 2 + panel["width"] - width, y, steps=3)
        self.page.mouse.up()
        self.page.mouse.move(400, 600)  # away from the charts, however wide they are
        until(lambda: abs(self.panel.bounding_box()["width"] - width) < 12)

    @contextmanager
    def in_front(self, path: str) -> Iterator[None]:
        """With this notebook and its kernel; afterwards both are gone."""
        self.page.evaluate(OPEN, path)
        try:
            yield
        finally:
            self.page.evaluate(CLOSE, path)

    def shows_cluster(self, cluster: ClusterStatus) -> Any:
        """The section of the cluster, once the panel has asked for it."""
        self.server.has_cluster(cluster)
        with self.page.expect_response(re.compile(r"/api/cluster")):
            self.page.evaluate("window.jupyterapp.shell.collapseRight()")
            self.page.evaluate("window.jupyterapp.shell.activateById('ec2spawner-panel')")
        return self.panel.get_by_role("region", name="Cluster")

    def charts_are_drawn(self, count: int) -> None:
        expect(self.panel.locator(".ec2-Chart canvas")).to_have_count(count)


def working(**changes: Any) -> NotebookStatus:
    """The sketch's server: an A10G on spot that trains."""
    values: dict[str, Any] = {"cost": scenes.cost(), "telemetry": scenes.machine(scenes.gpu())}
    return status(**values | changes)


def warned() -> Idleness:
    """The server stops in ten minutes from now: a file is imported long before its tests run."""
    return idle(9.7 * MINUTE, 50 * MINUTE, 10 * MINUTE)


def lines(panel: Any) -> dict[str, str]:
    """Each name with its value, with every kind of space as one."""
    found = {}
    for line in panel.locator(".ec2-Line:visible").all():
        name, *_, value = [re.sub(r"\s+", " ", t).strip() for t in line.inner_text().split("\n")]
        found[name] = value
    return found

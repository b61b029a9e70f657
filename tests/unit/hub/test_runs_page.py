"""The page of one's runs is there while a user may have runs, or still has some."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.hub.app import service
from ec2spawner.hub.pages import runs_page
from ec2spawner.hub.pages.runs_page import RunsPage
from tests.unit.provisioner.runs.submitted import submit
from tests.unit.provisioner.world import World

from .test_cluster_refusal import options_with

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def _no_hub_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runs_page, "created_at", lambda user: None)
    yield
    service.publish(None)


def publish(at_once: int, provisioner: Any) -> None:
    """A hub that executes so many runs at once."""
    nothing: Any = None
    options = options_with(runs={"at_once": at_once})
    hub = service.HubService(options=options, seal=nothing, verifier=nothing)
    hub.provisioner = provisioner
    service.publish(hub)


class Page(RunsPage):
    """Of ada, in a JupyterHub that renders only whether there are runs."""

    current_user = SimpleNamespace(name="ada")

    def __init__(self) -> None:
        self.has_runs: bool | None = None

    async def render_template(self, name: str, **variables: Any) -> str:
        self.has_runs = variables["has_runs"]
        return ""

    def finish(self, chunk: Any = None) -> Any:
        pass


async def shown() -> bool | None:
    page = Page()
    await page.get()
    return page.has_runs


async def test_without_runs_the_page_has_none_where_the_hub_allows_none(world: World) -> None:
    publish(4, world.provisioner)
    assert await shown()
    publish(0, world.provisioner)
    assert not await shown()
    publish(0, None)
    assert not await shown()


async def test_runs_from_before_can_be_cancelled_where_the_hub_allows_none(world: World) -> None:
    publish(0, world.provisioner)
    await submit(world, user="bea")
    assert not await shown()
    await submit(world, user="ada")
    assert await shown()

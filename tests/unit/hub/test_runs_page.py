"""The page of one's runs is there while a user may have runs, or still has some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub

from ec2spawner.hub.app import service
from ec2spawner.hub.pages.runs_page import RunsPage
from ec2spawner.hub.pages.template_vars import define
from tests.unit.provisioner.runs.submitted import submit
from tests.unit.provisioner.world import World
from tests.user_accounts import fake_user

from .hub_html import hub_html
from .test_cluster_refusal import options_with

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def _no_hub_is_left() -> Iterator[None]:
    yield
    service.publish(None)


def publish(at_once: int, provisioner: Any) -> None:
    """A hub that executes so many runs at once."""
    nothing: Any = None
    options = options_with(runs={"at_once": at_once})
    hub = service.HubService(options=options, seal=nothing, verifier=nothing, accounts=nothing)
    hub.provisioner = provisioner
    service.publish(hub)


class Page(RunsPage):
    """Of ada, in a JupyterHub of which only its templates are there."""

    current_user = fake_user("ada", spawner=None)
    db = None

    def __init__(self) -> None:
        self.html = ""
        self.db = orm.new_session_factory("sqlite:///:memory:")()

    async def render_template(self, name: str, **variables: Any) -> str:
        app = JupyterHub()
        define(app)
        of_all = {name: value(self.current_user) for name, value in app.template_vars.items()}
        return hub_html(name, user=self.current_user, **of_all, **variables)

    def finish(self, chunk: Any = None) -> Any:
        self.html = chunk


async def words() -> str:
    """What the page says, without its scripts and styles."""
    page = Page()
    await page.get()
    html = re.sub(r"<(script|style)\b.*?</\1>", "", page.html, flags=re.S)
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


async def shown() -> bool:
    """Whether the page has runs."""
    return "This hub has no runs" not in await words()


async def test_without_runs_the_page_has_none_where_the_hub_allows_none(world: World) -> None:
    publish(4, world.provisioner)
    assert await shown()
    publish(0, world.provisioner)
    assert not await shown()
    publish(0, None)
    assert not await shown()


async def test_a_hub_without_runs_says_whom_to_ask(world: World) -> None:
    publish(0, world.provisioner)
    said = await words()
    assert "This hub has no runs:" in said
    assert "Ask an admin of this JupyterHub to allow them." in said
    assert "Loading" not in said
    assert "Usage" in said
    assert " Runs " not in said, "no link to them"
    publish(4, world.provisioner)
    said = await words()
    assert "Loading" in said
    assert "Ask an admin" not in said
    assert "Usage Runs" in said


async def test_runs_from_before_can_be_cancelled_where_the_hub_allows_none(world: World) -> None:
    publish(0, world.provisioner)
    await submit(world, user="bea")
    assert not await shown()
    await submit(world, user="ada")
    assert await shown()

"""What a real boot needs: a wheel of this package, and a hub that the instance reaches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.boot import real_instance
from tests.boot.real_instance import STOCK, Image, RealInstance, Vpc
from tests.integration.agent.lease_on_instance import StubHub

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def _can_boot() -> None:
    if reason := real_instance.why_not():
        pytest.skip(f"NO REAL BOOT: {reason}")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package, as `agent_package` would name it."""
    folder = tmp_path_factory.mktemp("wheel")
    options = "--quiet --no-deps --no-build-isolation --disable-pip-version-check".split()
    command = [sys.executable, "-m", "pip", "wheel", *options, f"--wheel-dir={folder}", "."]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    [wheel] = folder.iterdir()
    return wheel


@pytest.fixture
def vpc() -> Iterator[Vpc]:
    with Vpc() as vpc:
        yield vpc


@pytest.fixture
async def hub(vpc: Vpc) -> AsyncIterator[StubHub]:
    hub = StubHub()
    runner = web.AppRunner(hub.application(), shutdown_timeout=0.1)
    await runner.setup()
    listening = vpc.listen(real_instance.HUB_ADDRESS, real_instance.HUB_PORT)
    await web.SockSite(runner, listening).start()
    hub.url = f"http://{real_instance.HUB_ADDRESS}:{real_instance.HUB_PORT}/hub/api"
    yield hub
    hub.notify_changed()
    await runner.cleanup()


@pytest.fixture
async def launch(tmp_path: Path, vpc: Vpc) -> AsyncIterator[Callable[..., RealInstance]]:
    """Makes an instance of a user-data, switched off; `wheels` are its package index."""
    made: list[RealInstance] = []

    def launch(user_data: str, image: Image = STOCK) -> RealInstance:
        folder = tmp_path / f"instance-{len(made)}"
        folder.mkdir()
        instance = RealInstance(folder, vpc, user_data, image)
        made.append(instance)
        instance.launch()
        return instance

    yield launch
    for instance in made:
        print(instance.console[-6000:])
        await instance.terminate()

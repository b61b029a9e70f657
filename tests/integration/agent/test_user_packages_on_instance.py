"""What a user installs with pip in a notebook: usable at once, after a stop, and harmless."""

from __future__ import annotations

import pytest

from ec2spawner.notebook.kernels.home_environment import HomeEnvironment
from ec2spawner.wire import HomeMount, Stop
from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import API_TOKEN, Machine, StubHub, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed
from tests.own_wheels import make_wheel

VOLUME = "vol-0123456789abcdef0"


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


async def start(machine: Machine, hub: StubHub) -> None:
    hub.start_anew()
    hub.events.clear()
    await machine.boot()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id=VOLUME)))
    await until(lambda: hub.event("ready"), what="ready")


async def stop(machine: Machine, hub: StubHub) -> None:
    hub.stop = Stop(reason="user", message="You stopped it.")
    hub.notify_changed()
    await until(lambda: hub.event("stopped"), what="stopped")
    await machine.shut_down()
    hub.stop = None


@pytest.mark.nightly(
    guard="tests/unit/notebook/test_home_environment.py::"
    "test_what_the_user_installs_is_not_seen_by_the_server"
)
async def test_packages_stay_in_the_home_and_cannot_break_the_server(
    machine: Machine, hub: StubHub
) -> None:
    home = HomeEnvironment.of(machine.volume(VOLUME))
    of_another_python = home.folder.parent / "python3.8" / "lib" / "python3.8" / "site-packages"
    (of_another_python / "einops-1.0.dist-info").mkdir(parents=True)
    one = make_wheel(machine.root / "wheels", "ownpackage", "def main(): print('own', __file__)")
    # What the notebook server itself imports, in a version that fails.
    bad = make_wheel(machine.root / "wheels", "jupyter_server", "raise SystemExit('broken')")
    install = f"install --quiet --disable-pip-version-check --no-index --no-deps {bad.parent}/"

    await start(machine, hub)
    assert "installed with python3.8 are not used" in machine.log()
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
        said = printed(await kernel.run(f"%pip {install}{one.name}\nimport ownpackage"))
        assert "rror" not in said
        assert str(home.site_packages) in printed(await kernel.run("ownpackage.main()")).replace(
            str(machine.home), str(home.folder.parents[1])
        )
        assert "own /" in printed(await kernel.run("!ownpackage"))
        assert "rror" not in printed(await kernel.run(f"!pip {install}{bad.name}"))
        # The image's packages are there, and the extensions that it loads in each IPython.
        assert "rror" not in printed(await kernel.run("import jupyterlab, ec2spawner"))
        await ada.type("python -c 'import ownpackage; print(1)' > from-terminal; pip list >> log")
        file = machine.home / "from-terminal"
        await until(lambda: file.exists() and file.read_text() == "1\n", what="the terminal's")
    await stop(machine, hub)

    # Another image of the same Python version, whose interpreter lies elsewhere.
    (home.programs / "python").unlink()
    (home.programs / "python").symlink_to("/nowhere/python")
    await start(machine, hub)
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
        assert "own /" in printed(await kernel.run("import ownpackage; ownpackage.main()"))
        assert "broken" in printed(await kernel.run("import jupyter_server"))
        assert "rror" not in printed(await kernel.run("!pip uninstall --yes jupyter_server"))
    await stop(machine, hub)


async def test_a_home_that_takes_no_packages_still_starts(machine: Machine, hub: StubHub) -> None:
    (machine.volume(VOLUME) / ".ec2spawner").write_text("not a folder")
    await start(machine, hub)
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernel = Kernel(ada, await ada.start_notebook("a.ipynb"))
        assert "2\n" in printed(await kernel.run("print(1 + 1)"))
    assert "none can be installed there" in machine.log()
    await stop(machine, hub)

"""A machine becomes a hub by the cloud-init of `configs/aws`, all of it on a real systemd."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yarl

from tests.boot import real_instance
from tests.boot.real_instance import Image, RealInstance, Vpc
from tests.harness import Embedded, end, until

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
CLOUD_INIT = REPOSITORY / "configs/aws/cloud-init.yaml"
URL = f"https://{real_instance.ADDRESS}"
SET_UP_SECONDS = 600.0


@pytest.fixture(scope="session")
def archive() -> Path:
    """What the machine installs, as folders of packages."""
    command = [str(Path(__file__).with_name("make_hub_archive.sh"))]
    made = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if made.returncode:
        pytest.skip(f"NO BOOT OF A HUB: {made.stderr}")
    return Path(made.stdout.split()[-1])


@pytest.fixture
async def embedded(tmp_path: Path, vpc: Vpc) -> AsyncIterator[Embedded]:
    """AWS, as the machine reaches it: on its own loopback."""
    embedded = await Embedded(tmp_path / "embedded").start()
    port = urlsplit(embedded.described["ec2_endpoint"]).port
    assert port is not None

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pipe(reader, back), pipe(there, writer))

    server = await asyncio.start_server(forward, sock=vpc.listen_inside(port))
    yield embedded
    server.close()
    await end(embedded.process)


def cloud_init(wheel: Path, described: dict[str, Any]) -> str:
    """The file, with what an admin fills in, and with keys in place of the machine's role."""
    values = {
        "HUB_PACKAGE": f"ec2spawner @ file:///srv/{wheel.name}",
        "HUB_SUBNETS": " ".join(described["subnets"]),
        "HUB_SECURITY_GROUPS": described["security_group"],
    }
    text = CLOUD_INIT.read_text()
    for name, value in values.items():
        text, times = re.subn(rf'(?m)^( +){name}=".*"$', rf'\1{name}="{value}"', text)
        assert times == 1, name
    keys = (
        f'AWS_ENDPOINT_URL="{described["ec2_endpoint"]}"',
        f'AWS_ACCESS_KEY_ID="{described["aws_access_key_id"]}"',
        f'AWS_SECRET_ACCESS_KEY="{described["aws_secret_access_key"]}"',
    )
    before = "      HUB_NAME="
    assert before in text
    return text.replace(before, "".join(f"      {key}\n" for key in keys) + before, 1)


async def test_a_machine_becomes_a_hub(
    launch: Callable[..., RealInstance], embedded: Embedded, vpc: Vpc, wheel: Path, archive: Path
) -> None:
    machine = launch(cloud_init(wheel, embedded.described), Image(archive=archive / "archive"))
    shutil.copy(wheel, machine.disk / "srv")
    shutil.copytree(archive / "npm", machine.disk / "root/.npm")
    shutil.copy(archive / "npmrc", machine.disk / "root/.npmrc")
    machine.start()
    await machine.until(machine.has_booted, SET_UP_SECONDS, "a hub")
    assert "update-hub failed" not in machine.console
    assert machine.run("cloud-init status") == "status: done"
    assert machine.run("systemctl is-system-running --wait") == "running"

    # A user logs in from outside, over TLS with the certificate that the machine made.
    trust = ssl.create_default_context(cadata=machine.run("cat /etc/jupyterhub/tls/cert.pem"))
    secrets = dict(
        line.split("=", 1) for line in machine.run("cat /etc/jupyterhub/secrets.env").splitlines()
    )
    jar = aiohttp.CookieJar(unsafe=True)  # of an address
    connector = vpc.connector(trust)
    async with aiohttp.ClientSession(URL, connector=connector, cookie_jar=jar) as browser:
        await log_in(browser, secrets["HUB_USER_PASSWORD"])
        # The first page after a start may wait for what AWS offers.
        await until(lambda: shows(browser, "/hub/spawn", "T4, 16 GB"), 60, "the choice of machines")

    # It comes back after a reboot, and an upgrade may be repeated.
    await machine.reboot()
    await machine.until(lambda: machine.has_booted(2), 90, "the machine after a reboot")
    machine.run("update-hub")
    assert machine.run("systemctl is-active jupyterhub jupyterhub-proxy").split() == ["active"] * 2


async def shows(browser: aiohttp.ClientSession, path: str, text: str) -> bool:
    with contextlib.suppress(aiohttp.ClientConnectionError):
        async with browser.get(path) as page:
            return page.status == 200 and text in await page.text()
    return False


async def log_in(browser: aiohttp.ClientSession, password: str) -> None:
    await until(lambda: shows(browser, "/hub/login", "password"), 60, "the login page")
    cookies = browser.cookie_jar.filter_cookies(yarl.URL(f"{URL}/hub/login"))
    form = {"username": "ann", "password": password, "_xsrf": cookies["_xsrf"].value}
    async with browser.post("/hub/login?next=%2Fhub%2Fhome", data=form) as page:
        assert page.status == 200
        assert page.url.path == "/hub/home"

"""Pages of other sites, in the browser of the demo's user, change and learn nothing."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
import pytest_asyncio

from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS
from tests.e2e.running_demo import RunningDemo
from tests.harness import until

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(seconds=40),
    pytest.mark.asyncio(loop_scope="module"),
]

USER = "ann"
EVIL = "evil.test"
"""A name of the attacker's, which the browser resolves to whatever the attacker likes."""

SEND = """async ([url, method, mode, body, type]) => {
  try {
    const headers = type ? { "Content-Type": type } : {};
    const reply = await fetch(url, { method, mode, body, headers, credentials: "include" });
    return [reply.type, reply.status, await reply.text()];
  } catch (error) {
    return ["refused", 0, String(error)];
  }
}"""

SUBMIT = """([url, fields]) => {
  const form = document.createElement("form");
  form.method = "POST";
  form.action = url;
  for (const [name, value] of Object.entries(fields)) {
    form.append(Object.assign(document.createElement("input"), { name, value, type: "hidden" }));
  }
  document.body.append(form);
  form.submit();
}"""

OPENS = """(url) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => resolve(true);
  socket.onerror = () => resolve(false);
})"""


class Blank(BaseHTTPRequestHandler):
    """The attacker's site: a page whose scripts the test writes."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>kittens</title>")

    def log_message(self, *args: Any) -> None:
        pass


class Target:
    """A demo in which one server runs."""

    def __init__(self, demo: RunningDemo, instance: dict[str, Any]) -> None:
        self.demo = demo
        self.instance = instance
        self.hub_port = urlsplit(demo.hub_url).port
        self.ec2_port = urlsplit(demo.ec2_endpoint).port
        self.image_id = _image_of(demo)

    @property
    def launch(self) -> dict[str, str]:
        """The form that would run a script, with all that an attacker might have guessed."""
        return {
            "Action": "RunInstances",
            "Version": "2016-11-15",
            "ImageId": self.image_id,
            "InstanceType": "t3.micro",
            "MinCount": "1",
            "MaxCount": "1",
            "UserData": "IyEvYmluL3NoCnRvdWNoIC90bXAvcHduZWQK",
        }

    async def is_untouched(self) -> None:
        """One instance, as before; no call but the hub's own listings; the server still runs."""
        [instance] = await self.demo.instances()
        assert instance["instance_id"] == self.instance["instance_id"]
        assert instance["state"] == "running"
        calls = await self.demo.control("calls")
        # The hub repeats a call where EC2 does not know the new launch template yet.
        launched = [c for c in calls if (c["action"], c["outcome"]) == ("CreateFleet", "ok")]
        assert len(launched) == 1
        assert not [call for call in calls if call["action"] == "RunInstances"]
        assert (await self.demo.control("limits", {}))["token_buckets"] is True
        reply = await hub_api(self.demo).get(f"/users/{USER}")
        assert reply.json()["servers"][""]["ready"]


def _image_of(demo: RunningDemo) -> str:
    images = demo.client("ec2").describe_images()["Images"]
    return str(images[0]["ImageId"])


def hub_api(demo: RunningDemo) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=False,
        base_url=f"{demo.hub_url}/hub/api",
        headers={"Authorization": f"token {demo.described['admin_token']}"},
        timeout=60,
    )


@pytest.fixture(scope="module")
def attackers_site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://{EVIL}:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    demo = RunningDemo(tmp_path_factory.mktemp("demo"), boot_seconds=0)
    try:
        async with hub_api(demo) as api:
            (await api.post(f"/users/{USER}")).raise_for_status()
            (await api.post(f"/users/{USER}/server")).raise_for_status()

            async def ready() -> bool:
                return bool((await api.get(f"/users/{USER}")).json()["servers"][""]["ready"])

            await until(ready, 60, "the server")
        [instance] = await demo.instances()
        yield Target(demo, instance)
    finally:
        demo.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(target: Target, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """Logged in to the hub; the attacker's names mean the addresses of the demo."""
    names = f"MAP {EVIL} 127.0.0.1, MAP instance.{EVIL} {target.instance['address']}"
    home = tmp_path_factory.mktemp("chromium")
    async with playwright.async_playwright() as driver:
        chromium = await driver.chromium.launch(
            executable_path=CHROMIUM,
            args=[*CHROMIUM_FLAGS, f"--host-resolver-rules={names}"],
            env=os.environ | {"HOME": str(home)},
        )
        context = await chromium.new_context()
        page = await context.new_page()
        await page.goto(f"{target.demo.hub_url}/hub/login")
        await page.get_by_label("Username").fill(USER)
        await page.get_by_label("Password", exact=False).first.fill(target.demo.password)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/user/{USER}/**")
        yield context
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="module")
async def evil_page(browser: Any, attackers_site: str) -> AsyncIterator[Any]:
    page = await browser.new_page()
    await page.goto(attackers_site)
    yield page
    await page.close()


async def test_a_page_can_neither_send_requests_nor_read_responses(
    target: Target, evil_page: Any
) -> None:
    ec2, hub = target.demo.ec2_endpoint, target.demo.hub_url
    metadata = f"http://{target.instance['address']}:1338"
    form, text = "application/x-www-form-urlencoded", "text/plain"
    attacks = [
        (f"{ec2}/", "POST", urlencode(target.launch), form),
        (f"{ec2}/moto-api/reset", "POST", "", text),
        (f"{ec2}/embedded/limits", "POST", '{"token_buckets": false}', text),
        (f"{ec2}/embedded/interrupt/{target.instance['instance_id']}", "POST", "{}", text),
        (f"{ec2}/moto-api/data.json", "GET", None, None),
        (f"{ec2}/embedded/calls", "GET", None, None),
        (f"{ec2}/some-bucket/key", "PUT", "x", text),
        (f"{metadata}/latest/api/token", "PUT", "", None),
        (f"{metadata}/embedded/power/off", "PUT", "", None),
        (f"{metadata}/embedded/power/off", "POST", "", text),
        (f"{hub}/hub/api/users/{USER}/server", "DELETE", None, None),
        (f"{hub}/hub/api/users/{USER}/server", "POST", "{}", text),
        (f"{hub}/user/{USER}/api/terminals", "POST", "{}", text),
        (f"{hub}/user/{USER}/api/contents", "GET", None, None),
    ]
    for url, method, body, kind in attacks:
        for mode in ("no-cors", "cors"):
            answer = await evil_page.evaluate(SEND, [url, method, mode, body, kind])
            assert answer[0] in {"opaque", "refused"}, f"{method} {url} can be read: {answer}"
    await target.is_untouched()


async def test_a_cross_site_form_does_nothing(
    target: Target, browser: Any, attackers_site: str
) -> None:
    ec2, hub = target.demo.ec2_endpoint, target.demo.hub_url
    forms = [
        (f"{ec2}/", target.launch),
        (f"{ec2}/moto-api/reset", {}),
        (f"{ec2}/embedded/limits", {'{"token_buckets": false, "x": "': '"}'}),
        (f"http://{target.instance['address']}:1338/embedded/power/off", {}),
        (f"{hub}/hub/login", {"username": "admin", "password": "any"}),
        (f"{hub}/hub/spawn/{USER}", {"profile": "t4"}),
        (f"{hub}/hub/logout", {}),
    ]
    for url, fields in forms:
        page = await browser.new_page()
        await page.goto(attackers_site)
        async with page.expect_navigation() as answered:
            await page.evaluate(SUBMIT, [url, fields])
        assert (await answered.value).status in {403, 404, 405}, url
        await page.close()
    await target.is_untouched()


async def test_a_page_opens_no_terminal(target: Target, evil_page: Any) -> None:
    host = f"127.0.0.1:{target.hub_port}/user/{USER}"
    for path in ("terminals/websocket/1", "api/kernels/x/channels", "api/events/subscribe"):
        assert not await evil_page.evaluate(OPENS, f"ws://{host}/{path}")
    assert not await evil_page.evaluate(OPENS, f"ws://127.0.0.1:{target.ec2_port}/")


async def test_dns_rebinding_is_refused(target: Target, browser: Any) -> None:
    """DNS rebinding: the page is on the same origin as what it attacks."""
    hub, ec2 = f"http://{EVIL}:{target.hub_port}", f"http://{EVIL}:{target.ec2_port}"
    metadata = f"http://instance.{EVIL}:1338"
    notebook = f"http://instance.{EVIL}:{_notebook_port(target)}"
    page = await browser.new_page()
    for url in (
        f"{hub}/",
        f"{hub}/hub/login",
        f"{hub}/hub/api/",
        f"{hub}/user/{USER}/lab",
        f"{hub}/user/{USER}/api",
        f"{notebook}/user/{USER}/api",
        f"{ec2}/moto-api/data.json",
        f"{ec2}/embedded/calls",
        f"{metadata}/latest/meta-data/",
    ):
        shown = await page.goto(url)
        assert shown.status == 403, url
    status = (await page.evaluate(SEND, [f"{metadata}/latest/api/token", "PUT", "cors", "", None]))[
        1
    ]
    assert status == 403
    await page.goto(f"{ec2}/")
    order = [
        f"{ec2}/",
        "POST",
        "cors",
        urlencode(target.launch),
        "application/x-www-form-urlencoded",
    ]
    assert (await page.evaluate(SEND, order))[1] == 403
    await page.close()
    await target.is_untouched()


def _notebook_port(target: Target) -> int:
    address = target.instance["address"]
    [port] = [port for ip, port in target.demo.listening() if ip == address and port != 1338]
    return port


async def test_no_port_accepts_an_unknown_host_name(target: Target) -> None:
    """Every listening port, including unexpected ones."""
    addresses = target.demo.listening()
    assert len(addresses) >= 6, "EC2, proxy and its API, hub, metadata service and notebook listen"
    async with httpx.AsyncClient(verify=False, timeout=3) as client:
        for ip, port in addresses:
            assert ip.startswith("127."), f"{ip}:{port} can be reached from other machines"
            try:
                reply = await client.get(f"http://{ip}:{port}/", headers={"Host": EVIL})
            except httpx.HTTPError:
                continue  # speaks no HTTP: the listener that holds a block of addresses
            assert reply.status_code in {403, 404}, f"{ip}:{port} {reply.text}"
            assert "access-control-allow-origin" not in reply.headers


async def test_other_local_users_find_no_credentials(target: Target) -> None:
    """In no command line, and in no file that they may read."""
    names = ("password", "admin_token", "control_token", "aws_secret_access_key")
    secrets = {name: target.demo.described[name] for name in names}
    lines = [json.dumps(process.cmdline()) for process in target.demo.processes()]
    for name, secret in secrets.items():
        assert not [line for line in lines if secret in line], name
    for path in target.demo.data_dir.rglob("*"):
        content = b""
        with contextlib.suppress(FileNotFoundError):  # what a process removes meanwhile
            if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o044:
                content = path.read_bytes()
        assert not [n for n, secret in secrets.items() if secret.encode() in content], path
    for path in (*target.demo.data_dir.glob("*.sqlite*"), *target.demo.data_dir.glob("*.log")):
        assert path.stat().st_mode & 0o077 == 0, path
    assert target.demo.data_dir.stat().st_mode & 0o066 == 0

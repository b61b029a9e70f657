"""What responds at the hub's address: the hub, another hub, another service, or nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from ec2spawner.check.address import judge_address
from ec2spawner.check.finding import State
from ec2spawner.check.hub_config import HubConfig
from ec2spawner.config import Options
from tests.harness import free_ports

OPTION = "c.JupyterHub.hub_bind_url"

CONFIG = HubConfig(
    options=Options.model_construct(),
    api_url="",
    address_option=OPTION,
    api_path="/hub/api",
    bind_ip="",
    bind_port=0,
    max_servers=0,
)

VERSION = {"/hub/api/": (200, json.dumps({"version": "6.1.1"}))}
OURS = {**VERSION, "/hub/api/ec2/claims": (405, "")}


def config(host: str, port: int, **more: Any) -> HubConfig:
    url = f"http://{host}:{port}/hub/api"
    return replace(CONFIG, api_url=url, bind_port=port, **more)


@pytest.mark.parametrize(
    ("answers", "state", "said"),
    [
        (OURS, State.OK, "JupyterHub 6.1.1 with ec2spawner"),
        (VERSION, State.WARNING, "JupyterHub 6.1.1 without ec2spawner"),
        ({}, State.FAILED, "answers HTTP 404"),
        ({"/hub/api/": (302, "")}, State.FAILED, "answers HTTP 302"),
        ({"/hub/api/": (200, "<h1>It works!</h1>")}, State.FAILED, "something else is there"),
        ({"/hub/api/": (200, "[]")}, State.FAILED, "something else is there"),
        ({"/hub/api/": (200, "x" * 10**6)}, State.FAILED, "does not answer as a hub"),
    ],
)
async def test_the_service_at_the_address_is_named(
    answers: Mapping[str, tuple[int, str]], state: State, said: str
) -> None:
    class Handler(RequestHandler):
        def get(self) -> None:
            status, body = answers.get(self.request.path, (404, "<h1>Not found</h1>"))
            self.set_status(status)
            self.finish(body)

    [port] = free_ports(1)
    server = HTTPServer(Application([(".*", Handler)], log_function=lambda _: None))
    server.listen(port, "127.0.0.1")
    try:
        finding = await judge_address(config("127.0.0.1", port))
    finally:
        server.stop()
        await server.close_all_connections()
    assert finding.state is state, finding
    assert said in finding.said
    assert (state is State.OK) == (finding.fix == "")


async def test_a_service_without_http_is_foreign() -> None:
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        finding = await judge_address(config("127.0.0.1", port))
    assert finding.state is State.FAILED
    assert "does not answer as a hub" in finding.said


async def test_without_a_running_hub_the_address_may_be_local_or_not() -> None:
    [port] = free_ports(1)
    here = await judge_address(config("127.0.0.1", port))
    assert (here.state, "not running" in here.said) == (State.OK, True)
    elsewhere = await judge_address(config("127.77.77.78", port, bind_ip="127.77.77.77"))
    assert elsewhere.state is State.FAILED
    assert f'{OPTION} = "http://<private address of the hub>:8081"' in elsewhere.fix
    in_front = replace(config("127.0.0.1", port), bind_port=port + 1)
    assert (await judge_address(in_front)).state is State.UNPROVED


async def test_an_unresolvable_name_fails() -> None:
    finding = await judge_address(config("hub.invalid", 8081))
    assert finding.state is State.FAILED
    assert "hub.invalid has no address" in finding.said

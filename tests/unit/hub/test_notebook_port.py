"""Whether the hub reaches a notebook's port: `ec2spawner.hub.spawn.notebook_port`."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from ec2spawner.embedded.runtime.packet_filter_on_instance import black_hole
from ec2spawner.hub.spawn.notebook_port import NotebookNotReached, check_notebook_port


async def test_a_port_that_drops_packets_is_not_reached() -> None:
    with ExitStack() as opened:
        listener, *_ = [opened.enter_context(each) for each in black_hole(("127.0.0.1", 0))]
        port = listener.getsockname()[1]
        with pytest.raises(NotebookNotReached, match=f"127.0.0.1:{port}.*security group"):
            await check_notebook_port(f"http://127.0.0.1:{port}", timeout=0.2)


async def test_what_listens_or_refuses_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        await check_notebook_port(url, timeout=5)
    await check_notebook_port(url, timeout=5)

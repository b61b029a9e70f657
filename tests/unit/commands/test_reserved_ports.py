"""A reserved port: nobody else's, and free for the process that it is meant for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ec2spawner.reserved_ports import port_of, reserve, reserved_ports


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listen(port: int) -> socket.socket:
    """As node, tornado and asyncio listen."""
    return socket.create_server(("127.0.0.1", port))


def test_no_port_is_given_twice(held: ExitStack) -> None:
    ports = [port_of(held.enter_context(reserve())) for _ in range(500)]
    assert len(set(ports)) == 500


def test_nobody_who_wants_any_port_gets_a_reserved_one(held: ExitStack) -> None:
    reserved = {port_of(held.enter_context(reserve())) for _ in range(100)}
    others = [held.enter_context(listen(0)) for _ in range(500)]
    assert reserved.isdisjoint(port_of(each) for each in others)
    server = others[0]
    callers = [
        held.enter_context(socket.create_connection(server.getsockname())) for _ in range(90)
    ]
    assert reserved.isdisjoint(port_of(each) for each in callers)


def test_a_server_listens_on_it_again_and_again(held: ExitStack) -> None:
    """A hub keeps its address over restarts, connections that wait for their end included."""
    [port] = held.enter_context(reserved_ports(1))
    for _ in range(3):
        with listen(port) as server, socket.create_connection(("127.0.0.1", port)) as caller:
            answering, _address = server.accept()
            answering.close()
            assert caller.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_a_port_in_use_is_refused(held: ExitStack) -> None:
    server = held.enter_context(listen(0))
    with pytest.raises(OSError, match="in use"):
        reserve(port=port_of(server))

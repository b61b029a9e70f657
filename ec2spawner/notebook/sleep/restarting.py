"""Runs cells again in a kernel that was restored, where their user asked for that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from ...sleep import restart
from ...sleep.storage import owned
from .kernel_call import until_subscribed

log = logging.getLogger(__name__)

TAKE_SECONDS: Final = 10.0
"""For a small file of the home to be read and written back."""

BEGIN_SECONDS: Final = 10.0
"""For the kernel to begin with the first cell. It has received all of them then."""


async def take(notebook: str, kernel_id: str) -> list[restart.Cell]:
    """The cells to run again in this kernel of this notebook. None of them is found again, so one
    that ends its kernel or its machine does not do so at each wake."""
    try:
        async with asyncio.timeout(TAKE_SECONDS):
            return await asyncio.to_thread(restart.take, notebook, kernel_id)
    except (OSError, owned.NotOurs) as error:  # TimeoutError is an OSError
        log.warning("ec2spawner: the cells to run again cannot be read: %s", error)
        return []


Asked = Callable[[str, Any, Mapping[str, Any], str], None]
"""Called with each request before it is sent: the kernel's id, Jupyter's kernel manager of it, the
request's header, and the id of the cell."""


async def ask(kernel_id: str, kernel: Any, cells: Sequence[restart.Cell], asked: Asked) -> None:
    """Ask a kernel to run cells as a page would: it counts as busy, and open pages hear it.

    Returns when it has begun, not when it has ended. `kernel` is Jupyter's kernel manager of one
    kernel.
    """
    client = kernel.client()
    client.start_channels(stdin=False, hb=False)
    try:
        requests = [_request(client.session, each) for each in cells]
        # Before waiting: the recorder subscribes to the kernel's messages, too.
        for cell, request in zip(cells, requests, strict=True):
            if cell.cell_id:
                asked(kernel_id, kernel, request["header"], cell.cell_id)
        await until_subscribed(client)
        async with asyncio.timeout(BEGIN_SECONDS):
            await _introduce(kernel, client)
        for request in requests:
            client.shell_channel.send(request)
        async with asyncio.timeout(BEGIN_SECONDS):
            await _until_begun(client, requests[0]["header"]["msg_id"])
    except TimeoutError:
        log.warning("ec2spawner: a kernel has not begun with its cells")  # a page was faster
    finally:
        client.stop_channels()


async def _introduce(kernel: Any, client: Any) -> None:
    """Let pages connect while the cells run.

    Before the first page connects, Jupyter Server asks the kernel for its information on the shell
    channel, and waits for a running cell up to a minute. It keeps the reply here.
    """
    if hasattr(kernel, "_kernel_info_future"):
        return  # a page has asked already
    request = client.session.msg("kernel_info_request")
    client.shell_channel.send(request)
    while True:
        reply = await client.shell_channel.get_msg(timeout=None)
        if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            break
    if not hasattr(kernel, "_kernel_info_future"):
        kernel._kernel_info_future = Future()
        kernel._kernel_info_future.set_result(reply["content"])


def _request(session: Any, cell: restart.Cell) -> dict[str, Any]:
    content = {
        "code": cell.code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    metadata: dict[str, Any] = {restart.BY_WAKE: True}
    if cell.cell_id:
        metadata["cellId"] = cell.cell_id
    request: dict[str, Any] = session.msg("execute_request", content, metadata=metadata)
    return request


async def _until_begun(client: Any, message_id: str) -> None:
    while True:
        message = await client.iopub_channel.get_msg(timeout=None)
        if message["parent_header"].get("msg_id") == message_id:
            return

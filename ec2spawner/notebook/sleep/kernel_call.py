"""Runs code of ours in a kernel, unseen by its notebook, and hears what the code reports."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from queue import Empty
from typing import Any

MIME = "application/vnd.ec2spawner.sleep+json"
"""As display data, the code reports its progress and its result."""

SUBSCRIBE_SECONDS = 5.0
"""A kernel's process responds on its control channel within this, also while a cell runs."""

NUDGE_SECONDS = 0.1
ALIVE_SECONDS = 0.5
"""Between two checks that the kernel is still there."""

REPLY_SECONDS = 2.0
"""Between a kernel's reply and the last of its messages on another socket."""


class KernelGoneError(Exception):
    """The kernel's process has ended."""


class CodeError(Exception):
    """The code raised an exception: its name."""


async def call(kernel: Any, code: str, hear: Callable[[Mapping[str, Any]], None]) -> None:
    """Run `code` when the kernel is free. Cancel it to give up; the code continues then.

    `kernel` is Jupyter's kernel manager of one kernel. Raises `CodeError`, and `KernelGoneError`,
    also if Jupyter was first to see the kernel's end: the one that it started again never answers.
    """
    restarted = asyncio.Event()
    kernel.add_restart_callback(restarted.set)
    answer = asyncio.create_task(_call(kernel, code, hear))
    restart = asyncio.create_task(restarted.wait())
    try:
        await asyncio.wait({answer, restart}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise KernelGoneError
        answer.result()
    finally:
        kernel.remove_restart_callback(restarted.set)
        answer.cancel()
        restart.cancel()
        await asyncio.gather(answer, restart, return_exceptions=True)


async def _call(kernel: Any, code: str, hear: Callable[[Mapping[str, Any]], None]) -> None:
    """Run `code` in a kernel that nobody starts again meanwhile. Raises as `call`."""
    client = kernel.client()
    client.start_channels(stdin=False, hb=False)
    running: set[asyncio.Task[Any]] = set()
    try:
        await until_subscribed(client)
        while True:
            reply = await _execute(kernel, client, code, hear, running)
            if reply.get("status") != "aborted":
                break
            # A cell before it failed, and what was waiting then is not run.
        if reply.get("status") == "error":
            raise CodeError(str(reply.get("ename", "")))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        client.stop_channels()


async def _execute(
    kernel: Any,
    client: Any,
    code: str,
    hear: Callable[[Mapping[str, Any]], None],
    running: set[asyncio.Task[Any]],
) -> Mapping[str, Any]:
    """One request; the content of its reply."""
    message_id = client.execute(
        code, silent=True, store_history=False, allow_stdin=False, stop_on_error=False
    )
    replied = asyncio.create_task(_reply(client, message_id))
    heard = asyncio.create_task(_listen(client, message_id, hear))
    running |= {replied, heard}
    while not replied.done():
        await asyncio.wait({replied}, timeout=ALIVE_SECONDS)
        if not replied.done() and not await kernel.is_alive():
            raise KernelGoneError
    await asyncio.wait({heard}, timeout=REPLY_SECONDS)
    heard.cancel()
    return replied.result()


async def until_subscribed(client: Any) -> None:
    """Messages before the subscription has arrived would be lost: ask for one until it comes."""
    end = time.monotonic() + SUBSCRIBE_SECONDS
    while time.monotonic() < end:
        request = client.session.msg("kernel_info_request")
        client.control_channel.send(request)
        with contextlib.suppress(Empty):
            await client.iopub_channel.get_msg(timeout=NUDGE_SECONDS)
            return


async def _reply(client: Any, message_id: str) -> Mapping[str, Any]:
    while True:
        message = await client.shell_channel.get_msg(timeout=None)
        if message["parent_header"].get("msg_id") == message_id:
            content: Mapping[str, Any] = message["content"]
            return content


async def _listen(client: Any, message_id: str, hear: Callable[[Mapping[str, Any]], None]) -> None:
    """Hear reports until the kernel says that it has done all of the request."""
    while True:
        message = await client.iopub_channel.get_msg(timeout=None)
        if message["parent_header"].get("msg_id") != message_id:
            continue
        content = message["content"]
        if message["msg_type"] == "status" and content.get("execution_state") == "idle":
            return
        if message["msg_type"] in ("display_data", "update_display_data"):
            data = content.get("data")
            report = data.get(MIME) if isinstance(data, dict) else None
            if isinstance(report, dict):
                hear(report)

"""A notebook server ends, although AnyIO stops a worker thread only with the task that used it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

from anyio import from_thread, to_thread

from ec2spawner.notebook import worker_threads

PROGRAM = """
import asyncio, threading
from anyio import to_thread
from ec2spawner.notebook import worker_threads

worker_threads.stop_with_main_thread()
writing = threading.Event()
is_idle = asyncio.Event()

def write():
    writing.set()
    threading.main_thread().join()
    print("written")

async def idle():
    await to_thread.run_sync(int)
    is_idle.set()
    await asyncio.Event().wait()

async def ends_in_the_last_turn():
    await to_thread.run_sync(int)
    loop.stop()

async def main():
    pending = [asyncio.ensure_future(work) for work in (idle(), to_thread.run_sync(write))]
    await is_idle.wait()
    while not writing.is_set():
        await asyncio.sleep(0.01)
    await ends_in_the_last_turn()

loop = asyncio.new_event_loop()
task = loop.create_task(main())
loop.run_forever()
names = [each.name for each in threading.enumerate()]
print(names.count(worker_threads.NAME), "workers")
"""


def test_a_process_ends_whose_workers_nothing_stops() -> None:
    """The contract with AnyIO, whose threads have this name and this method."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "2 workers\nwritten\n"), ended.stderr


async def test_files_that_are_written_are_waited_for_as_long_as_agreed() -> None:
    begun, go = asyncio.Event(), threading.Event()

    def write() -> None:
        from_thread.run_sync(begun.set)
        go.wait(60)

    writing = asyncio.create_task(to_thread.run_sync(write))
    try:
        await begun.wait()
        began = time.monotonic()
        await worker_threads.until_unused(0.1)
        assert time.monotonic() - began >= 0.1
        waiting = asyncio.create_task(worker_threads.until_unused(60))
        await asyncio.sleep(0)
        assert not waiting.done()
    finally:
        go.set()
    await waiting
    await writing
    await worker_threads.until_unused(0)

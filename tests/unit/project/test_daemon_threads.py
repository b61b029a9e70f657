"""Calls to AWS run in threads that a hub does not wait for when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from ec2spawner.daemon_threads import DaemonThreads


def test_work_uses_a_limited_number_of_threads_and_errors_are_raised() -> None:
    pool = DaemonThreads(3, "test")
    names: set[str] = set()
    together = threading.Barrier(3)

    def work(number: int) -> int:
        if number < 3:
            together.wait(10)  # three at once, or none gets past
        names.add(threading.current_thread().name)
        return number * number

    futures = [pool.submit(work, number) for number in range(50)]
    assert not wait(futures, 20).not_done
    assert [future.result() for future in futures] == [number**2 for number in range(50)]
    assert names == {"test_1", "test_2", "test_3"}
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result(10)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError):
        pool.submit(work, 1)


def test_queued_work_can_be_cancelled() -> None:
    pool, begun, go = DaemonThreads(1, "test"), threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return go.wait(10)

    first = pool.submit(wait)
    begun.wait(10)
    second = pool.submit(lambda: None)
    pool.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    go.set()
    assert first.result(10)


def test_a_hanging_call_does_not_keep_the_process_alive() -> None:
    program = (
        "import time\n"
        "from ec2spawner.daemon_threads import DaemonThreads\n"
        "pool = DaemonThreads(2, 'x')\n"
        "pool.submit(time.sleep, 60)\n"
        "time.sleep(0.1)\n"
        "pool.shutdown(wait=False, cancel_futures=True)\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=300, check=True)

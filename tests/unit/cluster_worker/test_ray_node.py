"""A node of Ray on a worker: what `ray start` does, and what follows."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ec2spawner.cluster_worker import ray_node
from ec2spawner.cluster_worker.engine import CannotJoin
from ec2spawner.cluster_worker.log_tail import LogTail
from ec2spawner.cluster_worker.ray_node import RayNode
from ec2spawner.wire import ClusterJoin

JOIN = ClusterJoin(
    engine="ray",
    address="127.0.0.1:6379",
    token="t" * 32,
    python="/usr/bin/python3",
    python_version="3.12.3",
    engine_version="2.60.0",
)


def python(folder: Path, script: str) -> str:
    """A program in the place of the Python that runs Ray's command."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
    program.chmod(0o755)
    return str(program)


async def test_a_node_joins_works_and_leaves(tmp_path: Path) -> None:
    tail = LogTail()
    script = (
        'echo "$@" > argv; echo $RAY_AUTH_MODE > mode; echo Ray runtime started.; exec sleep 60'
    )
    node = RayNode(JOIN, "127.0.0.2", python(tmp_path, f"exec sh -c '{script}' sh \"$@\""), tail)

    async with asyncio.timeout(10):
        await node.join()
        waiting = asyncio.create_task(node.wait())
        await node.leave()
        await waiting

    argv = (tmp_path / "argv").read_text()
    assert "--address=127.0.0.1:6379 --node-ip-address=127.0.0.2" in argv
    assert JOIN.token not in argv
    assert (tmp_path / "mode").read_text() == "token\n"
    assert "Ray runtime started." in tail.text()


async def test_a_node_that_is_too_slow_once_is_started_again(tmp_path: Path) -> None:
    script = "[ -e once ] || { touch once; echo timed out; exit 1; }\n"
    script += "echo Ray runtime started.\nexec sleep 60"
    node = RayNode(JOIN, "127.0.0.2", python(tmp_path, script), LogTail())
    async with asyncio.timeout(10):
        await node.join()
        await node.leave()


async def test_a_node_that_cannot_start_says_what_ray_printed(tmp_path: Path) -> None:
    script = "echo x >> tries; echo no such address; exit 1"
    node = RayNode(JOIN, "127.0.0.2", python(tmp_path, script), LogTail())
    with pytest.raises(CannotJoin, match="no such address"):
        await node.join()
    assert len((tmp_path / "tries").read_text().split()) == ray_node.ATTEMPTS


async def test_a_head_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_node, "JOIN_SECONDS", 5.0)
    node = RayNode(JOIN, "127.0.0.2", python(tmp_path, "echo $$ > pid; exec sleep 60"), LogTail())
    with pytest.raises(CannotJoin, match="did not answer"):
        await node.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_draining_that_fails_is_noted_and_raises_nothing(tmp_path: Path) -> None:
    tail = LogTail()
    script = 'case "$*" in *drain-node*) echo no such node; exit 1;; *) echo node-1;; esac'
    node = RayNode(JOIN, "127.0.0.2", python(tmp_path, script), tail)
    await node.drain(120.0)
    assert "no such node" in tail.text()

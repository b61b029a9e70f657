"""In a real kernel: what a client of it sees, and what happens between cells."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from ec2spawner.sleep.storage import manifest as manifests
from tests.unit.sleep.random_programs import Program

MIME = "application/vnd.ec2spawner.sleep+json"
ROOT = Path(__file__).parents[3]


@contextmanager
def kernel(home: Path) -> Iterator[BlockingKernelClient]:
    environment = {name: value for name, value in os.environ.items() if "EC2SPAWNER" not in name}
    environment |= {
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "IPYTHONDIR": str(home / ".ipython"),
    }
    manager, client = start_new_kernel(startup_timeout=60, cwd=str(home), env=environment)
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str, **about: Any) -> list[dict[str, Any]]:
    """The messages of sleep that a cell sent, and what it printed as `{"text": ...}`."""
    found: list[dict[str, Any]] = []

    def note(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            found.append({"text": content["text"]})
        elif message["msg_type"] == "display_data" and MIME in content["data"]:
            found.append(content["data"][MIME])

    reply = client.execute_interactive(code, timeout=60, output_hook=note, **about)
    assert reply["content"]["status"] == "ok", reply["content"]
    return found


def test_a_client_gets_progress_and_the_result_of_silent_requests(tmp_path: Path) -> None:
    folder = str(tmp_path / "sleep" / "kernels" / "key" / "20260101000000000-00000000")
    with kernel(tmp_path) as client:
        run(client, "class Slow:\n def __reduce__(self):\n  import time; time.sleep(0.6)\n")
        run(
            client,
            "data, lines, slow, also = list(range(100_000)), (n for n in ()), Slow(), Slow()",
        )
        save = f"from ec2spawner import sleep\nsleep.save({folder!r}, seconds=30, max_bytes=10**9)"
        *progress, saved = run(client, save, silent=True)
        assert {each["kind"] for each in progress} == {"progress"}
        assert saved["kind"] == "saved"
        assert saved["variables"] == 2
        assert saved["largest"][0]["name"] == "data"
        assert {each["name"] for each in saved["lost"]} == {"lines", "slow", "also"}
        assert saved["lost_count"] == 3
        assert run(client, "print(len(data), 'sleep' in dir())")[0]["text"] == "100000 True\n"
    with kernel(tmp_path) as client:
        restore = f"from ec2spawner import sleep\nsleep.restore({folder!r}, eager_bytes=10_000)"
        restored = run(client, restore, silent=True)[-1]
        assert restored["kind"] == "restored"
        assert restored["later"] == ["data"]
        # Nothing names it: it comes while the kernel is idle.
        until = time.monotonic() + 20
        while run(client, "print('da' + 'ta' in globals())", silent=True)[0]["text"] != "True\n":
            assert time.monotonic() < until
            time.sleep(0.2)
        seen = (
            "from pathlib import Path\nfrom ec2spawner.sleep.storage import manifest\n"
            "from ec2spawner.sleep.waking import restoring\n"
            "seen = []\n"
            f"found = manifest.read(Path({folder!r}))\n"
            f"restoring.Restoring({{}}, Path({folder!r}), found, seen.append).begin(1 << 30)\n"
            "print(seen[-1]['variables'] == len(found.saved),"
            " seen[-1]['size_bytes'] == found.size_bytes)"
        )
        assert run(client, seen)[0]["text"] == "True True\n", "imports are not counted"
        missing = f"sleep.restore({folder + 'x'!r}, eager_bytes=10_000)"
        assert run(client, missing, silent=True)[-1]["code"] == "damaged"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300))
def test_variables_of_a_random_program_are_as_they_were_or_are_listed(
    seed: int, tmp_path: Path
) -> None:
    program = Program(seed)
    folder = tmp_path / "sleep" / "kernels" / "key" / "20260101000000000-00000000"
    with kernel(tmp_path) as client:
        for cell in program.cells:
            client.execute_interactive(cell, timeout=60, output_hook=lambda message: None)
        before = _described(client, program.names, tmp_path)
        run(client, "from ec2spawner import sleep", silent=True)
        save = f"sleep.save({str(folder)!r}, seconds=30, max_bytes=1 << 30)"
        assert run(client, save, silent=True)[-1]["kind"] == "saved"
    with kernel(tmp_path) as client:
        run(client, "from ec2spawner import sleep", silent=True)
        restore = f"sleep.restore({str(folder)!r}, eager_bytes=1 << 30)"
        restored = run(client, restore, silent=True)[-1]
        after = _described(client, program.names, tmp_path)
    entries = manifests.read(folder).entries
    said = {each.name for each in entries if each.differs or not each.saved}
    wrong = {key for key, was in before.items() if after.get(key) != was}
    assert {key for key in wrong if said.isdisjoint(key.split())} == set()
    assert {each["name"] for each in restored["lost"]} <= said


def _described(client: BlockingKernelClient, names: list[str], home: Path) -> dict[str, str]:
    """What each variable is, without a name of ours among them."""
    path = home / "described.json"
    code = (
        f"(lambda: __import__('pathlib').Path({str(path)!r}).write_text(__import__('json').dumps("
        f"__import__('importlib').import_module('tests.unit.sleep.random_programs')"
        f".described(globals(), {names!r}))))()"
    )
    run(client, code, silent=True)
    found: dict[str, str] = json.loads(path.read_text())
    return found

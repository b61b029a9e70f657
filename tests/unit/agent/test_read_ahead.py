"""Files of the image are read ahead while no lease wants the instance, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ec2spawner.agent.claim import (
    FIRST_WAIT_SECONDS,
    SHORT_CLAIMS,
    WAIT_SECONDS,
    claim_lease,
    new_key,
)
from ec2spawner.agent.read_ahead import reader
from ec2spawner.agent.read_ahead.process import ReadAhead
from ec2spawner.agent.read_ahead.reader import ENVIRONMENT, Files, Limits, environment, read_all
from ec2spawner.agent.settings import Settings
from ec2spawner.wire import Claim, ClaimWait, IdlePolicy, LeaseGrant
from tests.unit.agent.lease_grant import lease_grant


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder of the image, and a home beside it."""
    folder = tmp_path / "opt"
    (folder / "lib").mkdir(parents=True)
    for name, size in (("a.so", 3), ("b.so", 5), ("notes.txt", 7)):
        (folder / "lib" / name).write_bytes(b"x" * size)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("mine")
    return folder


def files(image: Path) -> Files:
    return Files(image.stat().st_dev, [str(image.parent / "home")])


def found(image: Path, *patterns: str) -> list[str]:
    return [each.name for each in files(image).found([f"{image}/{x}" for x in patterns])]


def test_patterns_are_read_in_their_order_and_each_file_once(image: Path) -> None:
    assert found(image, "lib/*.txt", "lib/*.so", "lib") == ["notes.txt", "a.so", "b.so"]
    assert found(image, "nothing/*") == []


def test_a_link_is_followed_to_a_file_of_the_image_and_to_no_home(image: Path) -> None:
    (image / "lib" / "c.so").symlink_to(image / "lib" / "a.so")
    (image / "lib" / "d.so").symlink_to(image.parent / "home" / "secret")
    (image / "lib" / "more").symlink_to(image.parent / "home")
    (image / "lib" / "gone.so").symlink_to(image / "nothing")
    assert found(image, "lib/*.so") == ["a.so", "b.so"]
    assert found(image, "lib") == ["a.so", "b.so", "notes.txt"]
    assert found(image, "lib/more") == []
    assert found(image, "../home/*") == []


def test_a_pipe_is_not_opened(image: Path) -> None:
    os.mkfifo(image / "lib" / "pipe.so")
    limits = Limits()
    reading = threading.Thread(
        target=lambda: read_all(files(image), [f"{image}/lib"], limits), daemon=True
    )
    reading.start()
    reading.join(20)
    assert not reading.is_alive()
    assert limits.done == 3 + 5 + 7
    reader.read(image / "lib" / "pipe.so", image.stat().st_dev, limits)
    assert limits.done == 3 + 5 + 7


def test_another_disk_is_not_read(image: Path) -> None:
    elsewhere = Files(image.stat().st_dev + 1, [])
    assert list(elsewhere.found([str(image)])) == []
    limits = Limits()
    reader.read(image / "lib" / "a.so", image.stat().st_dev + 1, limits)
    assert limits.done == 0


def test_bytes_and_time_are_bounded(image: Path) -> None:
    big = image / "big"
    big.write_bytes(b"x" * 3 * reader.CHUNK)
    limits = Limits(max_bytes=2 * reader.CHUNK)
    reader.read(big, image.stat().st_dev, limits)
    assert limits.done == 2 * reader.CHUNK
    limits = Limits(max_seconds=0)
    read_all(files(image), [str(image)], limits)
    assert limits.done == 0


def test_the_rate_is_bounded() -> None:
    limits = Limits(bytes_per_second=100)
    assert limits.count(100) == pytest.approx(1.0, abs=0.2)
    assert limits.count(100) == pytest.approx(2.0, abs=0.2)


def test_the_environment_is_that_of_the_process() -> None:
    folders = environment()
    assert any((each / "jupyterhub").is_dir() for each in folders)
    assert all(each.name in {"site-packages", "dist-packages", "jupyter"} for each in folders)


# --- the agent's side ---


def settings(tmp_path: Path) -> Settings:
    environment = {
        "EC2SPAWNER_NOTEBOOK_USER": f"{os.geteuid()}:{os.getegid()}",
        "EC2SPAWNER_NOTEBOOK_HOME": str(tmp_path / "home"),
        "EC2SPAWNER_ROOT": str(tmp_path),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
    }
    return Settings.from_environment("http://127.0.0.1:2", environment)


async def over(reading: ReadAhead) -> None:
    async with asyncio.timeout(60):
        while reading.is_open:
            await asyncio.sleep(0.01)


async def test_what_the_hub_names_is_read_once(image: Path) -> None:
    reading = ReadAhead(settings(image.parent))
    reading.begin(None)
    assert reading.is_open
    assert not reading.has_begun, "not now is not never"
    reading.begin([f"{image}/lib/*", f"{image.parent}/home/*"])
    assert reading.has_begun
    await over(reading)
    assert reading.bytes_read == 3 + 5 + 7
    reading.begin([f"{image}/lib/*"])
    assert not reading.is_open


@pytest.mark.parametrize("patterns", [[], [ENVIRONMENT]])
async def test_nothing_to_read_is_over_at_once(image: Path, patterns: Sequence[str]) -> None:
    reading = ReadAhead(settings(image.parent))  # of a simulated instance
    reading.begin(patterns)
    assert not reading.is_open


class Hub:
    """Answers claims with these, one after the other."""

    def __init__(self, *answers: ClaimWait | LeaseGrant) -> None:
        self._answers = list(answers)
        self.claims: list[Claim] = []

    async def claim(self, claim: Claim) -> ClaimWait | LeaseGrant:
        self.claims.append(claim)
        return self._answers.pop(0)


async def test_claims_say_whether_files_are_read_and_the_first_is_short(image: Path) -> None:
    reading, grant = ReadAhead(settings(image.parent)), lease_grant(IdlePolicy())
    hub = Hub(ClaimWait(), ClaimWait(read_ahead=[str(image)]), ClaimWait(), grant)
    claim = Claim(protocol=2, document="{}", signature="x", key=new_key())

    async def renew_claim() -> Claim:
        raise AssertionError("nothing was refused")

    assert await claim_lease(cast("Any", hub), claim, renew_claim, read_ahead=reading) == grant
    waits = [each.wait_seconds for each in hub.claims]
    assert waits == [FIRST_WAIT_SECONDS, FIRST_WAIT_SECONDS, WAIT_SECONDS, WAIT_SECONDS]
    assert [each.reads_ahead for each in hub.claims[:3]] == [True] * 3
    await over(reading)
    await claim_lease(cast("Any", Hub(grant)), claim, renew_claim, read_ahead=reading)
    last = Hub(grant)
    await claim_lease(cast("Any", last), claim, renew_claim, read_ahead=reading)
    assert (last.claims[0].reads_ahead, last.claims[0].read_ahead_bytes) == (False, 3 + 5 + 7)


async def test_an_agent_that_no_place_wants_claims_seldom_after_the_first_ones(image: Path) -> None:
    reading, grant = ReadAhead(settings(image.parent)), lease_grant(IdlePolicy())
    hub = Hub(*[ClaimWait()] * 5, grant)
    claim = Claim(protocol=2, document="{}", signature="x", key=new_key())

    async def renew_claim() -> Claim:
        raise AssertionError("nothing was refused")

    await claim_lease(cast("Any", hub), claim, renew_claim, read_ahead=reading)
    waits = [each.wait_seconds for each in hub.claims]
    assert waits == [FIRST_WAIT_SECONDS] * SHORT_CLAIMS + [WAIT_SECONDS] * 3


async def test_a_lease_ends_it_at_once(image: Path) -> None:
    with (image / "huge").open("wb") as file:
        file.truncate(2**36)  # sparse: it takes no space, and minutes at the allowed rate
    reading = ReadAhead(settings(image.parent))
    reading.begin([str(image / "huge")])
    async with asyncio.timeout(60):
        while not reading.bytes_read:
            await asyncio.sleep(0.01)
    process = reading._process
    assert process is not None
    assert os.getsid(process.pid) == process.pid, "no signal for the agent's session reaches it"
    async with asyncio.timeout(30):
        await reading.end()
    assert not reading.is_open
    assert process.returncode, "it is gone, not merely asked to go"
    reading.begin([str(image)])
    assert not reading.is_open, "a user's files may be there now"

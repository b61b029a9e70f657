"""What is written to an archive is read from it again, whole or in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.sleep.values import pickling, unpickling
from ec2spawner.sleep.values.archive import Damaged, Reader, Writer

PIECES = (b"abc", b"", b"de", b"fghi")
WHOLE = b"".join(PIECES)


def room(_: int) -> int:
    """How many bytes the disk has left."""
    return 1 << 20


def test_any_part_of_a_block_is_read_and_nothing_beyond_its_end(tmp_path: Path) -> None:
    with Writer(tmp_path / "archive", room) as writer:
        writer.block(iter([b"before"]))
        number = writer.block(iter(PIECES))
        writer.block(iter([b"after"]))
        writer.commit()
    with Reader(tmp_path / "archive") as reader:
        for offset in range(len(WHOLE) + 1):
            for size in range(len(WHOLE) - offset + 1):
                part = bytearray(size)
                reader.into(number, part, offset)
                assert part == WHOLE[offset : offset + size]
            with pytest.raises(Damaged, match="too short"):
                reader.into(number, bytearray(len(WHOLE) - offset + 1), offset)


def test_an_array_keeps_its_class_unless_it_is_a_map_of_a_file_outside_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = pytest.importorskip("numpy")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    values = {
        "array": numpy.arange(3),
        "records": numpy.zeros(2, dtype=[("a", "i4")]).view(numpy.recarray),
        "mapped": numpy.memmap(home / "file", mode="w+", shape=4),
        "outside": numpy.memmap(tmp_path / "file", mode="w+", shape=4),
    }
    known = pickling.Definitions({})
    archive = tmp_path / "archive"
    pickling.save(values, archive, known=known, whole=(), free=room, fast_only=True)
    found, _ = unpickling.load(
        archive, namespace={}, definition=values.get, bytecode=True, may_use_gpu=False
    )
    assert {name: type(value) for name, value in found.items()} == {
        "array": numpy.ndarray,
        "records": numpy.recarray,
        "mapped": numpy.memmap,
        "outside": numpy.ndarray,
    }

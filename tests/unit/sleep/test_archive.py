"""What is written to an archive is read from it again, whole or in parts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from ec2spawner.sleep.values import pickling, registry, unpickling
from ec2spawner.sleep.values.archive import Damaged, Reader, Writer

PIECES = (b"abc", b"", b"de", b"fghi")
WHOLE = b"".join(PIECES)


def room(_: int) -> int:
    """How many bytes the disk has left."""
    return 1 << 20


def write(path: Path, values: Mapping[str, Any], *, fast_only: bool = True) -> None:
    known = pickling.Definitions({})
    pickling.save(values, path, known=known, whole=(), free=room, fast_only=fast_only)


def read(path: Path, *, bytecode: bool = True) -> dict[str, Any]:
    """The values of an archive that needs no definition of a notebook."""
    notebook: dict[str, Any] = {}
    found, _ = unpickling.load(
        path,
        namespace=notebook,
        definition=notebook.__getitem__,
        bytecode=bytecode,
        may_use_gpu=False,
    )
    return found


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
    write(tmp_path / "archive", values)
    found = read(tmp_path / "archive")
    assert {name: type(value) for name, value in found.items()} == {
        "array": numpy.ndarray,
        "records": numpy.recarray,
        "mapped": numpy.memmap,
        "outside": numpy.ndarray,
    }


def test_dill_saves_what_python_cannot_and_is_missed_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, values = tmp_path / "archive", {"names": {"a": 1}.keys()}
    with pytest.raises(TypeError, match="dict_keys"):
        write(archive, values)
    write(archive, values, fast_only=False)
    assert list(read(archive)["names"]) == ["a"]
    monkeypatch.setitem(sys.modules, "dill", None)
    write(archive, {"names": ["a"]}, fast_only=False)
    assert read(archive) == {"names": ["a"]}
    with pytest.raises(pickling.NoDill, match="dict_keys"):
        write(archive, values, fast_only=False)


def test_a_function_of_another_python_is_refused_and_its_data_is_not(tmp_path: Path) -> None:
    write(tmp_path / "function", {"twice": lambda x: 2 * x})
    assert read(tmp_path / "function")["twice"](2) == 4
    with pytest.raises(unpickling.OtherPython):
        read(tmp_path / "function", bytecode=False)
    write(tmp_path / "data", {"data": [1]})
    assert read(tmp_path / "data", bytecode=False) == {"data": [1]}


# --- types with functions of their own ---


class Handle:
    """A handle of something that exists only in this process."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __reduce__(self) -> Any:
        raise TypeError("not this way")


def save_handle(value: Handle, file: IO[bytes]) -> None:
    file.write(value.address.encode())


def save_otherwise(value: Handle, file: IO[bytes]) -> None:
    file.write(b"mine")


def load_handle(file: IO[bytes]) -> Handle:
    return Handle(file.read().decode())


class Codec:
    """A codec that belongs to this process: its method is not saved with the values."""

    def save(self, value: Handle, file: IO[bytes]) -> None:
        save_handle(value, file)


@pytest.mark.parametrize("is_function", [True, False])
def test_a_type_is_registered_again_by_its_value_if_a_function_saved_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_function: bool
) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(Handle, save_handle if is_function else Codec().save, load_handle)
    write(tmp_path / "archive", {"handle": Handle("a")})
    monkeypatch.setattr(registry, "_registered", {})  # another process
    assert read(tmp_path / "archive")["handle"].address == "a"
    assert registry.is_registered(Handle) == is_function


def test_what_was_registered_before_a_value_is_read_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(Handle, save_handle, load_handle)
    write(tmp_path / "archive", {"handle": Handle("a")})
    registry.register(Handle, save_otherwise, load_handle)
    write(tmp_path / "again", {"handle": read(tmp_path / "archive")["handle"]})
    assert read(tmp_path / "again")["handle"].address == "mine"


@pytest.mark.parametrize(
    ("about", "why"),
    [
        (("Handle", save_handle, load_handle), "a class"),
        ((Handle, "save", load_handle), "functions"),
        ((Handle, save_handle, None), "functions"),
    ],
)
def test_only_a_class_and_two_functions_are_registered(about: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        registry.register(*about)
    assert not registry.is_registered(Handle)

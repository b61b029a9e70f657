"""Tensors of PyTorch: their storages, through the host a piece at a time.

A tensor reduces itself as for `torch.save`: to a storage and where in it. Tensors that share a
storage share it again. A storage on a GPU is copied in pieces, so that neither saving nor restoring
needs host memory of its size; it returns to its GPU, or to the CPU where that is not there.
Nothing here imports PyTorch before a tensor is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from . import classes
from .archive import CHUNK, Reader, Writer


def is_tensor(value: Any) -> bool:
    """Also for its subclasses; without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and classes.is_a(value, getattr(torch, "Tensor", ()))


def is_gpu_used() -> bool:
    """Whether this process has tensors on a GPU, which a forked child could not read."""
    cuda = sys.modules.get("torch.cuda")
    return cuda is not None and bool(cuda.is_initialized())


def gradient(tensor: Any) -> Any:
    """What `backward` has added to a tensor that it begins at; None without it."""
    return tensor.grad if tensor.is_leaf else None


def reduce(tensor: Any, protocol: int) -> Any:
    """As the tensor reduces itself, and with its gradient, which PyTorch leaves out."""
    found = gradient(tensor)
    reduced = tensor.__reduce_ex__(protocol) if found is not None else None
    if not isinstance(reduced, tuple) or len(reduced) != 2:
        return NotImplemented
    return (*reduced, found, None, None, set_gradient)


def set_gradient(tensor: Any, gradient: Any) -> None:
    """Found by the unpickler under this name."""
    tensor.grad = gradient


class StorageWriter:
    """The storages of one archive."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._blocks: dict[int, tuple[int, Any]] = {}
        """By the storage behind the Python object, which is held: its address is not reused."""

    def reduce(self, storage: Any) -> Any:
        """For a typed or an untyped storage."""
        untyped = getattr(storage, "_untyped_storage", None)
        if untyped is not None:
            return typed_storage, (untyped, storage.dtype)
        number, _ = self._blocks.get(storage._cdata, (-1, None))
        if number < 0:
            number = self._writer.block(_pieces(storage))
            self._blocks[storage._cdata] = number, storage
        return storage_block, (number, storage.nbytes(), str(storage.device))


def _pieces(storage: Any) -> Iterator[Any]:
    for start in range(0, storage.nbytes(), CHUNK):
        yield _part(storage, start, min(CHUNK, storage.nbytes() - start)).cpu().numpy().data


def _part(storage: Any, start: int, size: int) -> Any:
    """These bytes of a storage as a tensor."""
    import torch

    whole = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return whole.set_(storage, start, (size,), (1,))


def typed_storage(untyped: Any, dtype: Any) -> Any:
    """The form in which a tensor asks for its storage."""
    import torch

    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def storage_block(number: int, size: int, device: str) -> Any:
    """Found by the unpickler under this name, which gives it the archive."""
    raise TypeError("only an archive can be read")


class StorageReader:
    """The storages of one archive, each read once."""

    def __init__(self, reader: Reader, may_use_gpu: bool) -> None:
        self._reader = reader
        self._may_use_gpu = may_use_gpu
        self._found: dict[int, Any] = {}
        self.moved: set[str] = set()
        """The devices that are not here: their tensors are on the CPU."""

    def read(self, number: int, size: int, device: str) -> Any:
        """The storage of a block."""
        import torch

        if number in self._found:
            return self._found[number]
        if self._reader.block_size(number) != size:
            raise ValueError("a storage and its block have different sizes")
        where = self._device(device, size)
        if where != device:
            self.moved.add(device)
        storage = torch.UntypedStorage(size, device=where)
        for start in range(0, size, CHUNK):
            length = min(CHUNK, size - start)
            if where == "cpu":
                self._reader.into(number, _part(storage, start, length).numpy().data, start)
            else:
                piece = bytearray(length)
                self._reader.into(number, piece, start)
                _part(storage, start, length).copy_(torch.frombuffer(piece, dtype=torch.uint8))
        self._found[number] = storage
        return storage

    def _device(self, device: str, size: int) -> str:
        if not self._may_use_gpu or not device.startswith("cuda"):
            return "cpu"
        import torch

        index = int(device.partition(":")[2] or 0)
        if not torch.cuda.is_available() or index >= torch.cuda.device_count():
            return "cpu"
        free, _ = torch.cuda.mem_get_info(index)
        return device if free > size else "cpu"

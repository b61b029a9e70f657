"""Files of an export, line by line: the memory that this takes does not depend on their size."""

from __future__ import annotations

import csv
import gzip
import importlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.bills.bill_lines import BillLine
from .columns import OPTIONAL, Row, layout_of, line_of
from .errors import BillError

SUFFIXES: Final = (".csv", ".csv.gz", ".parquet")

MAX_FIELD: Final = 1 << 20
"""Characters of one cell: the tags of a resource are one cell."""

BATCH: Final = 10_000
"""Rows of a Parquet file that are in memory."""


def is_data(name: str) -> bool:
    """Whether a file of this name can hold lines of a bill."""
    return name.lower().endswith(SUFFIXES)


def files_at(path: Path) -> list[Path]:
    """The file, or all data files below the folder. Raises `BillError` where there are none."""
    if path.is_file():
        return [path]
    if not path.exists():
        raise BillError(
            f"{path} does not exist. Fix: the export's file or folder, or s3://bucket/prefix"
        )
    found = sorted(each for each in path.rglob("*") if each.is_file() and is_data(each.name))
    if not found:
        raise BillError(
            f"{path} has no files of an export ({', '.join(SUFFIXES)}). Fix: name the export's "
            "file or folder"
        )
    return found


def lines_in(paths: Iterable[Path]) -> Iterator[BillLine]:
    """All lines of these files. Raises `BillError` with the place of what cannot be read."""
    for path in paths:
        try:
            yield from _lines_in(path)
        except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
            raise BillError(f"{path.name} cannot be read: {error}") from error


def _lines_in(path: Path) -> Iterator[BillLine]:
    if path.name.lower().endswith(".parquet"):
        yield from _parsed(path.name, *_parquet(path))
        return
    csv.field_size_limit(MAX_FIELD)
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        yield from _parsed(path.name, reader.fieldnames or (), reader)


def _parsed(name: str, columns: Sequence[str], rows: Iterable[Row]) -> Iterator[BillLine]:
    """Raises `BillError`, with the place in the file."""
    place = ""
    try:
        layout = layout_of(columns)
        for number, row in enumerate(rows, start=1):
            place = f", row {number}"
            if (line := line_of(row, layout)) is not None:
                yield line
    except (BillError, ValueError, KeyError, AttributeError) as error:
        raise BillError(f"{name}{place}: {error}") from error


def _parquet(path: Path) -> tuple[Sequence[str], Iterator[Row]]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BillError(
            f"{path.name} is Parquet, which needs pyarrow. Fix: pip install pyarrow, or let the "
            "export write gzip-compressed CSV"
        ) from None
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise BillError(f"{path.name} cannot be read: {error}") from error
    columns: list[str] = file.schema_arrow.names
    wanted = {name for layout, more in OPTIONAL.items() for name in (*layout.value, *more)}
    batches = file.iter_batches(BATCH, columns=[name for name in columns if name in wanted])
    return columns, (row for batch in batches for row in batch.to_pylist())

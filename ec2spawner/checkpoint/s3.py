"""Checkpoints in S3. A generation is complete once its `checkpoint.json` is there: it is last.

boto3 is not among ec2spawner's dependencies on an instance, so it is imported where it is used.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .folder import RECORD, STATE, Save, call
from .record import CheckpointError, Record, parse

SCHEME: Final = "s3://"


class S3Store:
    """The checkpoints of one loop below a prefix of a bucket.

    Two processes that run the same loop at once are not detected. The state is written to a
    temporary folder first, which needs as much space.
    """

    def __init__(self, url: str) -> None:
        self._bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        self._prefix = prefix.strip("/") + "/"
        try:
            boto3 = importlib.import_module("boto3")
        except ImportError as error:
            raise CheckpointError(
                "checkpoints in S3 need boto3 in this environment: `pip install boto3`"
            ) from error
        self._s3: Any = boto3.client("s3")

    def __str__(self) -> str:
        return f"{SCHEME}{self._bucket}/{self._prefix}"

    def open(self) -> None:
        """Check that the bucket answers. Raises `CheckpointError`."""
        try:
            self._s3.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except Exception as error:  # botocore's, which may not be there to name
            raise CheckpointError(f"{self} cannot be read: {error}") from error

    def close(self) -> None:
        """Nothing is held."""

    def generations(self) -> list[int]:
        """Numbers of the complete ones, the newest first."""
        found = [key.split("/") for key in self._sizes("")]
        return sorted(
            (int(key[0]) for key in found if len(key) == 2 and key[1] == RECORD and _is_one(key)),
            reverse=True,
        )

    def read(self, generation: int) -> Record:
        """Its record. Raises `ValueError` if it is incomplete."""
        key = f"{self._prefix}{generation:08d}/{RECORD}"
        answer = self._s3.get_object(Bucket=self._bucket, Key=key)
        record = parse(answer["Body"].read())
        found = self._sizes(f"{generation:08d}/")
        found.pop(RECORD, None)
        if found != record.files:
            raise ValueError("its objects are not those that were saved")
        return record

    def load(self, generation: int, load: Save) -> None:
        """Download the generation's state, and call `load` with its path."""
        with tempfile.TemporaryDirectory(prefix="ec2spawner-checkpoint-") as folder:
            for each in self.read(generation).files:
                file = Path(folder) / each
                if Path(each).is_absolute() or ".." in Path(each).parts:
                    raise CheckpointError(f"{self}: {each} is no file of a checkpoint")
                file.parent.mkdir(parents=True, exist_ok=True)
                key = f"{self._prefix}{generation:08d}/{each}"
                self._s3.download_file(self._bucket, key, str(file))
            load(Path(folder) / STATE)

    def write(self, generation: int, save: Save | None, record: Callable[..., Record]) -> None:
        """Upload a complete generation, and remove the older ones only then."""
        to = f"{self._prefix}{generation:08d}/"
        self._delete(f"{generation:08d}/")  # what an interrupted upload left
        with tempfile.TemporaryDirectory(prefix="ec2spawner-checkpoint-") as folder:
            files = call(save, Path(folder))
            for each in files:
                self._s3.upload_file(str(Path(folder) / each), self._bucket, to + each)
        body = record(files=files).to_json()
        self._s3.put_object(Bucket=self._bucket, Key=to + RECORD, Body=body)
        self.remove(before=generation)

    def remove(self, before: int | None = None) -> None:
        """Remove all generations, or those before one."""
        for each in {key.partition("/")[0] for key in self._sizes("") if _is_one([key[:8]])}:
            if before is None or int(each) < before:
                self._delete(f"{each}/{RECORD}")
                self._delete(f"{each}/")

    def _sizes(self, below: str) -> dict[str, int]:
        """Bytes of each object below, by its key relative to that."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + below
        )
        start = len(self._prefix + below)
        return {
            each["Key"][start:]: each["Size"] for page in pages for each in page.get("Contents", [])
        }

    def _delete(self, below: str) -> None:
        for key in self._sizes(below):
            self._s3.delete_object(Bucket=self._bucket, Key=self._prefix + below + key)


def _is_one(key: list[str]) -> bool:
    return len(key[0]) == 8 and key[0].isdigit()

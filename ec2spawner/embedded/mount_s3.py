"""What answers as `mount-s3` on a simulated instance: the bucket's objects, copied to a folder.

As Mountpoint does, it returns when the folder is there. What changes in a folder that may be
written is brought to the bucket by a process that goes on beside it until the instance ends.
Simulated: it is no file system, and shows what was in the bucket when it was mounted. It needs
no credentials. Only the options that the agent gives are known. A program of its own: it imports
nothing of ours, so that it is quick.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

ENDPOINT: Final = "EC2SPAWNER_SIMULATED_S3"
"""Environment variable with the address of the embedded EC2."""

LOOK_SECONDS = 0.5
"""Between two looks at what has changed."""

CALL_SECONDS = 20.0

AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=embedded/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
)
"""Nobody checks it, but without one only what is public can be read."""

Seen = dict[str, tuple[int, int]]
"""Key -> when its file was changed, in ns, and its size."""


class Bucket:
    """The keys of a bucket that begin with a prefix, as files below a folder."""

    def __init__(self, name: str, prefix: str, folder: Path) -> None:
        self._host = urlsplit(os.environ[ENDPOINT]).netloc
        self._name = name
        self._prefix = prefix
        self._folder = folder.resolve()

    def fetch(self, mode: int, owner: tuple[int, int]) -> None:
        """Raises OSError where there is no such bucket."""
        for key in self._keys():
            path = self._folder / key.removeprefix(self._prefix)
            if key.endswith("/") or self._folder not in path.resolve().parents:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._call("GET", key))
            path.chmod(mode)
        if os.geteuid() == 0:
            for parent, folders, files in os.walk(self._folder):
                for name in (".", *folders, *files):
                    os.lchown(Path(parent, name), *owner)

    def seen(self) -> Seen:
        files = (path for path in self._folder.rglob("*") if path.is_file())
        facts = {str(path.relative_to(self._folder)): path.stat() for path in files}
        return {name: (each.st_mtime_ns, each.st_size) for name, each in facts.items()}

    def bring(self, before: Seen) -> Seen:
        """Take what has changed since to the bucket."""
        now = self.seen()
        for name in now.keys() | before.keys():
            if name not in now:
                self._call("DELETE", self._prefix + name)
            elif now[name] != before.get(name):
                self._call("PUT", self._prefix + name, (self._folder / name).read_bytes())
        return now

    def _keys(self) -> list[str]:
        keys: list[str] = []
        after = ""
        while True:
            query = {"list-type": "2", "prefix": self._prefix, "start-after": after}
            answer = self._call("GET", "", query=urlencode(query))
            page = [html.unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", answer.decode())]
            if not page:
                return keys
            keys += page
            after = page[-1]

    def _call(self, method: str, key: str, body: bytes | None = None, query: str = "") -> bytes:
        connection = HTTPConnection(self._host, timeout=CALL_SECONDS)
        try:
            path = f"/{self._name}/{quote(key)}{'?' if query else ''}{query}"
            connection.request(method, path, body, {"Authorization": AUTHORIZATION})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise OSError(f"{self._name}: {answer.status} {answer.reason}")
        return said


def _go_on(bucket: Bucket) -> None:
    """Bring changes to the bucket until told to end, and those of the last moment then."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    seen: Seen = {name: (changed, size) for name, (changed, size) in json.load(sys.stdin).items()}
    while not ended:
        time.sleep(LOOK_SECONDS)
        try:
            seen = bucket.bring(seen)
        except OSError as error:
            sys.stderr.write(f"mount-s3 (simulated): {error}\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="mount-s3")
    parser.add_argument("bucket")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--uid", type=int, default=os.getuid())
    parser.add_argument("--gid", type=int, default=os.getgid())
    for flag in ("--read-only", "--allow-other", "--allow-delete", "--allow-overwrite", "--go-on"):
        parser.add_argument(flag, action="store_true")
    words = parser.parse_args()
    bucket = Bucket(words.bucket, words.prefix, words.folder)
    if words.go_on:
        _go_on(bucket)
        return 0
    try:
        words.folder.chmod(0o755)
        bucket.fetch(0o444 if words.read_only else 0o644, (words.uid, words.gid))
    except OSError as error:
        sys.stderr.write(f"Error: the bucket cannot be mounted: {error}\n")
        return 1
    if words.read_only:
        for parent, _, _ in os.walk(words.folder):
            Path(parent).chmod(0o555)
            if os.geteuid() == 0:
                os.chown(parent, 0, 0)
    else:
        command = [sys.executable, "-P", __file__, *sys.argv[1:], "--go-on"]
        beside = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        assert beside.stdin is not None
        # What is written from here on is new, however soon.
        with beside.stdin as told:
            told.write(json.dumps(bucket.seen()).encode())
    sys.stdout.write(f"bucket {words.bucket} is mounted (simulated: a copy of its objects)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

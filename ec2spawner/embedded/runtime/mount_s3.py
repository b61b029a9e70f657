"""What answers as `mount-s3` on a simulated instance: the bucket's objects, copied to a folder.

As Mountpoint does, it returns when the folder is there. What changes in a folder that may be
written is brought to the bucket by a process that continues beside it until the instance ends.
Simulated: it is no file system, and shows what was in the bucket when it was mounted. As
Mountpoint does, it asks the metadata service for the credentials of the instance's role. Only the
options that the agent gives are known. A program of its own: it imports nothing of ours, so that
it is quick.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

ENDPOINT: Final = "EC2SPAWNER_SIMULATED_S3"
"""Environment variable with the address of the embedded EC2."""

SCAN_SECONDS = 0.5
"""Between two scans for changes."""

CALL_SECONDS = 20.0

METADATA: Final = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""Environment variable with the address of the instance's metadata service."""

SESSION_HEADER: Final = "X-aws-ec2-metadata-token"

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""What SigV4 for S3 says where the signature does not cover the body."""

Seen = dict[str, tuple[int, int]]
"""Key -> when its file was changed, in ns, and its size."""


class Role:
    """The credentials of the instance's role, and what they sign."""

    def __init__(self) -> None:
        """Asks the metadata service. Raises OSError where the instance has no role."""
        ttl = {f"{SESSION_HEADER}-ttl-seconds": "60"}
        token = {SESSION_HEADER: _metadata("PUT", "api/token", ttl)}
        below = "meta-data/iam/security-credentials"
        [name] = _metadata("GET", below, token).split()
        self._key: dict[str, Any] = json.loads(_metadata("GET", f"{below}/{name}", token))

    def signed(self, method: str, host: str, path: str, query: dict[str, str]) -> dict[str, str]:
        """The headers of a request to S3: "Signature Version 4" in the IAM User Guide."""
        instant = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "host": host,
            "x-amz-content-sha256": UNSIGNED,
            "x-amz-date": instant,
            "x-amz-security-token": self._key["Token"],
        }
        lines = [f"{name}:{value}" for name, value in headers.items()]
        names = ";".join(headers)
        asked = _query(query)
        canonical = "\n".join([method, path, asked, *lines, "", names, UNSIGNED])
        scope = f"{instant[:8]}/us-east-1/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = f"AWS4{self._key['SecretAccessKey']}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = "\n".join(["AWS4-HMAC-SHA256", instant, scope, digest])
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        credential = f"{self._key['AccessKeyId']}/{scope}"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, "
            f"Signature={signature}"
        )
        return headers


class Bucket:
    """The keys of a bucket that begin with a prefix, as files below a folder."""

    def __init__(self, name: str, prefix: str, folder: Path) -> None:
        """Raises OSError where the instance has no role."""
        self._host = urlsplit(os.environ[ENDPOINT]).netloc
        self._role = Role()
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
        """The files of the folder as they are now."""
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
            answer = self._call("GET", "", query=query)
            page = [html.unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", answer.decode())]
            if not page:
                return keys
            keys += page
            after = page[-1]

    def _call(
        self, method: str, key: str, body: bytes | None = None, query: dict[str, str] | None = None
    ) -> bytes:
        query = query or {}
        path = f"/{self._name}/{quote(key)}"
        headers = self._role.signed(method, self._host, path, query)
        url = f"{path}?{_query(query)}" if query else path
        return _request(method, self._host, url, headers, body)


def _query(values: dict[str, str]) -> str:
    """In the canonical form of SigV4."""
    return urlencode(sorted(values.items()), quote_via=quote)


def _metadata(method: str, path: str, headers: dict[str, str]) -> str:
    endpoint = urlsplit(os.environ[METADATA])
    url = f"{endpoint.path.rstrip('/')}/latest/{path}"
    return _request(method, endpoint.netloc, url, headers).decode()


def _request(
    method: str, host: str, url: str, headers: dict[str, str], body: bytes | None = None
) -> bytes:
    connection = HTTPConnection(host, timeout=CALL_SECONDS)
    try:
        connection.request(method, url, body, headers)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    if answer.status >= 300:
        raise OSError(f"{answer.status} {answer.reason}")  # the metadata service's path is secret
    return said


def _upload_changes(bucket: Bucket) -> None:
    """Upload changes until SIGTERM, and then the last ones."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    seen: Seen = {name: (changed, size) for name, (changed, size) in json.load(sys.stdin).items()}
    while not ended:
        time.sleep(SCAN_SECONDS)
        try:
            seen = bucket.bring(seen)
        except OSError as error:
            sys.stderr.write(f"mount-s3 (simulated): {error}\n")


def main() -> int:
    """Copy the bucket, leave a process that uploads changes, and return the exit status."""
    parser = argparse.ArgumentParser(prog="mount-s3")
    parser.add_argument("bucket")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--uid", type=int, default=os.getuid())
    parser.add_argument("--gid", type=int, default=os.getgid())
    for flag in (
        "--read-only",
        "--allow-other",
        "--allow-delete",
        "--allow-overwrite",
        "--upload-changes",
    ):
        parser.add_argument(flag, action="store_true")
    words = parser.parse_args()
    try:
        bucket = Bucket(words.bucket, words.prefix, words.folder)
        if words.upload_changes:
            _upload_changes(bucket)
            return 0
        words.folder.chmod(0o755)
        bucket.fetch(0o444 if words.read_only else 0o644, (words.uid, words.gid))
    except OSError as error:
        sys.stderr.write(f"Error: bucket {words.bucket} cannot be mounted: {error}\n")
        return 1
    if words.read_only:
        for parent, _, _ in os.walk(words.folder):
            Path(parent).chmod(0o555)
            if os.geteuid() == 0:
                os.chown(parent, 0, 0)
    else:
        command = [sys.executable, "-P", __file__, *sys.argv[1:], "--upload-changes"]
        beside = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        assert beside.stdin is not None
        # What is written from here on is new, however soon.
        with beside.stdin as pipe:
            pipe.write(json.dumps(bucket.seen()).encode())
    sys.stdout.write(f"bucket {words.bucket} is mounted (simulated: a copy of its objects)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

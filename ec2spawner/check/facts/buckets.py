"""Whether S3 has a bucket, asked without credentials."""

from __future__ import annotations

from dataclasses import dataclass

from tornado.simple_httpclient import SimpleAsyncHTTPClient

TIMEOUT = 5.0
"""Seconds for S3's answer."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What S3 says about the name of a bucket to anyone."""

    name: str
    status: int
    """HTTP status of HEAD: 404 where no account has it; 0 without an answer."""
    region: str = ""


async def find_bucket(endpoint: str, name: str) -> Bucket:
    """Ask S3 for the bucket's head. Raises nothing.

    S3 answers 403 to anyone for a bucket that exists, with its region, so the hub needs no
    permission on it. Whether instances may read it depends on their own role.
    """
    client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=64 * 1024)
    try:
        answer = await client.fetch(
            f"{endpoint.rstrip('/')}/{name}",
            method="HEAD",
            raise_error=False,
            follow_redirects=False,
            connect_timeout=TIMEOUT,
            request_timeout=TIMEOUT,
        )
        return Bucket(name, answer.code, answer.headers.get("x-amz-bucket-region", ""))
    except Exception:  # whatever a network makes of an HTTP client
        return Bucket(name, 0)
    finally:
        client.close()

"""Logging in at Amazon's container registry with the role of the instance profile."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass
from typing import Final

from ..command import NOT_FOUND
from ..memory_protection import expendable
from .errors import NotebookError

USER: Final = "AWS"

SECONDS: Final = 30.0

_HOST: Final = re.compile(
    r"(?P<host>(?P<account>\d{12})\.dkr"
    r"(?:\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.(?:com|com\.cn|eu)"
    # With IPv6 as well as IPv4.
    r"|-ecr(?:-fips)?\.(?P<dual>[a-z0-9-]+)\.on\.(?:aws|amazonwebservices\.com\.cn)))/"
)


@dataclass(frozen=True, slots=True)
class Registry:
    """A private registry of Amazon ECR."""

    host: str
    account: str
    region: str


def registry_of(image: str) -> Registry | None:
    """The private registry that an image is in; None for an image from elsewhere."""
    found = _HOST.match(image)
    if found is None:
        return None
    return Registry(found["host"], found["account"], found["region"] or found["dual"])


async def password(registry: Registry) -> str:
    """Valid for twelve hours, by the AWS CLI, which Deep Learning AMIs have. Raises
    `NotebookError`."""
    where = ("--region", registry.region, "--registry-ids", registry.account)
    query = ("--query", "authorizationData[0].authorizationToken", "--output", "text")
    try:
        process = await asyncio.create_subprocess_exec(
            *expendable("aws", "ecr", "get-authorization-token", *where, *query),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise _no_cli(registry) from error
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise NotebookError(f"{registry.host} gave no password within {SECONDS:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode == NOT_FOUND:
        raise _no_cli(registry)
    if process.returncode != 0:
        raise NotebookError(
            f"no password for {registry.host}: {errors.decode(errors='replace').strip()[-300:]}. "
            "Please tell an admin: the role of c.EC2Spawner.instance_profile needs "
            "ecr:GetAuthorizationToken, ecr:BatchGetImage and ecr:GetDownloadUrlForLayer"
        )
    try:
        return base64.b64decode(output, validate=False).decode().partition(":")[2]
    except ValueError as error:
        raise NotebookError(f"{registry.host} gave what is no password") from error


def _no_cli(registry: Registry) -> NotebookError:
    return NotebookError(
        f"no login at {registry.host}: the AMI has no AWS CLI. Please tell an admin"
    )

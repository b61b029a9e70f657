"""Instance identity documents: the identity of a claiming instance, proven by AWS's signature.

The signature is checked by the `openssl` program against the region's pinned certificate, never
by a chain: every certificate of AWS's is self-signed, and many lack the key usage that chain
verification asks for. The document is readable by every process on its instance and names no
audience, so it proves which instance speaks and nothing else.

All input is untrusted until `openssl` has verified it. It reaches that program through standard
input only, without a shell or a file.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

MAX_DOCUMENT_BYTES: Final = 8192
"""Bytes; a document has about 500."""

MAX_SIGNATURE_CHARACTERS: Final = 8192
"""Characters; a signature with the document inside has about 1,400."""

OPENSSL_SECONDS: Final = 5.0
"""Seconds; a verification takes 10 ms."""

THREADS: Final = 4
"""Concurrent verifications: a flood of claims waits here and does not take the hub's CPUs."""

MAX_PENDING: Final = 64
"""Verifications that run or wait for a thread: a sixth of a second of work. Anyone may ask."""

_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "OPENSSL_CONF", "OPENSSL_MODULES")
"""The variables of the hub's environment, which holds secrets, that `openssl` gets."""

_FIELDS: Final = {
    "instanceId": re.compile(r"i-[0-9a-f]{8,32}\Z"),
    "accountId": re.compile(r"[0-9]{12}\Z"),
    "region": re.compile(r"[a-z]{2}[a-z0-9-]{1,30}\Z"),
    "pendingTime": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z"),
}


class IdentityRefused(Exception):
    """The document does not prove an identity; the message says why."""


class IdentityBusyError(Exception):
    """Too many documents wait to be verified; this one has not been checked."""


class IdentitySetupError(Exception):
    """No document can be verified on this hub; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class InstanceIdentity:
    """The content of a verified document. It does not prove that the instance is the hub's."""

    instance_id: str
    account_id: str
    region: str
    pending_time: datetime
    """UTC: when the instance was last launched or started."""


class IdentityVerifier:
    """Verifies documents of one region, off the event loop.

    `extra_certificates` are PEM files of other signers to trust: the embedded EC2's, or a
    partition's that ships no certificate here. Construction reads files and looks for `openssl`,
    and raises `IdentitySetupError`.
    """

    def __init__(self, region: str, extra_certificates: Iterable[Path] = ()) -> None:
        self._openssl = find_openssl()
        self._certificates = pinned_certificates(region, extra_certificates)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ec2spawner-identity")
        self._pending = 0

    async def verify(self, document: str, signature: str) -> InstanceIdentity:
        """The identity that the document proves.

        Raises `IdentityRefused`, and `IdentityBusyError` while `MAX_PENDING` others are checked.
        """
        if self._pending >= MAX_PENDING:
            raise IdentityBusyError(f"{MAX_PENDING} identity documents are being verified")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads,
                lambda: verify_identity(
                    document, signature, self._certificates, openssl=self._openssl
                ),
            )
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Cancel queued verifications without waiting for running ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def find_openssl() -> str:
    """Where the `openssl` program is; raises `IdentitySetupError`."""
    found = shutil.which("openssl")
    if found is None:
        raise IdentitySetupError(
            "the program openssl is not on the hub's PATH, and instances cannot prove who they "
            "are without it: install it (apt-get install openssl)"
        )
    return found


def pinned_certificates(region: str, extra: Iterable[Path] = ()) -> tuple[Path, ...]:
    """PEM files of the certificates for the region; raises `IdentitySetupError` without any."""
    bundled = Path(str(files("ec2spawner.data").joinpath("identity-certificates", f"{region}.pem")))
    # Where an admin names some, they are tried first: each try is a process.
    certificates = tuple(path for path in (*extra, bundled) if path != bundled or path.is_file())
    for path in certificates:
        try:
            if b"-----BEGIN CERTIFICATE-----" not in path.read_bytes():
                raise IdentitySetupError(f"{path} holds no certificate in PEM form")
        except OSError as error:
            raise IdentitySetupError(f"{path} cannot be read: {error.strerror}") from error
    if not certificates:
        raise IdentitySetupError(
            f"no certificate is known for identity documents of region {region!r}: take its "
            "RSA-2048 certificate from AWS's documentation and name the file in the configuration"
        )
    return certificates


def verify_identity(
    document: str, signature: str, certificates: Sequence[Path], *, openssl: str = "openssl"
) -> InstanceIdentity:
    """The document's content, if the key of one of the certificates signed exactly this document.

    `signature` is `/rsa2048` as the metadata service gives it: base64 of a PKCS7 that holds the
    signed content. Raises `IdentityRefused`. Blocks for some 10 ms.
    """
    claimed = _encoded(document)
    pkcs7 = _decoded(signature)
    for certificate in certificates:
        signed = _signed_content(pkcs7, certificate, openssl)
        if signed is not None:
            # The metadata service may end the document with a newline that was not signed.
            if signed.rstrip() != claimed.rstrip():
                raise IdentityRefused("the signature is for another document")
            return _identity(signed)
    raise IdentityRefused(
        "the signature is not by the key of a trusted certificate: if the instance is yours, its "
        "region's certificate or this endpoint's is missing in c.EC2Spawner.identity_certificates"
    )


def _encoded(document: str) -> bytes:
    if len(document) > MAX_DOCUMENT_BYTES:
        raise IdentityRefused("the document is too large")
    try:
        return document.encode("ascii")
    except UnicodeEncodeError:
        raise IdentityRefused("the document is not ASCII") from None


def _decoded(signature: str) -> bytes:
    if len(signature) > MAX_SIGNATURE_CHARACTERS:
        raise IdentityRefused("the signature is too large")
    try:
        return base64.b64decode("".join(signature.split()), validate=True)
    except (binascii.Error, ValueError):
        raise IdentityRefused("the signature is not base64") from None


def _signed_content(pkcs7: bytes, certificate: Path, openssl: str) -> bytes | None:
    """The content if its signature by this certificate's key is valid; else None."""
    try:
        done = subprocess.run(
            [
                openssl,
                "cms",
                "-verify",
                "-binary",
                "-inform",
                "DER",
                "-certfile",
                str(certificate.absolute()),
                "-nointern",  # certificates inside the message are the sender's own
                "-noverify",  # no chain: the certificate itself is what is trusted
            ],
            input=pkcs7,
            capture_output=True,
            timeout=OPENSSL_SECONDS,
            check=False,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
    except subprocess.TimeoutExpired:
        raise IdentityRefused("openssl did not finish with the signature in time") from None
    return done.stdout if done.returncode == 0 else None


def _identity(signed: bytes) -> InstanceIdentity:
    try:
        document = json.loads(signed.decode("ascii"), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise IdentityRefused("the document is not JSON") from None
    if not isinstance(document, dict):
        raise IdentityRefused("the document is not a JSON object")
    fields = {name: _field(document, name) for name in _FIELDS}
    try:
        pending = datetime.strptime(fields["pendingTime"], "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        raise IdentityRefused("the document's pendingTime is no time") from None
    return InstanceIdentity(
        instance_id=fields["instanceId"],
        account_id=fields["accountId"],
        region=fields["region"],
        pending_time=pending.astimezone(UTC),
    )


def _field(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not _FIELDS[name].match(value):
        raise IdentityRefused(f"the document's {name} is missing or not valid")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name twice")
    return unique

"""Certificates of notebook servers, for a hub with `internal_ssl`: signed when an instance claims.

JupyterHub signs before a start, when the address is unknown, and keeps the key in a file. Here a
key is made at the claim, for the address that EC2 gave the instance; it goes into the grant, and
the hub does not store it. The authority is JupyterHub's own for notebooks, so hub and proxy trust
the certificate as that of any other notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from certipy import Certipy, CertNotFoundError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...wire import Certificates

AUTHORITY: Final = "notebooks-ca"
"""JupyterHub's name for the authority of notebook servers."""

LIFETIME: Final = timedelta(days=365)
"""Certificates are not renewed: a server that runs longer must be restarted. A certificate is only
valid for the address of one instance."""

EARLIER: Final = timedelta(minutes=5)
"""Start of validity before now: the instance's clock may be behind the hub's."""


class CannotSign(Exception):
    """No certificate can be signed for this server; the message is for the hub's log."""


@dataclass(frozen=True, slots=True)
class NotebookAuthority:
    """Signs for JupyterHub's authority of notebooks."""

    folder: Path
    """`c.JupyterHub.internal_certs_location`."""
    trusted: Callable[[], Path]
    """The file with the authorities that notebooks trust: the hub's and the proxy's. JupyterHub
    writes it at its start, after ours."""

    async def sign(self, address: str) -> Certificates:
        """A new key and its certificate for an instance's private address.

        Off the event loop: reading the authority's key takes tens of ms. Raises `CannotSign`.
        """
        return await asyncio.to_thread(self._sign, address, datetime.now(UTC))

    def _sign(self, address: str, now: datetime) -> Certificates:
        try:
            authority, signing_key = self._authority()
            ends = min(now + LIFETIME, authority.not_valid_after_utc)
            if ends <= now:
                raise CannotSign(
                    f"the authority {AUTHORITY} in {self.folder} has ended on {ends:%Y-%m-%d}: "
                    "stop all servers, remove that folder and restart the hub"
                )
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _signed(key, address, (now - EARLIER, ends), authority, signing_key)
            return Certificates(
                key=key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ).decode("ascii"),
                certificate=certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"),
                ca=self.trusted().read_text(encoding="ascii"),
            )
        except (OSError, ValueError, LookupError, CertNotFoundError) as error:
            raise CannotSign(f"no certificate for {address}: {error!r}") from error

    def _authority(self) -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
        files = Certipy(store_dir=str(self.folder)).store.get_record(AUTHORITY)["files"]
        certificate = x509.load_pem_x509_certificate(Path(files["cert"]).read_bytes())
        key = serialization.load_pem_private_key(Path(files["key"]).read_bytes(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise CannotSign(f"the key of {AUTHORITY} is no RSA key")
        return certificate, key


def _signed(
    key: ec.EllipticCurvePrivateKey,
    address: str,
    validity: tuple[datetime, datetime],
    authority: x509.Certificate,
    signing_key: rsa.RSAPrivateKey,
) -> x509.Certificate:
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity[0])
        .not_valid_after(validity[1])
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage(usage), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )

"""The key with which the embedded EC2 signs identity documents, as AWS signs a region's.

AWS's `/rsa2048` is a PKCS7 SignedData over the document, SHA-256, the document inside and no
certificate: who verifies it must already hold the region's. Ours is made at the first start,
lifecycles under the data directory, and is served by `GET /embedded/certificate`.
"""

from __future__ import annotations

import base64
import os
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID

LIFETIME = timedelta(days=3650)


class IdentitySigner:
    """Signs identity documents with the key under `directory`, made there when there is none.

    Making a key takes about 0.1 s of CPU: construct it off the event loop.
    """

    def __init__(self, directory: Path) -> None:
        self.certificate_path = directory / "identity-certificate.pem"
        key_path = directory / "identity-key.pem"
        if key_path.exists() and self.certificate_path.exists():
            key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
            if not isinstance(key, rsa.RSAPrivateKey):
                raise ValueError(f"{key_path} holds no RSA key: delete it to have one made")
            self._key = key
            self._certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        else:
            self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            self._certificate = _self_signed(self._key)
            _write_private(key_path, self._key)
            self.certificate_path.write_bytes(
                self._certificate.public_bytes(serialization.Encoding.PEM)
            )

    @property
    def certificate_pem(self) -> str:
        """The certificate against which signatures verify."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, document: bytes) -> str:
        """The document's `/rsa2048`: base64 in lines, without PEM armour."""
        signed = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(document)
            .add_signer(self._certificate, self._key, hashes.SHA256())
            .sign(
                serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCerts]
            )
        )
        return "\n".join(textwrap.wrap(base64.b64encode(signed).decode(), 64))


def _self_signed(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ec2spawner embedded EC2")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .sign(key, hashes.SHA256())
    )


def _write_private(path: Path, key: rsa.RSAPrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)

"""Only what a trusted key signed, byte for byte, proves an instance's identity."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.session
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ec2spawner.aws import identity
from ec2spawner.aws.identity import (
    IdentityBusyError,
    IdentityRefused,
    IdentitySetupError,
    IdentityVerifier,
    InstanceIdentity,
    pinned_certificates,
    verify_identity,
)

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

FINGERPRINTS = Path(__file__).parent / "identity_certificate_fingerprints.txt"

FIELDS = {
    "accountId": "123456789012",
    "architecture": "x86_64",
    "availabilityZone": "us-east-1a",
    "billingProducts": None,
    "imageId": "ami-0fa9e1f64142cde17",
    "instanceId": "i-078517ca8a70a1dde",
    "instanceType": "g4dn.xlarge",
    "pendingTime": "2026-11-20T09:25:44Z",
    "privateIp": "10.0.0.209",
    "region": "us-east-1",
    "version": "2017-09-30",
}
IDENTITY = InstanceIdentity(
    instance_id="i-078517ca8a70a1dde",
    account_id="123456789012",
    region="us-east-1",
    pending_time=datetime(2026, 11, 20, 9, 25, 44, tzinfo=UTC),
)
SERIAL = 0xB169CC401559A419
AS_EC2 = (pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCerts)
"""EC2 signs the bytes as they are and sends no certificate."""


def written(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, indent=2)


DOCUMENT = written(FIELDS)


@dataclass(frozen=True)
class Signer:
    key: rsa.RSAPrivateKey
    certificate: x509.Certificate
    path: Path

    @classmethod
    def make(cls, path: Path, issuer: Signer | None = None, serial: int = SERIAL) -> Signer:
        """Self-signed like EC2's, or issued by another signer."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Amazon Web Services LLC")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(datetime(2015, 8, 14, tzinfo=UTC))
            .not_valid_after(datetime(2195, 1, 17, tzinfo=UTC))
            .sign(issuer.key if issuer else key, hashes.SHA256())
        )
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(key, certificate, path)

    def sign(self, document: str, options: tuple[pkcs7.PKCS7Options, ...] = AS_EC2) -> str:
        signed = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(document.encode())
            .add_signer(self.certificate, self.key, hashes.SHA256())
            .sign(serialization.Encoding.DER, list(options))
        )
        return armoured(signed)


def armoured(message: bytes) -> str:
    """As the metadata service sends it: base64 in lines."""
    return base64.encodebytes(message).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("signers")


@pytest.fixture(scope="module")
def ec2(folder: Path) -> Signer:
    return Signer.make(folder / "ec2.pem")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Signer:
    """Another key under EC2's name and serial number."""
    return Signer.make(folder / "stranger.pem")


def refusal(document: str, signature: str, *signers: Signer) -> str:
    with pytest.raises(IdentityRefused) as refused:
        verify_identity(document, signature, [signer.path for signer in signers])
    return str(refused.value)


# --- what is accepted ---


@pytest.mark.parametrize("suffix", ["", "\n"])
def test_a_signed_document_identifies_the_instance(ec2: Signer, suffix: str) -> None:
    assert verify_identity(DOCUMENT + suffix, ec2.sign(DOCUMENT), [ec2.path]) == IDENTITY


def test_any_trusted_certificate_is_accepted(ec2: Signer, stranger: Signer) -> None:
    signature = ec2.sign(DOCUMENT)
    assert verify_identity(DOCUMENT, signature, [stranger.path, ec2.path]) == IDENTITY


def test_indefinite_lengths_as_ec2_writes_them_are_read(ec2: Signer, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(
        ec2.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    command = ["openssl", "cms", "-sign", "-binary", "-nodetach", "-stream", "-nocerts"]
    signed = subprocess.run(
        [*command, "-outform", "DER", "-md", "sha256", "-signer", ec2.path, "-inkey", key],
        input=DOCUMENT.encode(),
        capture_output=True,
        check=True,
    ).stdout
    assert signed.startswith(b"\x30\x80"), "not the form that this test is about"
    assert verify_identity(DOCUMENT, armoured(signed), [ec2.path]) == IDENTITY


async def test_the_verifier_takes_the_certificates_that_configuration_adds(ec2: Signer) -> None:
    verifier = IdentityVerifier("nowhere-1", [ec2.path])
    try:
        assert await verifier.verify(DOCUMENT, ec2.sign(DOCUMENT)) == IDENTITY
        with pytest.raises(IdentityRefused):
            await verifier.verify(DOCUMENT, "")
    finally:
        verifier.close()


# --- what is refused ---


def test_a_signature_of_an_unknown_key_is_refused(ec2: Signer, stranger: Signer) -> None:
    assert "trusted certificate" in refusal(DOCUMENT, stranger.sign(DOCUMENT), ec2)


def test_an_embedded_certificate_is_not_trusted(ec2: Signer, stranger: Signer) -> None:
    signature = stranger.sign(DOCUMENT, (pkcs7.PKCS7Options.Binary,))
    assert "trusted certificate" in refusal(DOCUMENT, signature, ec2)


def test_a_certificate_issued_by_the_trusted_one_is_not_the_trusted_one(
    ec2: Signer, tmp_path: Path
) -> None:
    child = Signer.make(tmp_path / "child.pem", issuer=ec2, serial=7)
    signature = child.sign(DOCUMENT, (pkcs7.PKCS7Options.Binary,))
    assert "trusted certificate" in refusal(DOCUMENT, signature, ec2)


def test_another_regions_certificate_is_refused(ec2: Signer) -> None:
    with pytest.raises(IdentityRefused):
        verify_identity(DOCUMENT, ec2.sign(DOCUMENT), pinned_certificates("us-east-1"))


def test_a_signature_of_another_document_is_refused(ec2: Signer) -> None:
    other = written({**FIELDS, "instanceId": "i-0123456789abcdef0"})
    assert refusal(other, ec2.sign(DOCUMENT), ec2) == "the signature is for another document"


def test_a_document_changed_inside_its_signature_is_refused(ec2: Signer) -> None:
    genuine = base64.b64decode(ec2.sign(DOCUMENT))
    forged = genuine.replace(b"i-078517ca8a70a1dde", b"i-078517ca8a70a1ddf")
    assert forged != genuine
    document = DOCUMENT.replace("a1dde", "a1ddf")
    assert "trusted certificate" in refusal(document, armoured(forged), ec2)


def test_a_signature_without_the_document_inside_is_refused(ec2: Signer) -> None:
    options = (*AS_EC2, pkcs7.PKCS7Options.DetachedSignature)
    assert "trusted certificate" in refusal(DOCUMENT, ec2.sign(DOCUMENT, options), ec2)


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def test_an_unsigned_message_is_refused(ec2: Signer) -> None:
    pkcs7_oid = bytes.fromhex("06092a864886f70d0107")  # and one more byte: 1 data, 2 signed data
    content = der(0x30, pkcs7_oid + b"\x01", der(0xA0, der(0x04, DOCUMENT.encode())))
    signed_data = der(0x30, b"\x02\x01\x01", der(0x31), content, der(0x31))
    message = der(0x30, pkcs7_oid + b"\x02", der(0xA0, signed_data))
    shown = subprocess.run(
        ["openssl", "cms", "-cmsout", "-print", "-inform", "DER"],
        input=message,
        capture_output=True,
        check=True,
    ).stdout
    assert b"signerInfos" in shown, "not the form that this test is about"
    assert "trusted certificate" in refusal(DOCUMENT, armoured(message), ec2)


@pytest.mark.parametrize("kept", [0, 1, 40, 700, -1])
def test_a_truncated_signature_is_refused(ec2: Signer, kept: int) -> None:
    whole = base64.b64decode(ec2.sign(DOCUMENT))
    assert "trusted certificate" in refusal(DOCUMENT, armoured(whole[:kept]), ec2)


@pytest.mark.parametrize(
    "signature", ["not base64!", "----BEGIN PKCS7----", "QUJD\x00", "ÄÖÜ", "A" * 5]
)
def test_a_signature_that_is_not_base64_is_refused(ec2: Signer, signature: str) -> None:
    assert refusal(DOCUMENT, signature, ec2) == "the signature is not base64"


def test_oversized_input_is_refused_before_openssl_runs(ec2: Signer, tmp_path: Path) -> None:
    signature = ec2.sign(DOCUMENT)
    absent = str(tmp_path / "no such program")
    for document, pkcs in [(DOCUMENT + " " * 8192, signature), (DOCUMENT, signature + " " * 8192)]:
        with pytest.raises(IdentityRefused, match="too large"):
            verify_identity(document, pkcs, [ec2.path], openssl=absent)


@pytest.mark.parametrize(
    "changes",
    [
        {"instanceId": None},
        {"instanceId": 7},
        {"instanceId": "i-1; reboot"},
        {"instanceId": "i-078517ca8a70a1dde\n"},
        {"instanceId": ["i-078517ca8a70a1dde"]},
        {"accountId": 123456789012},
        {"accountId": "١٢٣٤٥٦٧٨٩٠١٢"},
        {"region": "US-EAST-1"},
        {"pendingTime": "2026-13-20T09:25:44Z"},
        {"pendingTime": "2026-11-20T09:25:44+02:00"},
    ],
)
def test_signed_nonsense_is_refused(ec2: Signer, changes: Mapping[str, object]) -> None:
    document = written({**FIELDS, **changes})
    (name,) = changes
    assert name in refusal(document, ec2.sign(document), ec2)


@pytest.mark.parametrize("name", ["instanceId", "accountId", "region", "pendingTime"])
def test_a_missing_field_is_refused(ec2: Signer, name: str) -> None:
    document = written({key: value for key, value in FIELDS.items() if key != name})
    assert name in refusal(document, ec2.sign(document), ec2)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        '"i-078517ca8a70a1dde"',
        DOCUMENT + DOCUMENT,
        DOCUMENT.replace("{", '{"instanceId": "i-0123456789abcdef0",'),
        "[" * 4000,
    ],
)
def test_anything_but_one_json_object_is_refused(ec2: Signer, document: str) -> None:
    assert "JSON" in refusal(document, ec2.sign(document), ec2)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_changed_byte_yields_another_identity(ec2: Signer, data: st.DataObject) -> None:
    changed = bytearray(base64.b64decode(ec2.sign(DOCUMENT)))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(IdentityRefused):
        assert verify_identity(DOCUMENT, armoured(bytes(changed)), [ec2.path]) == IDENTITY


# --- the program and the certificates ---


def fake_openssl(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


def test_openssl_gets_neither_the_hubs_secrets_nor_the_claim_as_arguments(
    ec2: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_CRYPT_KEY", "hub-secret")
    seen = tmp_path / "seen"
    spy = fake_openssl(tmp_path / "openssl", f'env > {seen}; echo "$@" >> {seen}; exit 4')
    signature = ec2.sign(DOCUMENT)
    with pytest.raises(IdentityRefused):
        verify_identity(DOCUMENT, signature, [ec2.path], openssl=spy)
    logged = seen.read_text()
    assert "-nointern" in logged
    assert "hub-secret" not in logged
    assert "i-078517ca8a70a1dde" not in logged
    assert signature[:40] not in logged


def test_a_hanging_openssl_is_killed(
    ec2: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "OPENSSL_SECONDS", 0.2)
    hanging = fake_openssl(tmp_path / "openssl", "exec sleep 60")
    with pytest.raises(IdentityRefused, match="in time"):
        verify_identity(DOCUMENT, ec2.sign(DOCUMENT), [ec2.path], openssl=hanging)


async def test_a_flood_of_claims_is_refused_and_later_claims_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = tmp_path / "released"
    fake_openssl(tmp_path / "openssl", f"until [ -e {released} ]; do sleep 0.02; done; exit 4")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    verifier = IdentityVerifier("us-east-1")
    try:
        flood = [
            asyncio.create_task(verifier.verify(DOCUMENT, "")) for _ in range(identity.MAX_PENDING)
        ]
        await asyncio.sleep(0)  # each has begun
        with pytest.raises(IdentityBusyError):
            await verifier.verify(DOCUMENT, "")
        released.touch()
        ends = await asyncio.gather(*flood, return_exceptions=True)
        assert {type(end) for end in ends} == {IdentityRefused}
        with pytest.raises(IdentityRefused):
            await verifier.verify(DOCUMENT, "")
    finally:
        released.touch()
        verifier.close()


def test_a_missing_openssl_is_reported_at_hub_start(
    ec2: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IdentitySetupError, match="install it"):
        IdentityVerifier("us-east-1")


def test_a_region_without_a_certificate_is_reported_at_hub_start(tmp_path: Path) -> None:
    with pytest.raises(IdentitySetupError, match=r"xx-new-1.*AWS's documentation"):
        pinned_certificates("xx-new-1")
    with pytest.raises(IdentitySetupError, match=r"absent\.pem"):
        pinned_certificates("us-east-1", [tmp_path / "absent.pem"])
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(IdentitySetupError, match="no certificate"):
        pinned_certificates("us-east-1", [tmp_path / "empty.pem"])


def test_every_bundled_certificate_has_ec2s_form() -> None:
    (known,) = pinned_certificates("us-east-1")
    for path in sorted(known.parent.glob("*.pem")):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        key = certificate.public_key()
        assert isinstance(key, rsa.RSAPublicKey), path.name
        assert key.key_size == 2048, path.name
        assert certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=365), path.name
        certificate.verify_directly_issued_by(certificate)


HOW_TO_ADD_A_REGION = """
To add a region: copy its RSA-2048 certificate from AWS's documentation ("AWS public certificates
for instance identity document signatures") to ec2spawner/data/identity-certificates/REGION.pem, and
its SHA-256 from another collector, such as SPIRE's awsrsa2048/cacerts.go, to
tests/unit/aws/identity_certificate_fingerprints.txt.
"""


def test_bundled_certificates_are_those_of_an_independent_collector() -> None:
    (known,) = pinned_certificates("us-east-1")
    bundled = {
        path.stem: x509.load_pem_x509_certificate(path.read_bytes())
        .fingerprint(hashes.SHA256())
        .hex()
        for path in known.parent.glob("*.pem")
    }
    lines = FINGERPRINTS.read_text().splitlines()
    collected = dict(line.split() for line in lines if not line.startswith("#"))
    assert bundled == collected, HOW_TO_ADD_A_REGION


def test_every_public_region_that_boto3_knows_has_a_certificate() -> None:
    session = botocore.session.get_session()
    for partition in ("aws", "aws-cn", "aws-eusc", "aws-us-gov"):
        for region in session.get_available_regions("ec2", partition):
            assert pinned_certificates(region), HOW_TO_ADD_A_REGION

"""Certificates of notebooks: for one address, by JupyterHub's own authority, for so long."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from certipy import Certipy
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from ec2spawner.agent.notebook_server.certificates import NotebookCertificates
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.hub.security.notebook_certificates import AUTHORITY, CannotSign, NotebookAuthority

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> NotebookAuthority:
    """As JupyterHub makes it at its first start."""
    folder = tmp_path_factory.mktemp("internal-ssl")
    bundles = Certipy(store_dir=str(folder)).trust_from_graph({AUTHORITY: ["hub-ca"]})
    return NotebookAuthority(folder, lambda: Path(bundles[AUTHORITY]))


async def test_a_certificate_is_for_the_address_and_by_the_authority(
    authority: NotebookAuthority,
) -> None:
    made = await authority.sign("10.0.3.17")
    certificate = x509.load_pem_x509_certificate(made.certificate.encode())
    signer = x509.load_pem_x509_certificate(
        (authority.folder / AUTHORITY / f"{AUTHORITY}.crt").read_bytes()
    )
    certificate.verify_directly_issued_by(signer)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each.value) for each in names] == ["10.0.3.17"]
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    key = load_pem_private_key(made.key.encode(), password=None)
    assert key.public_key() == certificate.public_key()
    assert made.ca == (authority.folder / f"{AUTHORITY}_trust.crt").read_text()


async def test_the_key_is_new_each_time_and_never_on_the_hubs_disk(
    authority: NotebookAuthority,
) -> None:
    before = {path: path.read_bytes() for path in authority.folder.rglob("*") if path.is_file()}
    first, second = await authority.sign("10.0.3.17"), await authority.sign("10.0.3.17")
    assert first.key != second.key
    after = {path: path.read_bytes() for path in authority.folder.rglob("*") if path.is_file()}
    assert after == before
    assert first.key not in repr(first)


def test_a_certificate_ends_with_its_authority_and_none_is_made_after_that(
    authority: NotebookAuthority,
) -> None:
    late = NOW + timedelta(days=5 * 365 - 10)  # JupyterHub's authorities hold for five years
    made = x509.load_pem_x509_certificate(authority._sign("::1", late).certificate.encode())
    assert made.not_valid_after_utc < late + timedelta(days=11)
    with pytest.raises(CannotSign, match="restart the hub"):
        authority._sign("10.0.3.17", late + timedelta(days=30))


async def test_an_unreadable_authority_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotSign, match=r"10\.0\.3\.17"):
        await NotebookAuthority(tmp_path, lambda: tmp_path / "none").sign("10.0.3.17")


async def test_on_the_instance_only_the_notebook_user_can_read_them(
    authority: NotebookAuthority, tmp_path: Path
) -> None:
    user = NotebookUser("jo", 60001, 60001, (60001,), tmp_path / "home", "/bin/bash")
    if not _may_give_away():
        user = _me(tmp_path)
    made = await authority.sign("127.0.0.1")
    written = NotebookCertificates.write(made, tmp_path, user)
    for path in (written.folder, *written.folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0
        assert path.stat().st_uid == user.uid
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=written.environment["JUPYTERHUB_SSL_CLIENT_CA"]
    )
    context.load_cert_chain(
        written.environment["JUPYTERHUB_SSL_CERTFILE"],
        written.environment["JUPYTERHUB_SSL_KEYFILE"],
    )
    again = NotebookCertificates.write(await authority.sign("127.0.0.1"), tmp_path, user)
    assert len(list(again.folder.iterdir())) == 3
    again.remove()
    assert not again.folder.exists()


def _may_give_away() -> bool:

    return os.geteuid() == 0


def _me(home: Path) -> NotebookUser:

    return NotebookUser("me", os.geteuid(), os.getegid(), (os.getegid(),), home, "/bin/bash")

"""The notebook's certificates as files outside the home, readable only by the notebook and root."""

from __future__ import annotations

import os
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

from ...wire import Certificates
from ..settings import NotebookUser

KEY, CERTIFICATE, CA = "notebook.key", "notebook.crt", "ca.crt"


@dataclass(frozen=True, slots=True)
class NotebookCertificates:
    """The certificates of a grant, on disk while its lease lasts."""

    granted: Certificates
    folder: Path

    @classmethod
    def write(
        cls, granted: Certificates, run_dir: Path, user: NotebookUser
    ) -> NotebookCertificates:
        """Write the files; blocking. Raises `OSError`."""
        folder = run_dir / "certificates"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            cls._fill(folder, granted, user)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(granted, folder)

    @staticmethod
    def _fill(folder: Path, granted: Certificates, user: NotebookUser) -> None:
        texts = {KEY: granted.key, CERTIFICATE: granted.certificate, CA: granted.ca}
        for name, text in texts.items():
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            if not user.is_agent:
                os.chown(folder / name, user.uid, user.gid)
        if not user.is_agent:
            os.chown(folder, user.uid, user.gid)

    def remove(self) -> None:
        """Delete key and certificate: the notebook has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which jupyterhub-singleuser finds them."""
        return {
            "JUPYTERHUB_SSL_KEYFILE": str(self.folder / KEY),
            "JUPYTERHUB_SSL_CERTFILE": str(self.folder / CERTIFICATE),
            "JUPYTERHUB_SSL_CLIENT_CA": str(self.folder / CA),
        }

    def is_shown_by(self, connection: ssl.SSLObject) -> bool:
        """Whether the peer presents exactly the notebook's certificate."""
        shown = connection.getpeercert(binary_form=True)
        return shown == ssl.PEM_cert_to_DER_cert(self.granted.certificate)

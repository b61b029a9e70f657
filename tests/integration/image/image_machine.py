"""Runs in namespaces of its own: `configs/ami/provision.sh` on a copy of this machine's system.

The copy is an overlay that ends with the namespaces, with the development environment as the one
that pip would have made: there is no package index here. Prints what it found as JSON.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
VENV = Path("opt/ec2spawner")

DEVELOPMENT_LINKS = (
    "etc/ipython/startup/50-ec2spawner.py",
    "etc/jupyter/jupyter_server_config.d/ec2spawner.json",
    "share/jupyter/labextensions/ec2spawner-lab",
)
"""Into the checkout, in place of the files that the wheel brings."""

SECRETS = {
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA builder",
    "root/.bash_history": "export TOKEN=secret",
    "home/ubuntu/.aws/credentials": "aws_secret_access_key = secret",
    "home/ubuntu/.cache/pip/http": "cached",
    "etc/ssh/ssh_host_ed25519_key": "PRIVATE KEY",
    "var/log/auth.log": "who logged in",
    "etc/machine-id": "0123456789abcdef0123456789abcdef",
}
"""What a machine has on which somebody has worked."""


def sh(*command: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def overlay(lower: Path, scratch: Path, target: Path) -> None:
    upper, work = scratch / "upper", scratch / "work"
    for folder in (upper, work, target):
        folder.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    sh("mount", "-t", "overlay", "overlay", "-o", options, str(target))


def copy_of_this_system(scratch: Path) -> Path:
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "tmpfs", "tmpfs", str(scratch))
    root = scratch / "root"
    overlay(Path("/"), scratch / "system", root)
    overlay(Path(sys.prefix), scratch / "environment", root / VENV)
    for link in DEVELOPMENT_LINKS:
        (root / VENV / link).unlink()
    sh("mount", "-t", "proc", "proc", str(root / "proc"))
    sh("mount", "--bind", "/dev", str(root / "dev"))
    sh("mount", "-t", "tmpfs", "tmpfs", str(root / "run"))
    for name, content in SECRETS.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(content)
    return root


def provision(root: Path, wheel: str, *arguments: str) -> str:
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "PACKAGE": f"ec2spawner[notebook] @ file:///{wheel}",
        "PIP_NO_INDEX": "1",
    }
    return sh(*("chroot", str(root), "bash", "/provision.sh", *arguments), environment=environment)


def digests(root: Path, *folders: str) -> dict[str, str]:
    found = {}
    for folder in folders:
        for file in sorted((root / folder).rglob("*")):
            if file.is_symlink():
                found[str(file)] = str(file.readlink())
            elif file.is_file() and file.suffix != ".pyc":
                found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def main(scratch: Path, wheel: Path) -> None:
    root = copy_of_this_system(scratch)
    shutil.copy(TREE / "configs/ami/provision.sh", root)
    shutil.copy(wheel, root)
    provision(root, wheel.name)
    first = digests(root, "etc", "usr/local/bin", f"{VENV}/bin", f"{VENV}/share/jupyter/kernels")
    provision(root, wheel.name)
    second = digests(root, "etc", "usr/local/bin", f"{VENV}/bin", f"{VENV}/share/jupyter/kernels")
    manifest = json.loads((root / "etc/ec2spawner/image.json").read_text())
    hot = (root / "etc/ec2spawner/hot-files").read_text().splitlines()
    said = sh("chroot", str(root), "/usr/local/bin/ec2spawner-agent", "--help")
    provision(root, wheel.name, "clean")
    units = root / "etc/systemd/system"
    found = {
        "changed": sorted(name for name in first | second if first.get(name) != second.get(name)),
        "manifest": manifest,
        "hot": hot,
        "agent": said,
        "left": {name: (root / name).read_text() for name in SECRETS if (root / name).is_file()},
        "masked": sorted(
            link.name
            for link in units.iterdir()
            if link.is_symlink() and str(link.readlink()) == "/dev/null"
        ),
        "wanted": sorted(link.name for link in units.glob("*.wants/ec2spawner-*")),
        "units": {unit.name: unit.read_text() for unit in units.glob("ec2spawner-*.service")},
        "drifted": [
            file
            for file, digest in manifest["files"].items()
            if hashlib.sha256((root / file.lstrip("/")).read_bytes()).hexdigest() != digest
        ],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

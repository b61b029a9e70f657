"""Runs in namespaces of its own: a machine that `configs/aws/setup-hub.sh` sets up as a hub.

What the script writes lands in overlays, and its ports are those of its own loopback. The units'
commands are started as systemd would start them; the embedded EC2 stands in for AWS. Prints what
it found as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import pwd
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.harness import Embedded, end, until

TREE = Path(__file__).resolve().parents[3]
AWS = TREE / "configs/aws"
CONFIG = Path("/etc/jupyterhub")
UNITS = Path("/etc/systemd/system")
ADDRESS = "10.0.0.5"


def sh(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def isolate(scratch: Path) -> None:
    """Loopback and a private address; overlays over all that the script writes to."""
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "address", "add", f"{ADDRESS}/24", "dev", "lo")
    sh("ip", "route", "add", "169.254.169.254", "dev", "lo", "src", ADDRESS)
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "tmpfs", "tmpfs", str(scratch))
    sh("mount", "-t", "tmpfs", "tmpfs", "/opt")
    Path("/opt/jupyterhub").mkdir()
    for target, lower in (
        ("/etc", "/etc"),
        ("/srv", "/srv"),
        ("/usr/local/sbin", "/usr/local/sbin"),
        ("/opt/jupyterhub", sys.prefix),
    ):
        upper, work = (scratch / target.strip("/") / name for name in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        sh("mount", "-t", "overlay", "overlay", "-o", options, target)


def bring_proxy() -> None:
    """The proxy of the development environment: there is no package index in this namespace."""
    modules = Path("/opt/jupyterhub/proxy/node_modules")
    modules.parent.mkdir()
    shutil.copytree(Path(sys.prefix) / "node/node_modules", modules, symlinks=True)
    shutil.copy(AWS / "proxy/package-lock.json", modules / ".installed")


def settings(described: Mapping[str, Any]) -> None:
    """What cloud-init writes, with the subnets of the embedded EC2."""
    values = {
        "HUB_PACKAGE": "ec2spawner @ https://wheels.example.org/ec2spawner-0.1.0-py3-none-any.whl",
        "HUB_NAME": "small-team",
        "HUB_REGION": described["region"],
        "HUB_SUBNETS": " ".join(described["subnets"]),
        "HUB_SECURITY_GROUPS": described["security_group"],
        "HUB_INSTANCE_PROFILE": "",
        "HUB_ADMIN": "admin",
        "HUB_USERS": "ann ben",
        "HUB_DATA_VOLUME": "",
        # On AWS these come from the machine's role.
        "AWS_ENDPOINT_URL": described["ec2_endpoint"],
        "AWS_ACCESS_KEY_ID": described["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": described["aws_secret_access_key"],
    }
    file = Path("/etc/ec2spawner/hub.env")
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f'{name}="{value}"\n' for name, value in values.items()))


def assign(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value.strip('"')


def unit(name: str) -> tuple[list[str], dict[str, str], str]:
    """Command, environment and folder of a unit."""
    text = (UNITS / name).read_text().replace("\\\n", " ")
    lines = [assign(line) for line in text.splitlines() if "=" in line]
    environment: dict[str, str] = {}
    for key, value in lines:
        if key == "EnvironmentFile":
            read = Path(value).read_text().splitlines()
            environment |= dict(assign(line) for line in read if line and line[0] != "#")
        elif key == "Environment":
            environment |= dict([assign(value)])
    unit = dict(lines)
    for name in unit.get("UnsetEnvironment", "").split():
        environment.pop(name, None)
    return shlex.split(unit["ExecStart"]), environment, unit.get("WorkingDirectory", "/")


@contextlib.contextmanager
def started(name: str, log: Path) -> Iterator[None]:
    """The unit's command as its user. The Python of a checkout may be in root's home."""
    command, environment, folder = unit(name)
    as_user = (
        *("setpriv", "--reuid=jupyterhub", "--regid=jupyterhub", "--clear-groups"),
        "--inh-caps=-all,+dac_read_search,+net_bind_service",
        "--ambient-caps=-all,+dac_read_search,+net_bind_service",
    )
    environment.setdefault("PATH", os.environ["PATH"])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*as_user, *command], env=environment, cwd=folder, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def fingerprints() -> dict[str, str]:
    """Everything in the hub's folders and its units, by content, owner and mode."""
    found = {}
    for folder in (CONFIG, UNITS, Path("/usr/local/sbin")):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.is_symlink():
                status = file.stat()
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
                found[str(file)] = f"{digest} {status.st_uid} {status.st_mode:o}"
    return found


def mode(path: str) -> str:
    status = Path(path).stat()
    return f"{pwd.getpwuid(status.st_uid).pw_name} {status.st_mode & 0o777:o}"


async def log_in(log: Path) -> dict[str, Any]:
    """As a user does, over TLS and with the certificate that the script made."""
    trust = ssl.create_default_context(cafile=str(CONFIG / "tls/cert.pem"))
    secrets = dict(map(assign, (CONFIG / "secrets.env").read_text().splitlines()))
    async with httpx.AsyncClient(
        base_url="https://localhost", verify=trust, follow_redirects=True, timeout=30
    ) as browser:

        async def login_page() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return (await browser.get("/hub/login")).status_code == 200
            return False

        try:
            await until(login_page, 60, "the hub")
        except AssertionError:
            sys.stderr.write(log.read_text())
            raise
        form = {"username": "ann", "password": secrets["HUB_USER_PASSWORD"]}
        form["_xsrf"] = browser.cookies["_xsrf"]
        spawn = await browser.post("/hub/login?next=%2Fhub%2Fspawn", data=form)
        wrong = await browser.post(
            "/hub/login", data={**form, "username": "admin", "_xsrf": browser.cookies["_xsrf"]}
        )
    return {
        "url": str(spawn.url),
        "page": spawn.text,
        "admin_with_users_password": wrong.status_code,
    }


async def main(scratch: Path) -> None:
    isolate(scratch)
    embedded = await Embedded(scratch / "embedded").start()
    try:
        settings(embedded.described)
        bring_proxy()
        first = sh("bash", str(AWS / "setup-hub.sh"))
        before = fingerprints()
        sh("bash", str(AWS / "setup-hub.sh"))
        unchanged = before == fingerprints()
        log = scratch / "hub.log"
        with (
            started("jupyterhub-proxy.service", scratch / "proxy.log"),
            started("jupyterhub.service", log),
        ):
            served = await log_in(log)
        proxy_environment = unit("jupyterhub-proxy.service")[1]
    finally:
        await end(embedded.process)
    paths = ("/srv/jupyterhub", "/etc/jupyterhub/secrets.env", "/etc/jupyterhub/tls/key.pem")
    found = {
        "first": first,
        "unchanged": unchanged,
        "modes": {path: mode(path) for path in (*paths, "/srv/jupyterhub/ec2spawner.sqlite")},
        "certificate": sh(
            *("openssl", "x509", "-noout", "-ext", "subjectAltName,basicConstraints"),
            *("-in", str(CONFIG / "tls/cert.pem")),
        ),
        "proxy_environment": sorted(proxy_environment),
        **served,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

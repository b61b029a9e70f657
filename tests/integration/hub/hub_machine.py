"""Runs in namespaces of its own: a machine that `configs/aws/cloud-init.yaml` makes a hub.

What the scripts write lands in overlays, and their ports are those of their own loopback. The
units' commands are started as systemd would start them; the embedded EC2 stands in for AWS, and a
loop device for the data volume. Prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import pwd
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.harness import Embedded, end, until
from tests.integration.hub.wheels import AWS, extra_package, wheel
from tests.needrestart import restarted
from tests.stack_template import user_data as user_data_of_the_stack

CONFIG = Path("/etc/jupyterhub")
SETUP = ("bash", "/opt/jupyterhub/share/ec2spawner/configs/aws/setup-hub.sh")
UPDATE_HUB = Path("/usr/local/sbin/update-hub")
HUB_ENV = Path("/etc/ec2spawner/hub.env")
UNITS = Path("/etc/systemd/system")
BY_ID = Path("/dev/disk/by-id")
VOLUME = "vol-0a1b2c3d4e5f60718"
SETTINGS = "/ec2spawner/small-team/hub.env"
READS_ITS_SETTINGS = {"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": "*"}
PROXY = "jupyterhub-proxy.service"
ADDRESS = "10.0.0.5"


def sh(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def isolate(scratch: Path) -> None:
    """Loopback and a private address; nothing that is written stays."""
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "address", "add", f"{ADDRESS}/24", "dev", "lo")
    sh("ip", "route", "add", "169.254.169.254", "dev", "lo", "src", ADDRESS)
    sh("mount", "--make-rprivate", "/")
    BY_ID.mkdir(parents=True, exist_ok=True)
    for folder in (str(scratch), "/opt", "/run", str(BY_ID)):
        sh("mount", "-t", "tmpfs", "tmpfs", folder)
    Path("/opt/jupyterhub").mkdir()
    Path("/run/systemd/system").mkdir(parents=True)
    # There is no package archive, and no systemd.
    programs = scratch / "bin"
    programs.mkdir()
    for name in ("apt-get", "systemctl"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{scratch}/called\n')
        (programs / name).chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    del os.environ["PYTHONPATH"]  # the hub's environment has what was installed, not this tree
    os.environ["PIP_NO_COMPILE"] = "1"  # that takes longer than all the rest


OVERLAYS = {
    "/etc": "/etc",
    "/srv": "/srv",
    "/usr/local/sbin": "/usr/local/sbin",
    "/opt/jupyterhub": sys.prefix,
}


def new_machine(layers: Path) -> None:
    """Overlays over all that the scripts write to, and what cloud-init writes at the first boot."""
    for target, lower in OVERLAYS.items():
        upper, work = (layers / target.strip("/") / name for name in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        sh("mount", "-t", "overlay", "overlay", "-o", options, target)
    # The proxy of the development environment: there is no package index in this namespace.
    modules = Path("/opt/jupyterhub/proxy/node_modules")
    modules.parent.mkdir()
    shutil.copytree(Path(sys.prefix) / "node/node_modules", modules, symlinks=True)
    for copy in (modules / ".installed", modules.parent / "package-lock.json"):
        shutil.copy(AWS / "proxy/package-lock.json", copy)
    user_data = user_data_of_the_stack().replace("${AWS::Region}", "us-east-1")
    user_data = user_data.replace("${HubSettings}", SETTINGS).replace("${!", "${")
    for each in yaml.safe_load(yaml.safe_load(user_data))["write_files"]:
        file = Path(each["path"])
        file.parent.mkdir(exist_ok=True)
        file.write_text(each["content"])
        file.chmod(int(each.get("permissions", "0644"), 8))


def take_away() -> None:
    """The machine; its volume stays."""
    for mounted in (CONFIG, Path("/srv/jupyterhub"), Path("/srv/hub-disk"), *map(Path, OVERLAYS)):
        sh("umount", "--lazy", str(mounted))


def make_volume(scratch: Path) -> str:
    """A loop device where a volume's link is on EC2; the caller gives the device back."""
    image = scratch / "volume"
    with image.open("wb") as file:
        file.truncate(64 * 1024**2)
    device = sh("losetup", "--find", "--show", str(image)).strip()
    (BY_ID / f"nvme-Amazon_Elastic_Block_Store_{VOLUME.replace('-', '')}").symlink_to(device)
    return device


def configure(embedded: Embedded, package: str) -> None:
    """What the stack writes into its parameter, with the subnets of the embedded EC2."""
    described = embedded.described
    values = {
        "HUB_PACKAGE": package,
        "HUB_NAME": "small-team",
        "HUB_REGION": described["region"],
        "HUB_SUBNETS": " ".join(described["subnets"]),
        "HUB_SECURITY_GROUPS": described["security_group"],
        "HUB_INSTANCE_PROFILE": "",
        "HUB_ADMIN": "admin",
        "HUB_USERS": "ann ben",
        "HUB_DATA_VOLUME": VOLUME,
        # On AWS these come from the machine's role.
        "AWS_ENDPOINT_URL": described["ec2_endpoint"],
        **embedded.credentials,
    }
    text = "".join(f'{name}="{value}"\n' for name, value in values.items())
    embedded.client("ssm").put_parameter(Name=SETTINGS, Value=text, Type="String", Overwrite=True)
    os.environ |= {"AWS_ENDPOINT_URL": described["ec2_endpoint"], **embedded.credentials}


def preinstall(package: str) -> None:
    """A wheel in place of the link to this tree."""
    [site] = Path("/opt/jupyterhub/lib").glob("python3.*/site-packages")
    for editable in [*site.glob("__editable__*ec2spawner*"), *site.glob("ec2spawner-*.dist-info")]:
        shutil.rmtree(editable) if editable.is_dir() else editable.unlink()
    with zipfile.ZipFile(package.partition("file://")[2]) as archive:
        archive.extractall(site)


def set_up(scratch: Path, *command: str) -> list[str]:
    """Runs this command; what it asked of systemd."""
    called = scratch / "called"
    called.write_text("")
    sh(*command)
    return [line for line in called.read_text().splitlines() if line.startswith("systemctl")]


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
        await browser.post("/hub/login?next=%2Fhub%2Fspawn", data=form)

        async def spawn_page() -> httpx.Response | None:
            page = await browser.get("/hub/spawn")
            return None if page.status_code == HTTPStatus.SERVICE_UNAVAILABLE else page

        spawn = await until(spawn_page, 60, "the hub to know what the account has")
        wrong = await browser.post(
            "/hub/login", data={**form, "username": "admin", "_xsrf": browser.cookies["_xsrf"]}
        )
    return {
        "url": str(spawn.url),
        "status": spawn.status_code,
        "page": words(spawn.text),
        "admin_with_users_password": wrong.status_code,
    }


def words(page: str) -> str:
    """The text of a page, without scripts."""
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(text.split())


def prepare(name: str) -> None:
    """What systemd does before it starts a unit."""
    text = (UNITS / name).read_text().replace("\\\n", " ")
    fields = dict(assign(line) for line in text.splitlines() if "=" in line)
    folder = Path("/run", fields["RuntimeDirectory"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sh(*shlex.split(fields["ExecStartPre"].removeprefix("+")))


def can(*command: str) -> bool:
    done = subprocess.run(command, capture_output=True, cwd="/", check=False)
    return done.returncode == 0


def readable_by_the_hub(file: str) -> bool:
    as_hub = ("setpriv", "--reuid=jupyterhub", "--regid=jupyterhub", "--clear-groups")
    return can(*as_hub, "cat", str(CONFIG / file))


def imports(module: str) -> bool:
    return can("/opt/jupyterhub/bin/python", "-c", f"import {module}")


def failed_update(temporary: Path) -> list[str]:
    """What it leaves behind when there is no such package."""
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(["update-hub"], capture_output=True, env=environment, check=False)
    assert done.returncode, done.stdout
    return [file.name for file in temporary.iterdir()]


async def first_machine(scratch: Path, embedded: Embedded) -> dict[str, Any]:
    new_machine(scratch / "first")
    preinstall(wheel(scratch / "wheels"))
    configure(embedded, f"ec2spawner @ {(scratch / 'ec2spawner-0-py3-none-any.whl').as_uri()}")
    found: dict[str, Any] = {"left_by_a_failed_update": failed_update(scratch / "temporary")}
    campus = extra_package(scratch / "wheels", "campus_roles")
    rebuilt = wheel(scratch / "wheels", "rebuilt", extra=campus)
    configure(embedded, rebuilt.replace("ec2spawner", "ec2spawner[campus]", 1))
    with UPDATE_HUB.open("a") as file:
        file.write("# As another version had it.\n")
    found["asked_first"] = set_up(scratch, "update-hub")
    found["reinstalled"] = imports("ec2spawner.rebuilt")
    found["has_the_extra"] = imports("campus_roles")
    found["update_hub_is_the_packages"] = (
        UPDATE_HUB.read_bytes() == (AWS / "update-hub").read_bytes()
    )
    prepare(PROXY)
    before = fingerprints()
    found["asked_again"] = set_up(scratch, *SETUP)
    found["unchanged"] = before == fingerprints()
    log = scratch / "hub.log"
    with (
        started(PROXY, scratch / "proxy.log"),
        started("jupyterhub.service", log),
    ):
        found |= await log_in(log)
    found["proxy_environment"] = sorted(unit(PROXY)[1])
    units = (PROXY, "jupyterhub.service", "ssh.service")
    after_an_upgrade = restarted(Path("/etc/needrestart/conf.d/ec2spawner.conf"), units)
    found["restarted_after_an_upgrade"] = sorted(after_an_upgrade)
    paths = ("/srv/jupyterhub", "/etc/jupyterhub/secrets.env", "/etc/jupyterhub/tls/key.pem")
    found["modes"] = {path: mode(path) for path in (*paths, "/srv/jupyterhub/ec2spawner.sqlite")}
    found["certificate"] = sh(
        *("openssl", "x509", "-noout", "-ext", "subjectAltName,basicConstraints"),
        *("-in", str(CONFIG / "tls/cert.pem")),
    )
    return found


def with_an_admins_changes(scratch: Path) -> dict[str, Any]:
    """A package of their own, and no certificate."""
    with (CONFIG / "requirements.txt").open("a") as file:
        file.write(f"{extra_package(scratch / 'wheels', 'campus_login')}\n")
    (CONFIG / "tls/cert.pem").unlink()
    asked = set_up(scratch, *SETUP)
    return {"asked_for_a_certificate": asked, "has_the_package": imports("campus_login")}


def second_machine(scratch: Path) -> dict[str, Any]:
    """Another one with the volume of the first, on which the hub's numbers belong to someone."""
    before = {path: Path(path).read_bytes() for path in SURVIVE}
    number = str(Path("/srv/jupyterhub").stat().st_gid)
    settings = HUB_ENV.read_bytes()
    take_away()
    new_machine(scratch / "second")
    sh("groupadd", "--gid", number, "someone")
    sh("useradd", "--uid", number, "--gid", number, "someone")
    HUB_ENV.write_bytes(settings)  # as update-hub reads them again
    set_up(scratch, "bash", str(AWS / "setup-hub.sh"))
    return {
        "survived": [
            path for path, content in before.items() if Path(path).read_bytes() == content
        ],
        "key_readable": readable_by_the_hub("tls/key.pem"),
        "state_of": pwd.getpwuid(Path("/srv/jupyterhub/ec2spawner.sqlite").stat().st_uid).pw_name,
        "installed_again": imports("campus_login"),
    }


SURVIVE = [
    f"{CONFIG}/{name}"
    for name in ("secrets.env", "jupyterhub_config.py", "requirements.txt", "tls/cert.pem")
]


async def main(scratch: Path) -> None:
    isolate(scratch)
    embedded = await Embedded(scratch / "embedded").start()
    device = make_volume(scratch)
    try:
        await embedded.allow(READS_ITS_SETTINGS, hub_name="small-team")
        found = await first_machine(scratch, embedded)
        found |= with_an_admins_changes(scratch)
        found["replaced"] = second_machine(scratch)
    finally:
        # It is still mounted: the kernel detaches it with the last mount, when this namespace ends.
        sh("losetup", "--detach", device)
        await end(embedded.process)
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

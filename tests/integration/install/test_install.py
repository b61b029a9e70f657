"""What is built installs into bare environments without node: the hub's side and the notebook's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

TREE = Path(__file__).resolve().parents[3]
CONSTRAINTS = TREE / "ec2spawner/data/constraints.txt"
KINDS = ("wheel", "sdist")

BUNDLE = "share/jupyter/labextensions/ec2spawner-lab/package.json"
SERVER_CONFIG = "etc/jupyter/jupyter_server_config.d/ec2spawner.json"
HUB_SETUP = {
    f"share/ec2spawner/configs/aws/{name}"
    for name in (
        *("as-hub", "cloud-init.yaml", "jupyterhub-proxy.service", "jupyterhub.service"),
        *("jupyterhub_config.py", "proxy/package-lock.json", "proxy/package.json"),
        *("install-hub.sh", "setup-hub.sh", "stack.yaml", "update-hub"),
    )
}
SAMPLES = {
    f"share/ec2spawner/configs/{name}/jupyterhub_config.py"
    for name in ("class", "demo", "large", "shared-data", "small-team")
}


def run(*command: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both distributions, from a copy of the tree: a build leaves files beside its sources."""
    folder = tmp_path_factory.mktemp("dist")
    tree = folder / "tree"
    listed = run("git", "ls-files", "-z", cwd=TREE).split("\0")
    bundle = (TREE / "ec2spawner/labextension").rglob("*")
    names = [*filter(None, listed), *(str(each.relative_to(TREE)) for each in bundle)]
    for name in names:
        if (TREE / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, tree / name)
    command = [sys.executable, "setup.py", "--quiet"]
    output = ["--dist-dir", str(folder)]
    run(*command, "sdist", *output, "bdist_wheel", *output, cwd=tree)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def test_the_wheel_has_the_extension_and_the_hubs_set_up(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as archive:
        data = {name.partition(".data/data/")[2] for name in archive.namelist()}
    assert {BUNDLE, SERVER_CONFIG, *HUB_SETUP, *SAMPLES} <= data


def test_the_source_distribution_has_the_built_extension(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"ec2spawner/labextension/package.json", "configs/aws/setup-hub.sh"} <= names
    assert "ec2spawner/labextension/sources.sha256" in names


def without_node(programs: Path, folder: Path) -> dict[str, str]:
    """An environment in which node is not found, and nothing of this user's Jupyter."""
    nodeless = [
        each for each in os.environ["PATH"].split(os.pathsep) if not (Path(each) / "node").exists()
    ]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "PYTHON"))}
    own = {"PATH": os.pathsep.join([str(programs), *nodeless]), "JUPYTER_CONFIG_DIR": str(folder)}
    return kept | own | {"JUPYTER_DATA_DIR": str(folder)}


def install(
    built: Path, extra: str, folder: Path, *tools: str, constraints: Path = CONSTRAINTS
) -> tuple[Path, dict[str, str]]:
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment/bin"
    environment = without_node(programs, folder / "jupyter")
    assert shutil.which("node", path=environment["PATH"]) is None
    pip: Sequence[str] = (str(programs / "python"), "-m", "pip", "install", "--quiet")
    wanted = f"ec2spawner{extra} @ {built.as_uri()}", *tools
    run(*pip, "--constraint", str(constraints), *wanted, cwd=folder, environment=environment)
    return programs, environment


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_hub_has_all_it_needs(kind: str, built: dict[str, Path], tmp_path: Path) -> None:
    programs, environment = install(built[kind], "", tmp_path)
    said = run(str(programs / "ec2spawner"), "--help", cwd=tmp_path, environment=environment)
    assert "check" in said
    code = (
        "from jupyterhub.app import JupyterHub; app = JupyterHub();"
        "app.spawner_class = 'ec2'; print(app.spawner_class.__name__)"
    )
    python = str(programs / "python")
    assert run(python, "-c", code, cwd=tmp_path, environment=environment) == "EC2Spawner\n"
    assert (programs.parent / "share/ec2spawner/configs/aws/setup-hub.sh").exists()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_has_the_extension(kind: str, built: dict[str, Path], tmp_path: Path) -> None:
    programs, environment = install(built[kind], "[notebook]", tmp_path)
    jupyter = str(programs / "jupyter")
    listed = subprocess.run(
        [jupyter, "labextension", "list"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    [line] = [each for each in listed.stderr.splitlines() if "ec2spawner-lab" in each]
    assert "enabled" in line
    assert "OK" in line
    server = subprocess.run(
        [jupyter, "server", "extension", "list"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert "ec2spawner.notebook" in server.stdout + server.stderr
    config = json.loads((programs.parent / SERVER_CONFIG).read_text())
    assert config["ServerApp"]["jpserver_extensions"]["ec2spawner.notebook"] is True
    agent = run(str(programs / "ec2spawner-agent"), "--help", cwd=tmp_path, environment=environment)
    assert "--hub-api-url" in agent


EXTRAS = ("alarms", "postgresql")
"""Those whose oldest releases are tested, too."""

TOOLS = (
    *("aiosmtpd", "httpx", "hypothesis", "moto[ec2,server]", "oauthenticator"),
    *("pytest", "pytest-asyncio", "pytest-timeout"),
)
"""What `TESTED` need besides."""

TESTED = (
    *("tests/integration/aws", "tests/integration/alarms/test_interruption_queue.py"),
    *("tests/integration/commands/test_check_command.py", "tests/unit/aws", "tests/unit/check"),
    *("tests/unit/config", "tests/unit/hub", "tests/unit/store", "tests/unit/telemetry"),
)
"""Our calls of AWS, and most that we need of other packages."""


def floors() -> dict[str, str]:
    """The oldest release of each package that `pyproject.toml` allows. AWS's models are botocore's,
    which boto3 needs in its own version or a later one."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*map(project["optional-dependencies"].get, EXTRAS))]
    found: dict[str, str] = {
        canonicalize_name(requirement.name): bound.version
        for requirement in map(Requirement, wanted)
        for bound in requirement.specifier
        if bound.operator == ">="
    }
    return {**found, "botocore": found["boto3"]}


def constraints_of(tools: Sequence[str], oldest: Mapping[str, str]) -> str:
    """The oldest releases, and of the tools those that are tested with."""
    names = {Requirement(each).name for each in tools}
    pinned = [x for x in CONSTRAINTS.read_text().splitlines() if x.partition("==")[0] in names]
    return "\n".join([*pinned, *(f"{name}=={version}" for name, version in oldest.items())])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the oldest releases have no wheels for it")
def test_the_oldest_releases_that_are_allowed_know_all_that_we_ask_of_them(
    built: dict[str, Path], tmp_path: Path
) -> None:
    oldest, constraints = floors(), tmp_path / "constraints.txt"
    constraints.write_text(constraints_of(TOOLS, oldest))
    programs, _ = install(
        built["wheel"], f"[{','.join(EXTRAS)}]", tmp_path, *TOOLS, constraints=constraints
    )
    python = str(programs / "python")
    listed = run(python, "-m", "pip", "list", "--format=json", cwd=tmp_path)
    installed: dict[str, Version] = {
        canonicalize_name(each["name"]): Version(each["version"]) for each in json.loads(listed)
    }
    wanted = {name: Version(version) for name, version in oldest.items()}
    assert {name: installed[name] for name in oldest} == wanted
    others = ("EC2SPAWNER", "JUPYTER", "PYTEST", "PYTHON")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    marks = "not long and not nightly"
    command = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, *TESTED)
    print(run(*command, cwd=TREE, environment=environment).splitlines()[-1])

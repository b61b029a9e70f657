"""User-data as the hub writes it, run as an instance of the embedded EC2 runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ec2spawner.embedded.runtime import shims
from ec2spawner.hub.spawn import user_data as user_data_module
from ec2spawner.hub.spawn.user_data import published_package, user_data

HUB = 'http://hub:8081/it\'s-100%-"$HOME"-`x`\\/hub/api'

AGENT = """#!/bin/bash
printf '%s\\n' "$@"
"""

PYTHON = """#!/bin/bash
# An image's python3: `-m venv FOLDER` makes an environment, in which pip does what PIP says.
echo "$*" >>"$CALLS"
[[ $2 == venv ]] || exit 1
mkdir -p "$3/bin"
printf '%s\\n' '#!/bin/bash' 'printf "%s\\n" "$@" >>"$CALLS"' "$PIP" >"$3/bin/python"
chmod +x "$3/bin/python"
"""

SYSTEMCTL = """#!/bin/bash
[[ $* == poweroff ]] && echo "systemctl $*" >>"$CALLS" && exit
exec "$0.of-the-runtime" "$@"
"""


class Machine:
    """An image with just these programs, and user-data that keeps within one folder."""

    def __init__(self, root: Path) -> None:
        self.programs = root / "programs"
        self.folder = root / "opt" / "ec2spawner"
        self.calls = root / "calls"
        self.calls.touch()
        shims.install(self.programs)
        (self.programs / "systemctl").rename(self.programs / "systemctl.of-the-runtime")
        self.program("systemctl", SYSTEMCTL)
        self.units = root / "units"
        self.units.mkdir()

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def boot(self, script: str, pip: str = "") -> tuple[subprocess.Popen[str], list[str]]:
        """What it says on its console."""
        here = script.replace("/opt/ec2spawner", str(self.folder))
        instance = subprocess.Popen(
            ["/bin/bash", "-c", here],
            env={
                "PATH": f"{self.programs}:/usr/bin:/bin",
                "EC2SPAWNER_UNITS": str(self.units),
                "CALLS": str(self.calls),
                "PIP": pip,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = instance.communicate(timeout=300)
        return instance, said.splitlines()

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / "python3.12" / "site-packages"

    @property
    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()

    def pip_that_works(self) -> str:
        agent = self.folder / "bin" / "ec2spawner-agent"
        self.program("agent-of-the-package", AGENT)
        constraints = self.site_packages / "ec2spawner" / "data" / "constraints.txt"
        constraints.parent.mkdir(parents=True)
        constraints.touch()
        return f"cp {self.programs}/agent-of-the-package {agent}"


def pip_calls(machine: Machine) -> list[list[str]]:
    """The arguments of each `pip install`."""
    found: list[list[str]] = []
    for word in machine.called:
        if word == "-m":
            found.append([])
        elif found:
            found[-1].append(word)
    return [call[2:] for call in found if call[:2] == ["pip", "install"]]


def test_a_failed_first_installation_step_stops_the_installation(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    machine.boot(user_data(HUB, "any"), "exit 1")
    assert len(pip_calls(machine)) == 1


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_user_data_starts_the_agent(machine: Machine) -> None:
    machine.program("ec2spawner-agent", AGENT)
    instance, said = machine.boot(user_data(HUB))
    assert instance.returncode == 0, "cloud-init can finish"
    assert said == ["--hub-api-url", HUB]
    assert not machine.called, "an image that has the agent loses no time"


def test_a_later_boot_starts_the_agent_again(machine: Machine) -> None:
    """As after a stop: user-data is not run again, and what is enabled is started."""
    machine.program("ec2spawner-agent", AGENT)
    machine.boot(user_data(HUB))
    _, said = machine.boot("systemctl default")
    assert said == ["--hub-api-url", HUB]


def test_the_agent_gets_time_to_release_the_home(machine: Machine) -> None:
    machine.program("ec2spawner-agent", AGENT)
    machine.boot(user_data(HUB))
    unit = (machine.units / "ec2spawner-agent.service").read_text().splitlines()
    assert {"KillMode=mixed", "TimeoutStopSec=60", "WantedBy=multi-user.target"} <= {*unit}


def test_a_stock_image_gets_the_agent_and_starts_it(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    package = "ec2spawner[notebook]==1.0"
    _, said = machine.boot(user_data(HUB, package), machine.pip_that_works())
    assert package in said[0]
    assert said[1:] == ["--hub-api-url", HUB]
    assert machine.called[0] == f"-m venv {machine.folder}"
    first, tested = pip_calls(machine)
    assert "--no-deps" in first
    assert first[-1] == tested[-1] == package
    assert "--no-deps" not in tested
    constraints = Path(tested[tested.index("--constraint") + 1])
    assert constraints == machine.site_packages / "ec2spawner" / "data" / "constraints.txt"
    for call in (first, tested):
        assert call[call.index("--only-binary") + 1] == ":all:", "nothing is built as root"


def test_only_a_release_is_a_published_package() -> None:
    assert published_package("1.2.0") == "ec2spawner[notebook]==1.2.0"
    assert published_package("1.2.0.dev0") == ""


def test_an_unpublished_version_is_never_requested_from_an_index(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of anyone who registers a free name there would run as root."""
    machine.program("python3", PYTHON)
    monkeypatch.setattr(user_data_module, "PUBLISHED_PACKAGE", published_package("1.2.0.dev0"))
    instance, [line] = machine.boot(user_data(HUB), machine.pip_that_works())
    assert instance.returncode == 1
    assert "nothing says what to install; this instance powers off" in line
    assert machine.called == ["systemctl poweroff"]


def test_a_package_may_be_a_url(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    package = "ec2spawner[notebook] @ https://example.org/it's/a-wheel.whl"
    _, said = machine.boot(user_data(HUB, package), machine.pip_that_works())
    assert said[-1] == HUB
    assert machine.called[-1] == package


def test_a_failed_installation_is_reported_in_one_line_and_powers_off(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    pip = "echo downloading; echo 'ERROR: No matching distribution found' >&2; exit 1"
    instance, said = machine.boot(user_data(HUB, "any"), pip)
    assert instance.returncode == 1
    [_, line] = said
    assert line.startswith("ec2spawner: installing ")
    assert "ERROR: No matching distribution found; this instance powers off" in line
    assert machine.called[-1] == "systemctl poweroff"


def test_a_package_without_the_agent_is_reported_too(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    instance, said = machine.boot(user_data(HUB, "another"), "exit 0")
    assert instance.returncode == 1
    assert "another has no ec2spawner-agent in it; this instance powers off" in said[-1]
    assert machine.called[-1] == "systemctl poweroff"


def test_a_missing_part_of_venv_is_installed_first(machine: Machine) -> None:
    """As on Ubuntu, where `python3 -m venv` fails until python3-venv is there."""
    machine.program("apt-get", '#!/bin/bash\necho "apt-get $*" >>"$CALLS"\ntouch "$CALLS.venv"\n')
    needs_venv = 'if [[ ! -e $CALLS.venv ]]; then echo "ensurepip is not available"; exit 1; fi\n'
    first_line, _, rest = PYTHON.partition("\n")
    machine.program("python3", f"{first_line}\n{needs_venv}{rest}")
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works())
    assert said[-1] == HUB
    assert any("install --yes python3-venv" in call for call in machine.called)


def test_the_user_data_fits_ec2s_limit() -> None:
    script = user_data("http://" + "h" * 500, "p" * 1000)
    assert script.startswith("#!/bin/bash\n")
    assert len(script.encode()) < 16 * 1024

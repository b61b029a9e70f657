"""User-data as the hub writes it, run as an instance of the embedded EC2 runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ec2spawner.agent.__main__ import MISTAKE
from ec2spawner.agent.claim import ANSWERED
from ec2spawner.core.text.boot_log import MARK
from ec2spawner.embedded.runtime import shims
from ec2spawner.hub.spawn import user_data as user_data_module
from ec2spawner.hub.spawn.user_data import published_package, user_data
from tests.needrestart import restarted

RECIPE = Path(__file__).resolve().parents[3] / "configs/ami/provision.sh"
HUB = 'http://hub:8081/it\'s-100%-"$HOME"-`x`\\/hub/api'

OLD_PYTHON = """#!/bin/bash
exit 1
"""

INSTALLER = """#!/bin/bash
# Has one Python: installing others fails.
echo "${0##*/} $*" >>"$CALLS"
[[ $* == *install* ]] || exit 0
[[ " $* " == *" python$ARCHIVE_HAS "* ]] || exit 100
cp "$HERE/python-of-the-archive" "$HERE/python$ARCHIVE_HAS"
"""

LOCKED = """#!/bin/bash
# The first update finds the lists locked, and nothing is installed before one has succeeded.
if [[ $* == *update* ]]; then
    [[ -e $HERE/locked ]] && >"$HERE/updated" && exit
    >"$HERE/locked"
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)" >&2
    exit 100
fi
[[ -e $HERE/updated ]] && exec "$HERE/apt-get.of-the-archive" "$@"
exit 100
"""

SLEEP = f"""#!/bin/bash
# Waits for no half hour: whatever would happen then does not.
if [[ $1 == 1800 ]]; then kill $PPID; exit; fi
exec {shutil.which("sleep")} "$1"
"""

SYSTEM = "bash cat chmod cp echo env ln mkdir sed setsid sh tail test timeout"
"""The programs of the machine that an image has: no Python of the machine's own is found."""

AGENT = """#!/bin/bash
printf '%s\\n' "$@"
"""

PYTHON = """#!/bin/bash
# A Python that suits: `-m venv FOLDER` makes an environment, in which pip does what PIP says.
[[ $1 == -c ]] && exit 0
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
        self.root = root
        self.programs = root / "programs"
        self.opt = root / "opt"
        self.folder = self.opt / "ec2spawner"
        self.calls = root / "calls"
        self.calls.touch()
        shims.install(self.programs)
        (self.programs / "systemctl").rename(self.programs / "systemctl.of-the-runtime")
        self.program("systemctl", SYSTEMCTL)
        for name in SYSTEM.split():
            (self.programs / name).symlink_to(shutil.which(name))
        self.program("sleep", SLEEP)
        self.units = root / "units"
        self.units.mkdir()

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def hang(self, command: str) -> None:
        """A command that ends by its timeout only."""
        (self.programs / "timeout").unlink()
        status = '[[ "$*" == *"${HANGS#* }"* ]] && exit 124; shift 2; exec "$@"'
        self.program("timeout", f"#!/bin/bash\nHANGS='{command}'\n{status}\n")

    def boot(
        self, script: str, pip: str = "", archive_has: str = "nothing"
    ) -> tuple[subprocess.Popen[str], list[str]]:
        """What it says on its console."""
        here = script.replace("/opt/", f"{self.opt}/")
        instance = subprocess.Popen(
            ["/bin/bash", "-c", here],
            env={
                "PATH": str(self.programs),
                "HERE": str(self.programs),
                "ARCHIVE_HAS": archive_has,
                "EC2SPAWNER_ROOT": str(self.root),
                "EC2SPAWNER_UNITS": str(self.units),
                "CALLS": str(self.calls),
                "PIP": pip,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = instance.communicate(timeout=60)
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


def test_the_unit_of_the_agent(machine: Machine) -> None:
    """Time to release the home; its output on the console; files for data loaders; a restart after
    a failure, but not after invalid settings."""
    machine.program("ec2spawner-agent", AGENT)
    machine.boot(user_data(HUB))
    unit = (machine.units / "ec2spawner-agent.service").read_text().splitlines()
    assert {
        "After=containerd.service docker.service soci-snapshotter.service",
        "After=network-online.target dlami-nvme.service",
        "KillMode=mixed",
        "LimitNOFILE=1048576",
        "OOMScoreAdjust=-900",
        "OnFailure=ec2spawner-agent-failed.service",
        "Restart=on-failure",
        f"RestartPreventExitStatus={MISTAKE}",
        "StandardError=journal+console",
        "StandardOutput=journal+console",
        "TimeoutStopSec=60",
        "WantedBy=multi-user.target",
    } <= {*unit}


def test_an_upgrade_of_a_library_restarts_nothing_that_a_server_runs_on(machine: Machine) -> None:
    """On Ubuntu 24.04, needrestart asks nobody, and a user's kernels are in the agent's unit."""
    machine.program("ec2spawner-agent", AGENT)
    machine.boot(user_data(HUB))
    written = machine.root / "etc/needrestart/conf.d/ec2spawner.conf"
    kept = ("ec2spawner-agent", "containerd", "soci-snapshotter", "nvidia-fabricmanager", "docker")
    units = [f"{name}.service" for name in (*kept, "ssh", "cron")]
    assert restarted(written, units) == {"ssh.service", "cron.service"}
    recipe = RECIPE.read_text(encoding="utf-8")
    assert written.read_text() in recipe, "an image leaves the same alone"


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
    [progress, line] = said
    assert not progress.startswith(MARK), "it would be shown in place of a later error"
    assert line.startswith(f"{MARK}installing ")
    assert "ERROR: No matching distribution found; this instance powers off" in line
    assert machine.called[-1] == "systemctl poweroff"


def test_a_package_without_the_agent_is_reported_too(machine: Machine) -> None:
    machine.program("python3", PYTHON)
    instance, said = machine.boot(user_data(HUB, "another"), "exit 0")
    assert instance.returncode == 1
    assert "another has no ec2spawner-agent in it; this instance powers off" in said[-1]
    assert machine.called[-1] == "systemctl poweroff"


@pytest.mark.parametrize(
    ("present", "suits"),
    [
        (("python3.11", "python3.13", "python3"), "python3.13"),
        (("python3",), "python3"),
        (("python3", "/opt/pytorch/bin/python"), "python3"),
        (("/opt/pytorch/bin/python",), "/opt/pytorch/bin/python"),
    ],
)
def test_the_newest_python_that_suits_makes_the_environment(
    machine: Machine, present: tuple[str, ...], suits: str
) -> None:
    (machine.opt / "pytorch" / "bin").mkdir(parents=True)
    for name in present:
        path = name.replace("/opt", str(machine.opt))
        machine.program(path, PYTHON.replace('echo "$*"', f'echo "{name} $*"'))
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works())
    assert said[-1] == HUB
    assert machine.called[0] == f"{suits} -m venv {machine.folder}"


@pytest.mark.parametrize(
    ("installer", "has", "installed"),
    [
        ("apt-get", "3.12", "install --yes python3.12 python3.12-venv"),
        ("apt-get", "3.11", "install --yes python3.11 python3.11-venv"),
        ("dnf", "3.12", "dnf install --assumeyes python3.12"),
    ],
    ids=["Ubuntu 24.04 without venv", "Ubuntu 22.04", "Amazon Linux 2023"],
)
def test_an_image_without_a_python_that_suits_gets_one(
    machine: Machine, installer: str, has: str, installed: str
) -> None:
    machine.program("python3", OLD_PYTHON)
    machine.program("python-of-the-archive", PYTHON)
    machine.program(installer, INSTALLER)
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works(), has)
    assert said[-1] == HUB
    assert any(call.endswith(installed) for call in machine.called)


def test_an_update_waits_for_the_lock_of_the_lists(machine: Machine) -> None:
    machine.program("python3", OLD_PYTHON)
    machine.program("python-of-the-archive", PYTHON)
    machine.program("apt-get.of-the-archive", INSTALLER)
    machine.program("apt-get", LOCKED)
    machine.program("sleep", SLEEP.replace('"$1"', "0"))
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works(), "3.12")
    assert said[-1] == HUB


def test_an_archive_that_is_gone_is_asked_once(machine: Machine) -> None:
    """Half of the time of a boot would be lost: no repetition brings it back."""
    machine.program("python3", OLD_PYTHON)
    machine.program("python-of-the-archive", PYTHON)
    machine.program("apt-get", INSTALLER.replace("exit 0", "exit 100"))
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works(), "3.12")
    assert said[-1] == HUB
    assert sum("update" in call for call in machine.called) == 1


def test_without_new_lists_those_of_the_image_serve(machine: Machine) -> None:
    machine.program("python3", OLD_PYTHON)
    machine.program("python-of-the-archive", PYTHON)
    machine.program("apt-get", INSTALLER)
    machine.hang("apt-get update")
    _, said = machine.boot(user_data(HUB, "any"), machine.pip_that_works(), "3.12")
    assert said[-1] == HUB
    assert "apt-get update was not done after" in (machine.folder / "install.log").read_text()


@pytest.mark.parametrize("installer", ["apt-get", "dnf", None])
def test_an_image_that_gets_no_python_says_so_and_powers_off(
    machine: Machine, installer: str | None
) -> None:
    machine.program("python3", OLD_PYTHON)
    if installer:
        machine.program(installer, INSTALLER)
    instance, said = machine.boot(user_data(HUB, "any"))
    assert instance.returncode == 1
    assert said[-1].startswith("ec2spawner: installing any failed: ")
    assert "no Python 3.11 or newer" in said[-1]
    assert machine.called[-1] == "systemctl poweroff"


@pytest.mark.parametrize("failing", ["apt-get install", "pip"])
def test_each_installation_has_a_timeout(machine: Machine, failing: str) -> None:
    """A mirror that accepts a connection and sends nothing would cost a GPU's price."""
    machine.program("python3", OLD_PYTHON)
    machine.program("apt-get", INSTALLER)
    machine.program("python-of-the-archive", PYTHON)
    machine.hang(failing)
    instance, _ = machine.boot(user_data(HUB, "any"), archive_has="3.12")
    assert instance.returncode == 1
    assert machine.called[-1] == "systemctl poweroff"
    assert "was not done after" in (machine.folder / "install.log").read_text()


def test_an_instance_that_no_hub_answers_powers_off(machine: Machine) -> None:
    """At a later boot too, and whatever becomes of the agent."""
    machine.program("ec2spawner-agent", AGENT)
    script = user_data(HUB).replace("OnBootSec=1800", "OnBootSec=0.1")
    machine.boot(script)
    machine.boot("systemctl default; sleep 0.5")
    assert machine.called == ["systemctl poweroff"] * 2


def test_an_instance_that_a_hub_has_answered_stays(machine: Machine, tmp_path: Path) -> None:
    machine.program("ec2spawner-agent", f'#!/bin/bash\n>"{tmp_path}/{ANSWERED}"\n')
    script = user_data(HUB).replace("OnBootSec=1800", "OnBootSec=0.5")
    _, said = machine.boot(f"export EC2SPAWNER_RUN_DIR={tmp_path}\n{script}")
    assert not machine.called
    assert not said


def test_the_user_data_fits_ec2s_limit() -> None:
    script = user_data("http://" + "h" * 500, "p" * 1000)
    assert script.startswith("#!/bin/bash\n")
    assert len(script.encode()) < 16 * 1024

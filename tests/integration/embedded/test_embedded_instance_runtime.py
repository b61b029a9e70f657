"""What runs on an instance, and that it ends with it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2spawner.core.text.boot_log import last_lines

MARK = "EMBEDDED_EC2_INSTANCE"


def marked(instance_id: str) -> list[str]:
    """Commands of all processes on this machine that carry the instance's mark."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"{MARK}={instance_id}".encode() in (process / "environ").read_bytes():
                    found.append((process / "comm").read_text().strip())
            except OSError:
                continue
    return found


def journal(lab: Any, instance_id: str) -> str:
    file = Path(lab.facts.data_dir) / "instances" / instance_id / "journal.log"
    return file.read_text() if file.exists() else ""


def environment(console: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in console.splitlines() if "=" in line)


def test_user_data_runs_in_a_clean_environment(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-leak")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "do-not-leak")
    instance_id = lab.run("env; pwd; ulimit -c; echo done", InstanceType="g4dn.12xlarge")

    console = lab.console_says(instance_id, "done")

    found = environment(console)
    assert "do-not-leak" not in console
    assert set(found) - {"_", "PWD", "SHLVL", "OLDPWD"} == {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "EC2SPAWNER_BOOTED_US",
        "EC2SPAWNER_CONSOLE",
        "EC2SPAWNER_DEVICES",
        "EC2SPAWNER_JOURNAL",
        "EC2SPAWNER_PCI_DEVICES",
        "EC2SPAWNER_FILE_SYSTEMS",
        "EC2SPAWNER_GPU_DEVICE",
        "EMBEDDED_EC2_INSTANCE",
        "EC2SPAWNER_NOTEBOOK_HOME",
        "EC2SPAWNER_NOTEBOOK_USER",
        "EMBEDDED_EC2_RUNTIME",
        "EC2SPAWNER_ROOT",
        "EC2SPAWNER_RUN_DIR",
        "EC2SPAWNER_STATE_DIR",
        "EC2SPAWNER_SIMULATED_GPU",
        "EC2SPAWNER_UNITS",
        "EC2SPAWNER_SIMULATED_S3",
        "HOME",
        "LANG",
        "PATH",
        "TZ",
    }
    directory = Path(lab.facts.data_dir) / "instances" / instance_id
    assert found["EC2SPAWNER_NOTEBOOK_HOME"] == str(directory / "home" / "jovyan")
    assert Path(found["EC2SPAWNER_NOTEBOOK_HOME"]).is_dir()
    assert found["EC2SPAWNER_SIMULATED_GPU"] == '{"name": "T4", "count": 4, "memory_mib": 16384}'
    assert len(found["EC2SPAWNER_RUN_DIR"]) + len("/agent-socket.sock") < 107


def test_the_pci_bus_shows_gpus_that_the_images_driver_may_not_support(lab: Any) -> None:
    ask = "cat $EC2SPAWNER_PCI_DEVICES/*/vendor | grep -c 10de; echo GPU $EC2SPAWNER_SIMULATED_GPU"
    for kind, gpus, works in (("p3dn.24xlarge", "8", False), ("g5.xlarge", "1", True)):
        # In us-east-1c, which has both.
        instance_id = lab.run(ask, InstanceType=kind, SubnetId=lab.facts.subnets[2])
        console = lab.console_says(instance_id, "GPU").splitlines()
        assert (console[0], len(console[1]) > len("GPU ")) == (gpus, works)


def test_the_interpreters_programs_come_before_the_systems(lab: Any) -> None:
    instance_id = lab.run("command -v python jupyterhub-singleuser poweroff; echo done")

    console = lab.console_says(instance_id, "done").splitlines()

    assert Path(console[0]).parent == Path(console[1]).parent
    assert console[2] == str(Path(lab.facts.data_dir) / "shims" / "poweroff")


def test_an_instance_has_an_address_of_its_own(lab: Any, wait_until: Any) -> None:
    script = (
        "exec python -c 'import os, urllib.parse, http.server as h; "
        'host = urllib.parse.urlparse(os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]).hostname; '
        'print("listening", host, flush=True); '
        "h.ThreadingHTTPServer((host, 8888), h.SimpleHTTPRequestHandler).serve_forever()'"
    )
    ids = [lab.run(script), lab.run(script)]
    for instance_id in ids:
        address = lab.instance(instance_id)["PrivateIpAddress"]
        lab.console_says(instance_id, f"listening {address}")

    def connects(instance_id: str) -> bool:
        try:
            socket.create_connection((lab.instance(instance_id)["PrivateIpAddress"], 8888)).close()
        except OSError:
            return False
        return True

    wait_until(lambda: all(map(connects, ids)))


def test_daemons_that_detached_end_with_their_instance(lab: Any, wait_until: Any) -> None:
    instance_id = lab.run(
        "(setsid bash -c 'trap \"\" TERM; echo stubborn; while :; do sleep 1; done' &) &\n"
        "nohup sleep 1000 > /dev/null 2>&1 &\n"
        "exit 0"
    )
    lab.console_says(instance_id, "stubborn")
    wait_until(lambda: len(marked(instance_id)) >= 3)

    lab.ec2.terminate_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "terminated")

    assert marked(instance_id) == []


def test_an_instance_keeps_running_after_its_user_data(lab: Any, wait_until: Any) -> None:
    instance_id = lab.run("echo over; exit 3")
    lab.console_says(instance_id, "over")
    wait_until(lambda: marked(instance_id) == [])

    assert lab.state(instance_id) == "running"


@pytest.mark.parametrize("command", ["poweroff", "shutdown -h now", "systemctl poweroff", "halt"])
def test_powering_off_honours_the_shutdown_behaviour(lab: Any, command: str) -> None:
    ends = lab.run(f"{command}; sleep 1000", InstanceInitiatedShutdownBehavior="terminate")
    stops = lab.run(f"{command}; sleep 1000", InstanceInitiatedShutdownBehavior="stop")

    assert lab.wait_for(ends, "terminated")["StateReason"]["Code"] == (
        "Client.InstanceInitiatedShutdown"
    )
    lab.wait_for(stops, "stopped")
    assert marked(ends) == marked(stops) == []


def test_the_shutdown_behaviour_of_an_instance_can_be_changed(lab: Any) -> None:
    changed = lab.run(
        "until test -e $EC2SPAWNER_NOTEBOOK_HOME/off; do sleep 0.1; done; systemctl poweroff",
        InstanceInitiatedShutdownBehavior="terminate",
    )
    lab.wait_for(changed, "running")
    lab.ec2.modify_instance_attribute(
        InstanceId=changed, InstanceInitiatedShutdownBehavior={"Value": "stop"}
    )
    directory = Path(lab.facts.data_dir) / "instances" / changed
    (directory / "home" / "jovyan" / "off").touch()
    assert lab.wait_for(changed, "stopped")["StateReason"]["Code"] == (
        "Client.InstanceInitiatedShutdown"
    )


UNIT = """[Service]
ExecStart="/bin/sh" "-c" "echo 100%% of $$HOME in service; exec sleep 1000"
"""


def test_a_later_boot_starts_enabled_services_and_runs_no_user_data(
    lab: Any, wait_until: Any
) -> None:
    """As on EC2: cloud-init runs user-data once, systemd what is enabled each time."""
    instance_id = lab.run(
        f"echo hello; cat >$EC2SPAWNER_UNITS/it.service <<'UNIT'\n{UNIT}UNIT\n"
        "systemctl daemon-reload; systemctl enable --now it.service; echo kept >~/file"
    )

    def starts() -> int:
        return journal(lab, instance_id).count(": 100% of /")

    wait_until(lambda: starts() == 1)
    lab.ec2.reboot_instances(InstanceIds=[instance_id])
    wait_until(lambda: starts() == 2)
    lab.ec2.stop_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "stopped")
    lab.ec2.start_instances(InstanceIds=[instance_id])
    wait_until(lambda: starts() == 3)
    assert lab.console(instance_id).count("hello") == 1
    assert lab.processes(instance_id)
    console = lab.whole_console(instance_id)
    assert "100% of /" not in console, "a unit's output goes to the journal alone"
    assert [console.count(f"reboot: {end}") for end in ("Restarting system", "Power down")] == [
        1,
        1,
    ]


def test_a_unit_reaches_the_console_if_it_says_so(lab: Any, wait_until: Any) -> None:
    unit = f"{UNIT}StandardOutput=journal+console\n"
    instance_id = lab.run(
        f"cat >$EC2SPAWNER_UNITS/it.service <<'UNIT'\n{unit}UNIT\nsystemctl enable --now it.service"
    )
    line = re.compile(r"^\[ +\d+\.\d{6}\] sh\[\d+\]: 100% of /", re.M)
    wait_until(lambda: line.search(lab.whole_console(instance_id)))
    assert "sh[" in journal(lab, instance_id)


def test_a_console_ends_in_what_every_boot_and_shutdown_prints(lab: Any, wait_until: Any) -> None:
    """The boot log finds our lines before them; without one of ours it finds none."""
    ours = lab.run("echo ec2spawner: this failed; systemctl poweroff; exit 1")
    silent = lab.run("systemctl poweroff")
    for instance_id in (ours, silent):
        lab.wait_for(instance_id, "stopped")
        console = lab.whole_console(instance_id)
        assert console.rstrip().endswith("reboot: Power down")
        for noise in ("Linux version", "ci-info: ", "-----BEGIN SSH HOST KEY KEYS", " login: "):
            assert noise in console
    wait_until(lambda: "Powering off" in lab.posted_console(ours))
    assert last_lines(lab.posted_console(ours)) == ("ec2spawner: this failed",)
    assert last_lines(lab.whole_console(silent)) == ()


def test_a_console_is_posted_late_and_its_latest_output_needs_nitro(
    lab: Any, wait_until: Any
) -> None:
    nitro = lab.run("until [[ -e ~/go ]]; do sleep 0.1; done; echo late; sleep 1000")
    xen = lab.run("echo early", InstanceType="t2.micro")
    wait_until(lambda: "Linux version" in lab.posted_console(nitro))
    (Path(lab.facts.data_dir) / "instances" / nitro / "root" / "go").touch()
    lab.console_says(nitro, "late")
    assert "late" not in lab.posted_console(nitro)
    lab.ec2.stop_instances(InstanceIds=[nitro])
    wait_until(lambda: "late" in lab.posted_console(nitro))
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        lab.whole_console(xen)
    wait_until(lambda: "Linux version" in lab.posted_console(xen))


TIMED = """[Service]
StandardOutput=journal+console
ExecStart=/bin/echo it is time
"""


def test_a_timer_starts_its_service_after_each_boot(lab: Any, wait_until: Any) -> None:
    instance_id = lab.run(
        f"cd $EC2SPAWNER_UNITS; cat >it.service <<'UNIT'\n{TIMED}UNIT\n"
        "echo OnBootSec=0.3 >it.timer; systemctl enable --now it.timer"
    )
    wait_until(lambda: lab.whole_console(instance_id).count("it is time") == 1)
    lab.ec2.reboot_instances(InstanceIds=[instance_id])
    wait_until(lambda: lab.whole_console(instance_id).count("it is time") == 2)


def test_an_instance_without_a_script_just_runs(lab: Any) -> None:
    instance_id = lab.run(UserData="plain text")

    lab.wait_for(instance_id, "running")
    assert lab.processes(instance_id) == []


def test_terminating_during_the_boot_starts_nothing(lab: Any) -> None:
    lab.control("boot", {"seconds": 600})
    instance_id = lab.run("echo never")

    lab.ec2.terminate_instances(InstanceIds=[instance_id])

    lab.wait_for(instance_id, "terminated")
    assert lab.console(instance_id) == ""


def test_stopping_the_embedded_ec2_leaves_nothing(make_lab: Any, wait_until: Any) -> None:
    lab = make_lab()
    instance_id = lab.run("setsid sleep 1000 & exec sleep 1000")
    wait_until(lambda: marked(instance_id).count("sleep") == 2)
    address = lab.instance(instance_id)["PrivateIpAddress"]
    endpoint = lab.facts.ec2_endpoint

    lab.stop()

    assert marked(instance_id) == []
    assert not Path(lab.facts.data_dir).exists()
    for host, port in ((address, 1338), ("127.0.0.1", int(endpoint.rpartition(":")[2]))):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), timeout=5)

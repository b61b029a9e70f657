"""The agent's memory, seen by another process of the agent's own user: as in the demo, where
notebook and agent are one user. On EC2 the agent is root besides."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ec2spawner.agent import memory_protection

READ_MEMORY = """
import asyncio, ctypes, json, os, signal, struct, sys, time, traceback
from ec2spawner.agent import __main__ as agent, memory_protection

PR_SET_DUMPABLE = 4
CAPABILITY_VERSION_3 = 0x20080522


def begin(run):
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        libc = ctypes.CDLL(None)
        # Root may read everything: of the two neither has any privilege. Their user stays, who can
        # read the modules that the agent still imports.
        if libc.capset(struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)):
            os._exit(1)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec
        os.write(writer, b"x")
        try:
            run()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 1) == b"x", "a process did not start"
    return pid


def opens(pid, name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        name == "mem" or file.read(1)


def look_at(pid):
    if sys.argv[1] != "open":
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                opens(pid, "environ")
            except OSError:
                break
            time.sleep(0.02)
    for name in ("environ", "mem", "maps", "fd/0"):
        try:
            opens(pid, name)
            print(json.dumps([name, "open"]), flush=True)
        except OSError as error:
            print(json.dumps([name, error.strerror]), flush=True)


def closed():
    memory_protection.close_to_others()
    time.sleep(60)


def agents():
    agent.main(["--hub-api-url", "http://127.0.0.1:9/hub/api"])


run = {"open": lambda: time.sleep(60), "closed": closed, "agent": agents}[sys.argv[1]]
target = begin(run)
os.waitpid(begin(lambda: look_at(target)), 0)
print(json.dumps(["ended", os.waitpid(target, os.WNOHANG)[0] != 0]))
os.kill(target, signal.SIGKILL)
"""


def seen(what: str, folder: Path) -> dict[str, object]:
    """What a process of the same user can open of one that is `what`."""
    folder.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", READ_MEMORY, what],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
            "EC2SPAWNER_NOTEBOOK_USER": "60000:60000",
            "EC2SPAWNER_NOTEBOOK_HOME": str(folder),
            "EC2SPAWNER_RUN_DIR": str(folder),
            "EC2SPAWNER_POWEROFF": "true",
        },
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("what", ["closed", "agent"])
def test_no_process_of_the_same_user_reads_the_agents_memory(what: str, tmp_path: Path) -> None:
    assert seen(what, tmp_path) == {
        "environ": "Permission denied",
        "mem": "Permission denied",
        "maps": "Permission denied",
        "fd/0": "Permission denied",
        "ended": False,
    }


def test_any_other_process_can_be_read(tmp_path: Path) -> None:
    """So that the test above is about the agent, and not about this machine."""
    assert seen("open", tmp_path)["environ"] == "open"


def test_a_memory_that_cannot_be_closed_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory_protection, "PR_SET_DUMPABLE", -1)
    memory_protection.close_to_others()
    assert "is not protected: Invalid argument" in caplog.text


RUN = """
import asyncio, sys
from pathlib import Path
from ec2spawner.agent import command, memory_protection

score = Path("/proc/self/oom_score_adj")
score.write_text("500")
memory_protection.OOM_SCORE = Path(sys.argv[1])
memory_protection.shutil.which = lambda name: sys.argv[2]
print(asyncio.run(command.run("cat", str(score))))
"""


@pytest.mark.parametrize(
    ("own", "choom", "said"),
    [
        ("-900", shutil.which("choom") or "", "(0, '0')"),
        ("-900", "", "(0, '0')"),
        ("-900", shutil.which("false") or "", "(0, '0')"),
        ("-900", "/nowhere/choom", "(0, '0')"),
        ("0", "", "(0, '500')"),
    ],
)
def test_what_the_agent_starts_is_not_protected_from_the_oom_killer(
    tmp_path: Path, own: str, choom: str, said: str
) -> None:
    """The score that it inherits here is one that needs no privilege."""
    (tmp_path / "own").write_text(own)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "own"), choom],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == said


STARTS = {
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("Popen", "subprocess.run", "call", "check_call", "check_output", "getoutput"),
    *("system", "popen", "posix_spawn", "posix_spawnp", "getstatusoutput"),
}


def started_in(file: Path) -> list[str]:
    """What each call that starts a program gets first."""
    calls = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)]
    names = [(ast.unparse(call.func), call) for call in calls]
    return [
        ast.unparse(call.args[0]) if call.args else ""
        for name, call in names
        if {name, name.rpartition(".")[2]} & STARTS
    ]


def test_every_program_of_the_agent_is_started_so() -> None:
    """But the one that powers its instance off, which must work where memory is used up, and the
    trial of choom."""
    agent = Path(memory_protection.__file__).parent
    started = {file.relative_to(agent): started_in(file) for file in agent.rglob("*.py")}
    assert started.pop(Path("power_off.py")) == ["*command"]
    assert started.pop(Path("memory_protection.py")) == ["(*prefix, 'true')"]
    others = [each for names in started.values() for each in names]
    assert len(others) >= 6
    assert {each.partition("(")[0] for each in others} == {"*expendable"}

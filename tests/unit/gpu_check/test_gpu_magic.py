"""`%gpu_check` in a real IPython shell, and the command line, against `fake_cuda`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from ec2spawner.cli import main
from ec2spawner.gpu_check import magic
from tests.fake_cuda import FakeCuda

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    return FakeCuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "ec2spawner")
    yield shell
    InteractiveShell.clear_instance()


def steer(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, **steered: object) -> None:
    for name, text in cuda.environment(**steered).items():
        monkeypatch.setenv(name, text)


def test_the_magic_prints_the_table_and_the_verdict(
    shell: InteractiveShell,
    cuda: FakeCuda,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    steer(monkeypatch, cuda, memory=100)
    shell.run_line_magic("gpu_check", "--short")
    said = capsys.readouterr().out
    assert "GPU 0 (Tesla T4), 15.0 GiB" in said
    assert "100.0 GB/s    320 GB/s   31 %        60 %  slow" in said
    assert "Slower than it should be: GPU 0 (Tesla T4): its memory 100 GB/s" in " ".join(
        said.split()
    )
    assert max(map(len, said.splitlines())) <= 72, "as wide as an output between two sidebars"


def test_no_cuda_state_stays_in_the_kernel(
    shell: InteractiveShell, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    steer(monkeypatch, cuda)
    shell.run_line_magic("gpu_check", "--short")
    assert str(cuda.folder) not in Path("/proc/self/maps").read_text()


def test_a_failure_is_one_line_without_a_traceback(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("gpu_check", "--quick")
    assert capsys.readouterr().out == "%gpu_check takes --short and nothing else\n"
    monkeypatch.setattr(magic, "SECONDS", 0.001)
    shell.run_line_magic("gpu_check", "")
    assert capsys.readouterr().out.startswith("Could not be measured: it took more than")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    shell.run_line_magic("gpu_check", "")
    assert capsys.readouterr().out == "Could not be measured: it said nothing\n"


def test_a_simulated_gpu_is_said_to_be_one(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EC2SPAWNER_SIMULATED_GPU", '{"name": "A10G", "count": 1}')
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    shell.run_line_magic("gpu_check", "--short")
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("The GPU of this server is simulated: there is nothing to measure.")


def test_one_extension_loads_and_unloads_all_magics(shell: InteractiveShell) -> None:
    lines, cells = (shell.magics_manager.magics[kind] for kind in ("line", "cell"))
    assert {"cost", "gpu_check"} <= lines.keys()
    assert "cost" in cells
    shell.run_line_magic("unload_ext", "ec2spawner")
    assert not {"cost", "gpu_check"} & (lines.keys() | cells.keys())


MAIN = "import sys; from ec2spawner.cli import main; sys.exit(main())"


def test_the_command_line_has_gpu_check(cuda: FakeCuda, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "gpu-check", "--short"],
        env=os.environ | cuda.environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("As fast as it should be: Tesla T4.")
    with pytest.raises(SystemExit) as ended:
        main(["gpu-check", "--config=x"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --config=x" in capsys.readouterr().err

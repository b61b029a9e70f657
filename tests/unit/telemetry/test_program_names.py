"""What a program is called: by its script or module, and by no other argument."""

from __future__ import annotations

import shlex

import pytest

from ec2spawner.telemetry.programs import program


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/usr/bin/python3.12 -u work/train.py --token abc", "python3.12 train.py"),
        ("python -W error -Xfrozen_modules=off train.py", "python train.py"),
        ("python -m torch.distributed.run train.py", "python torch.distributed.run"),
        ("python -mhttp.server", "python http.server"),
        ("bash -euo pipefail run.sh", "bash run.sh"),
        ("perl -w -I lib count.pl", "perl count.pl"),
        ("node --trace-warnings server.js", "node server.js"),
        ("/opt/bin/ffmpeg -i private.mp4", "ffmpeg"),
        ("shred secret.txt", "shred"),
        ("python", "python"),
    ],
)
def test_a_program_is_called_by_its_script(line: str, name: str) -> None:
    assert program(shlex.split(line)) == name


@pytest.mark.parametrize(
    "line",
    [
        "python -c SECRET",
        "python -uc SECRET",
        "python -cSECRET",
        "python - SECRET",
        "bash -c SECRET",
        "bash -lc SECRET",
        "bash -s SECRET",
        "sh -ec SECRET",
        "perl -ne SECRET",
        "ruby -e SECRET",
        "Rscript -e SECRET",
        "node -pe SECRET",
        "node --eval SECRET",
        "julia --eval=SECRET",
    ],
)
def test_code_on_a_command_line_is_not_shown(line: str) -> None:
    words = line.split()
    assert program(words) == words[0]


def test_a_process_title_is_cut_to_its_first_word() -> None:
    assert program(["celery worker -A tasks --broker=amqp://ada:SECRET@host"]) == "celery"
    assert program(["/opt/bin/serve --token SECRET"]) == "serve"
    assert program(["tmux: server"]) == "tmux"


def test_a_program_that_has_ended_has_no_name() -> None:
    assert program([]) == program([""]) == program([" "]) == ""

"""What values print as they are saved is dropped; nothing else of the process is."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from ec2spawner.sleep.bounds import children
from ec2spawner.sleep.bounds.muted import muted
from tests.unit.sleep.notebook import Notebook, entries


def test_only_this_thread_is_muted_and_only_within(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with muted("stdout"):
        kept = sys.stdout
        assert sys.stdout.write("value") == 5
        print("value", flush=True)
        other = threading.Thread(target=lambda: print("thread", flush=True))
        other.start()
        other.join()
        assert kept.encoding
        assert stream.getvalue() == "thread\n"
        kept.close()
        assert not kept.closed
    assert sys.stdout is stream
    kept.write("later")  # such as a log handler that a value has made
    assert stream.getvalue() == "thread\nlater"


def test_a_process_without_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with muted("stderr"):
        kept = sys.stderr
        assert kept.write("value") == 5
        kept.flush()
    assert sys.stderr is None
    assert kept.write("value") == 5


def test_a_child_writes_to_no_descriptor_of_its_parent(capfd: pytest.CaptureFixture[str]) -> None:
    def write(stream: int) -> int:
        return os.write(stream, b"noise")

    assert list(children.run([1, 2], write, lambda _: 20.0)) == [(1, 5), (2, 5)]
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_value_may_write_while_it_is_saved(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.say(
            "import sys\n"
            "class Writes:\n"
            "    def __getstate__(self):\n"
            "        sys.stdout.write('noise'); sys.stderr.flush(); return {'a': 1}\n"
            "child = Writes()"
        )
        # As if no child could save it.
        notebook.say(
            "from ec2spawner.sleep.survey import walk as _walk\n"
            "_stop = _walk._note_kind\n"
            "def _here(about, found):\n"
            "    _stop(about, found)\n"
            "    found.in_process = found.name == 'here'\n"
            "_walk._note_kind = _here\n"
            "here = Writes()"
        )
        said = notebook.say(
            "from ec2spawner import sleep\n"
            f"sleep.save({str(tmp_path / 'generation')!r}, seconds=20, max_bytes=1 << 30)"
        )
        assert "noise" not in said
    found = entries(tmp_path / "generation")
    assert (found["child"]["code"], found["here"]["code"]) == ("", "")

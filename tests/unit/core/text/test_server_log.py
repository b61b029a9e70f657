"""Why a notebook server ended is in its log, seldom in the last line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.text.server_log import MAX_WORDS, last_words
from ec2spawner.core.text.untrusted import visible

PORT_IN_USE = """\
[I 2026-11-22 06:00:00.000 ServerApp] jupyterlab | extension was successfully linked.
[C 2026-11-22 06:00:00.100 ServerApp] Running as root is not recommended. Use --allow-root.
[I 2026-11-22 06:00:00.200 ServerApp] Shutting down 8 extensions
[I 2026-11-22 06:00:00.201 ServerApp] Shutting down 0 kernels
"""
TRACEBACK = """\
[E 2026-11-22 06:00:00.100 ServerApp] Failed to load
Traceback (most recent call last):
  File "/opt/x.py", line 1, in <module>
    import nothing
ModuleNotFoundError: No module named 'nothing'
"""


@pytest.mark.parametrize(
    ("log", "begins"),
    [
        (PORT_IN_USE, "[C 2026-11-22 06:00:00.100 ServerApp] Running as root"),
        (TRACEBACK, "ModuleNotFoundError: No module named 'nothing'"),
        (TRACEBACK + PORT_IN_USE, "[C 2026"),
        (PORT_IN_USE + "OSError: [Errno 28] No space left on device\nbye\n", "OSError: [Errno 28]"),
        ("ERROR: no such option\n" + "usage\n" * 9, "ERROR: no such option | usage"),
        ("\x1b[31m[E 06:00 ServerApp] red\x1b[0m\n[I 06:00 ServerApp] done\n", "[E 06:00"),
        ("one\ntwo\n", "one | two"),
        ("", ""),
    ],
)
def test_the_last_line_with_a_reason_comes_first(log: str, begins: str) -> None:
    assert last_words(log).startswith(begins)
    assert (last_words(log) == "") == (log == "")


@given(text=st.text(st.characters() | st.sampled_from("\x1b[E] \n\r\u202e"), max_size=900))
def test_any_server_log_is_bounded_and_printable(text: str) -> None:
    said = last_words(text)
    assert len(said) <= MAX_WORDS
    assert visible(said) == said

"""The shell of Jupyter's terminals: a login shell, on the notebook server's PATH.

Jupyter starts a login shell where the server has no terminal itself, and on many systems
`/etc/profile` sets PATH anew: `python` and `pip` are then the system's, not the notebook's.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import PurePath

POSIX_SHELLS = ("bash", "dash", "ksh", "sh", "zsh")
"""Those that understand the script below; any other is left to Jupyter."""

SCRIPT = (
    "for folder in {folders}; do "
    'case ":$PATH:" in *":$folder:"*) ;; *) PATH="$folder:$PATH" ;; esac; '
    "done; unset folder; export PATH; {greeting}exec {shell} -i"
)


def shell_command(environment: Mapping[str, str], greeting: str = "") -> list[str] | None:
    """The command of a terminal: profile, then what PATH had and lacks now, then the user's shell.

    What the profile adds keeps its place. `greeting` is printed first. None where Jupyter's own
    command serves.
    """
    shell = environment.get("SHELL", "")
    folders = [each for each in environment.get("PATH", "").split(os.pathsep) if each]
    if PurePath(shell).name not in POSIX_SHELLS or not folders:
        return None
    script = SCRIPT.format(
        # The first is put in front last.
        folders=" ".join(shlex.quote(each) for each in reversed(folders)),
        shell=shlex.quote(shell),
        greeting=f"printf '%s\\n' {shlex.quote(greeting)}; " if greeting else "",
    )
    return [shell, "-l", "-c", script]

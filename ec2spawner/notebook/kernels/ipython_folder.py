"""IPython's folder for a full home: no kernel starts where its profile cannot be made.

A kernel needs some folders in `~/.ipython/profile_default`. Where they are missing and cannot be
made, kernels and terminals of this server have an empty IPython folder in Jupyter's runtime
directory, which is outside the home.
"""

from __future__ import annotations

import shutil
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

VARIABLE: Final = "IPYTHONDIR"

FOLDERS: Final = ("log", "pid", "security", "startup")
"""What IPython makes in a profile when it starts."""


def ensure_ipython_folder(environ: MutableMapping[str, str], runtime_dir: str) -> None:
    """Make IPython's folders, or point `environ` to others. Blocks for some files.

    Raises `OSError` in the second case, which says why.
    """
    folder = Path(environ.get(VARIABLE) or Path.home() / ".ipython").expanduser()
    try:
        for each in (folder / "profile_default" / name for name in FOLDERS):
            if not each.is_dir():
                each.mkdir(mode=0o700, parents=True)
                if each.name == "startup":
                    _add_readme(each)
    except OSError:
        environ[VARIABLE] = f"{runtime_dir}/ipython"
        raise


def _add_readme(startup: Path) -> None:
    """IPython adds it where it makes the folder itself, and ends if it cannot. Raises `OSError`."""
    ipython = find_spec("IPython")  # without importing it, which takes a while
    for package in (ipython and ipython.submodule_search_locations) or ():
        readme = Path(package, "core", "profile", "README_STARTUP")
        if readme.is_file():
            shutil.copyfile(readme, startup / "README")

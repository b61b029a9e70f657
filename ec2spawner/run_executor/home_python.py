"""The Python of a run: that of the image with the user's own packages, as on the user's server."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from ..notebook.kernels.home_environment import HomeEnvironment, activate
from ..notebook.kernels.image_kernels import extend_image_kernels

log = logging.getLogger(__name__)


def use_home_packages(home: Path) -> tuple[KernelSpecManager, str]:
    """The kernels that there are, and the path of Python for scripts.

    Changes PATH. A home in which that is not possible, such as a full one, keeps no run from
    starting. Blocks for a second or so.
    """
    kernels = KernelSpecManager()
    environment = HomeEnvironment.of(home)
    try:
        environment.prepare()
        activate(environment, kernels)
        problems = extend_image_kernels(environment)
    except Exception as error:  # whatever a home may hold
        log.error("the packages in %s are not used: %s", environment.folder, error)
        return kernels, sys.executable
    for problem in problems:
        log.error("%s", problem)
    return kernels, str(environment.programs / "python")

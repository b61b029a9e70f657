"""`%cluster` in IPython: the cluster of this server as a table; start, scale and stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ClusterError

if TYPE_CHECKING:
    from .cluster import Cluster

USAGE = "%cluster, %cluster N [PROFILE], %cluster scale N or %cluster stop"


class ClusterMagics:
    """The magic of one shell."""

    def cluster(self, line: str) -> Cluster | None:
        """Show this server's cluster, or change it.

        `%cluster` shows it. `%cluster 4 a10g` starts four workers of the profile a10g. `%cluster
        scale 8` and `%cluster stop` change it.
        """
        from .cluster import cluster, stop  # takes 0.2 s the first time

        words = line.split()
        try:
            match words:
                case []:
                    return cluster()
                case ["stop"]:
                    stop()
                    return None
                case ["scale", number]:
                    workers = _number(number)
                    found = cluster()
                    found.scale(workers)
                    return found
                case [number, *profile] if len(profile) <= 1:
                    return cluster(_number(number), *profile)
            raise ClusterError(f"Use {USAGE}.")
        except ClusterError as error:
            print(error)  # noqa: T201 - a traceback says no more
            return None


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ClusterError(f"{text!r} is not a number of workers. Use {USAGE}.")
    return int(text)


def load(shell: Any) -> None:
    """Register the magic, in place of one registered before."""
    unload(shell)
    shell.register_magic_function(ClusterMagics().cluster, "line", "cluster")


def unload(shell: Any) -> None:
    """Remove the magic; does nothing if it is not loaded."""
    magic = shell.magics_manager.magics["line"].get("cluster")
    if isinstance(getattr(magic, "__self__", None), ClusterMagics):
        del shell.magics_manager.magics["line"]["cluster"]

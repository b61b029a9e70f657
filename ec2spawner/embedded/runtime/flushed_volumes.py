"""What of each volume has reached its disk.

On EC2 a device that is detached under its file system takes with it what only the page cache of the
instance has. Volumes are directories here, which lose nothing, so the state that the disk would
have is copied: when a volume is attached, at each `sync` on its instance, and at its unmount.
"""

from __future__ import annotations

import threading
from pathlib import Path

from .files import copy_tree, remove_trees


class FlushedVolumes:
    """Copies of volumes as they were flushed last. Everything here blocks."""

    def __init__(self, volumes: Path, copies: Path) -> None:
        self._volumes = volumes
        self._copies = copies
        self._lock = threading.Lock()

    def flush(self, volume_id: str) -> None:
        """Everything on the volume is on its disk now."""
        draft = self._copies / f"{volume_id}.new"
        with self._lock:
            self._copies.mkdir(mode=0o711, exist_ok=True)
            remove_trees(draft)
            copy_tree(self._volumes / volume_id, draft)
            remove_trees(self._copies / volume_id)
            draft.rename(self._copies / volume_id)

    def lose_the_rest(self, volume_id: str) -> None:
        """Restore the volume as it was flushed last."""
        with self._lock:
            remove_trees(self._volumes / volume_id)
            (self._copies / volume_id).rename(self._volumes / volume_id)

    def forget_all(self) -> None:
        """No volume is in an instance."""
        remove_trees(self._copies)

    def forget(self, volume_id: str) -> None:
        """The volume is in no instance: all of it is on its disk."""
        with self._lock:
            remove_trees(self._copies / volume_id)

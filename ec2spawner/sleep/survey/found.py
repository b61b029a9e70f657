"""What the survey knows of one variable."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Found:
    """What is known of one name."""

    name: str
    size_bytes: int = 0
    """What its objects take in memory, without those that another name had first."""
    runs_code: bool = False
    """Saving it runs code of the notebook's own, or of a library that is not known."""
    plain: bool = True
    """Loading it does not."""
    in_process: bool = False
    """It holds what a forked child cannot use: memory of a GPU, or of Polars, whose threads the
    child does not have."""
    gpu: bool = False
    complete: bool = True
    holds_namespace: bool = False
    is_definition: bool = False
    """A function or class of the notebook, to which others refer by its name."""
    differs: set[str] = field(default_factory=set)
    """In what the restored value will differ: see `Entry.differs`."""
    libraries: set[str] = field(default_factory=set)
    versions: dict[str, str] = field(default_factory=dict)
    """Of those libraries that have one."""

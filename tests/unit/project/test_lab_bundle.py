"""What a browser loads of the lab extension is small."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

BUNDLE = Path(__file__).parents[3] / "ec2spawner" / "labextension" / "static"
MAX_BYTES = 100_000


@pytest.mark.skipif(not BUNDLE.exists(), reason="needs the built lab extension")
def test_all_of_it_is_under_100_kb_compressed() -> None:
    sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in BUNDLE.glob("*.js")}
    assert 0 < sum(sizes.values()) < MAX_BYTES, sizes

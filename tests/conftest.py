"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from postgresql_server import PostgreSQL

# A shared machine may stop for a moment anywhere; pytest's own timeout ends what hangs.
settings.register_profile("ec2spawner", deadline=None, print_blob=True)
settings.load_profile("ec2spawner")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A server of this process's own; where none is installed, the test is skipped."""
    server = PostgreSQL()
    try:
        yield server.start()
    finally:
        server.remove()

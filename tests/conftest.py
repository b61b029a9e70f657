"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A shared machine may stop for a moment anywhere; pytest's own timeout ends what hangs.
settings.register_profile("ec2spawner", deadline=None, print_blob=True)
settings.load_profile("ec2spawner")

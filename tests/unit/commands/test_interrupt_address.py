"""Which address `ec2spawner interrupt` calls."""

from __future__ import annotations

from ec2spawner.interrupt.command import url_of


def test_the_addresses_of_a_hub() -> None:
    for hub in ("https://h", "https://h/", "https://h/hub", "https://h/hub/api"):
        assert url_of(hub, "ann") == "https://h/hub/api/ec2/users/ann/server/interrupt"
    assert url_of("https://h/at/x", "a/b c") == (
        "https://h/at/x/hub/api/ec2/users/a/servers/b%20c/interrupt"
    )

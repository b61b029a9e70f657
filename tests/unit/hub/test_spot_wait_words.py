"""What a start that waits for spot says: `ec2spawner.hub.pages.progress.spot_wait_status`."""

from __future__ import annotations

import pytest

from ec2spawner.core.offers.launch_errors import ErrorClass
from ec2spawner.hub.pages.progress.spot_wait_status import no_spot_words


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ({ErrorClass.OFFER}, "No spot capacity"),
        ({ErrorClass.OFFER, ErrorClass.QUOTA}, "No spot capacity"),
        (set(), "No spot capacity"),
        ({ErrorClass.QUOTA}, "spot quota"),
        ({ErrorClass.SUBNET}, "No network address"),
    ],
)
def test_a_wait_names_what_it_waits_for(classes: set[ErrorClass], words: str) -> None:
    said = no_spot_words("T4 at $0.19/h", classes)
    assert words in said
    assert "T4 at $0.19/h" in said

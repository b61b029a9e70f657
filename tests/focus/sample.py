"""`python -m tests.focus.sample`: FOCUS rows of a small ledger, with hostile names."""

from __future__ import annotations

import sys
from dataclasses import replace

from ec2spawner.core.ledger.cost_rows import Resource, durations_of
from ec2spawner.report.focus import DIMENSIONS, focus_csv
from tests.unit.report.ledger import ADA, BERLIN, BOB, ROWS, USD, sums

ROWS_OF_ALL_RESOURCES = (
    *ROWS,
    *(replace(ADA, resource=each, server="named", market="", zone="") for each in Resource),
    replace(BOB, server="reserved", nano_usd=USD),
    replace(ADA, user="=1+1", profile="\u202eevil", payer='project:"quoted", with comma'),
)

if __name__ == "__main__":
    text, _ = focus_csv(
        sums(ROWS_OF_ALL_RESOURCES, DIMENSIONS),
        durations_of(ROWS_OF_ALL_RESOURCES, DIMENSIONS),
        hub="demo",
        region="us-east-1",
        place=BERLIN,
    )
    sys.stdout.write(text)

"""`python -m tests.spot_advisor [FILE]`: newer figures of AWS's Spot Instance Advisor.

Reads what AWS's page reads, or a file of it with the date in `--date`, and rewrites all that has
these figures: the package's table, its date, and the pages that show both. `make advisor` also
replays the traces that are made from them.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
URL: Final = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
"""Data of the page https://aws.amazon.com/ec2/spot/instance-advisor/, seen in November 2026."""

BANDS: Final = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")
"""Labels of the bands 0 to 4, as the package knows them."""

MAX_BYTES: Final = 16 << 20
"""The data had 1.5 MiB in 2025."""

TIMEOUT: Final = 60.0

Row = tuple[str, str, int, int]
"""Region, instance type, saving in percent, band."""


def read(answer: bytes, types: frozenset[str]) -> list[Row]:
    """The rows of Linux for the package's types. Raises ValueError for data of another form."""
    found: Mapping[str, Any] = json.loads(answer)
    labels = [each["label"] for each in sorted(found["ranges"], key=lambda each: each["index"])]
    if tuple(labels) != BANDS:
        raise ValueError(f"the bands are {labels}: see ec2spawner/core/offers/interruption_rate.py")
    rows = [
        (region, name, int(seen["s"]), int(seen["r"]))
        for region, by_system in sorted(found["spot_advisor"].items())
        for name, seen in sorted(by_system.get("Linux", {}).items())
        if name in types
    ]
    for row in rows:
        # Where spot costs more than on-demand, it saves less than nothing.
        if not (row[2] <= 100 and 0 <= row[3] < len(BANDS)):
            raise ValueError(f"no saving or no band: {row}")
    if len({region for region, *_ in rows}) < 10:
        raise ValueError(f"only {len(rows)} rows: the data has another form")
    return rows


def table(rows: Sequence[Row]) -> str:
    """`spot_advisor.csv`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("region", "instance_type", "saving_percent", "interruption_band"))
    writer.writerows(rows)
    return text.getvalue()


def regions_row(region: str, rows: Sequence[Row], gpu_types: frozenset[str]) -> str:
    """A row of docs/how-to/region-and-gpu.md."""
    known = [row for row in rows if row[0] == region and row[1] in gpu_types]
    saved = round(median(saving for _, _, saving, _ in known))
    often, rarely = (sum(row[3] == band for row in known) for band in (4, 0))
    return f"| {region} | {len(known)} | {saved} % | {often} | {rarely} |"


def refresh(root: Path, answer: bytes, of: date) -> list[Row]:
    """Rewrite everything below `root` that has the figures or their date."""
    data, docs = root / "ec2spawner/data", root / "docs"
    with (data / "instance_types.csv").open(newline="", encoding="utf-8") as file:
        gpus = {row["instance_type"]: row["gpu"] for row in csv.DictReader(file)}
    rows = read(answer, frozenset(gpus))
    gpu_types = frozenset(name for name, gpu in gpus.items() if gpu)
    (data / "spot_advisor.csv").write_text(table(rows), encoding="utf-8")
    _replace(
        data / "__init__.py",
        r"(INTERRUPTIONS_DATE: Final = )date\([^)]*\)",
        rf"\g<1>date({of.year}, {of.month}, {of.day})",
    )
    _replace(data / "README.md", r"(Advisor, Linux, )[\d-]+", rf"\g<1>{of}")
    page = docs / "how-to/region-and-gpu.md"
    _replace(page, r"(Spot Instance Advisor of\s)[\d-]+", rf"\g<1>{of}")
    for region in re.findall(r"^\| ([a-z]{2}-[a-z]+-\d) \|", page.read_text("utf-8"), flags=re.M):
        _replace(page, rf"(?m)^\| {region} \|.*$", regions_row(region, rows, gpu_types))
    _replace(
        docs / "explanation/spot-policies.md",
        r"(Advisor of )\d+ \w+ \d{4}",
        rf"\g<1>{of.day} {of:%B %Y}",
    )
    return rows


def _replace(file: Path, pattern: str, by: str) -> None:
    text, times = re.subn(pattern, by, file.read_text(encoding="utf-8"))
    if times != 1:
        raise ValueError(f"{file} has no single {pattern}")
    file.write_text(text, encoding="utf-8")


def fetch() -> tuple[bytes, date]:
    """Return what AWS has now, and its date."""
    with urllib.request.urlopen(URL, timeout=TIMEOUT) as answer:
        body = answer.read(MAX_BYTES + 1)
        modified = answer.headers.get("Last-Modified")
    if len(body) > MAX_BYTES:
        raise ValueError(f"{URL} has more than {MAX_BYTES} bytes")
    at = parsedate_to_datetime(modified) if modified else datetime.now(UTC)
    return body, at.astimezone(UTC).date()


def main(arguments: Sequence[str]) -> int:
    """Refresh this tree."""
    parser = argparse.ArgumentParser(prog="python -m tests.spot_advisor", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="the data, in place of AWS's")
    parser.add_argument("--date", type=date.fromisoformat, help="of the file")
    asked = parser.parse_args(arguments)
    if (asked.file is None) != (asked.date is None):
        parser.error("a file and its --date go together")
    answer, of = fetch() if asked.file is None else (asked.file.read_bytes(), asked.date)
    try:
        rows = refresh(ROOT, answer, of)
    except (ValueError, KeyError, TypeError) as error:
        print(f"The Spot Instance Advisor cannot be read: {error}", file=sys.stderr)
        return 1
    print(f"{len(rows)} rows of {of}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Which quota of the account's own list an instance counts against."""

from __future__ import annotations

import pytest

from ec2spawner.core.offers.quotas import QUOTAS, ListedQuota, listed_quota, quota_of
from ec2spawner.wire import Market

OLD = [ListedQuota(quota.code, quota.name, 8.0) for quota in QUOTAS.values()]
"""With a quota of its own for spot P5."""

MERGED = ListedQuota("L-7212CCBC", "All P Spot Instance Requests", 192.0)
NEW = [*(quota for quota in OLD if quota.code not in ("L-7212CCBC", "L-C4BD4855")), MERGED]


@pytest.mark.parametrize("market", Market)
@pytest.mark.parametrize(
    "name",
    [
        "m5.large",
        "t3.micro",
        "im4gn.large",
        "g6e.xlarge",
        "gr6.4xlarge",
        "vt1.3xlarge",
        "p3.2xlarge",
        "p4d.24xlarge",
        "inf2.xlarge",
        "trn1.2xlarge",
        "dl1.24xlarge",
        "x2idn.16xlarge",
        "f1.2xlarge",
    ],
)
def test_the_names_of_the_list_say_what_the_table_says(market: Market, name: str) -> None:
    found, known = listed_quota(market, name, OLD), quota_of(market, name)
    assert found is not None
    assert known is not None
    assert found.code == known.code


def test_spot_p5_counts_against_the_quota_that_the_account_lists() -> None:
    of_its_own = listed_quota(Market.SPOT, "p5.48xlarge", OLD)
    assert of_its_own is not None
    assert of_its_own.code == "L-C4BD4855"
    assert listed_quota(Market.SPOT, "p5en.48xlarge", NEW) == MERGED
    assert listed_quota(Market.SPOT, "p5.48xlarge", [*OLD, MERGED]) == MERGED
    assert listed_quota(Market.SPOT, "p4d.24xlarge", NEW) == MERGED


def test_a_type_that_no_name_covers_has_no_quota() -> None:
    assert listed_quota(Market.SPOT, "u7i-12tb.224xlarge", OLD) is None
    assert listed_quota(Market.ON_DEMAND, "g5.xlarge", []) is None
    assert listed_quota(Market.SPOT, "p6-b200.48xlarge", OLD) is None

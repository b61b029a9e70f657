"""Where the hub of the kill bench may die: what a recorded life had, and which are taken."""

from __future__ import annotations

from tests.bench.kill.points import Point, by_leg, parse_trace, sample

TRACE = """\
start\tbefore save lease(waiting) #1
start\tafter save lease(waiting) #1
start\tbefore CreateFleet #1
start\tbefore DescribeSpotPriceHistory #1
start\tafter CreateFleet #1
wait\tbefore DescribeInstances #1
wait\tafter DescribeInstances #1
wait\tbefore DescribeInstances #2
wait\tafter DescribeInstances #2
wait\tbefore TerminateInstances #1
wait\tbefore DescribeInstances #3
"""


def test_points_are_the_recorded_moments_by_leg() -> None:
    legs = by_leg(parse_trace(TRACE))
    assert [str(point) for point in legs["start"]] == [
        "start: before save lease(waiting) #1",
        "start: after save lease(waiting) #1",
        "start: before CreateFleet #1",
        "start: after CreateFleet #1",
    ]


def test_listings_in_a_row_are_one_until_something_happens() -> None:
    assert [point.moment for point in by_leg(parse_trace(TRACE))["wait"]] == [
        "before DescribeInstances #1",
        "after DescribeInstances #1",
        "before TerminateInstances #1",
        "before DescribeInstances #3",
    ]


def test_a_sample_has_the_riskiest_points_and_an_even_choice_of_the_others() -> None:
    legs = {
        "start": [Point("start", f"before save lease(waiting) #{n}") for n in range(10)]
        + [Point("start", "before CreateFleet #1"), Point("start", "after CreateFleet #1")],
        "again": [Point("again", "before CreateFleet #1"), Point("again", "after CreateFleet #1")],
    }
    assert sample(legs, 0) == {
        "start": [Point("start", "before CreateFleet #1")],
        "again": [Point("again", "after CreateFleet #1")],
    }
    assert [point.moment for point in sample(legs, 4)["start"]] == [
        "before save lease(waiting) #3",
        "before save lease(waiting) #9",
        "before CreateFleet #1",
    ]
    assert sample(legs, 100) == legs

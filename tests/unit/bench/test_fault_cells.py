"""Which faults the bench `faults` strikes, what it takes for clear, and what the docs promise."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from ec2spawner.core.offers.launch_errors import ErrorClass, error_class
from tests.aws_actions import Action, called_actions
from tests.bench.faults import detours
from tests.bench.faults.bench import SHORT, Found, figures_of
from tests.bench.faults.cells import (
    CODES,
    DETOURS,
    ENTRIES,
    KINDS,
    UNPLAYED,
    Cell,
    Mode,
    Row,
    Scene,
    cells_of,
    fault_kind,
    rows_of,
    unclear,
    why_not,
)
from tests.bench.faults.timeout import HURRIED, HubTimeouts, bounds_table, hurry

FLEET = Action("ec2", "CreateFleet")
TAGS = Action("ec2", "CreateTags")
PAGE = Path(__file__).resolve().parents[3] / "docs/reference/aws-faults.md"


def test_every_class_of_error_is_injected_and_an_unknown_one() -> None:
    reported_by_instances = {ErrorClass.UNUSABLE}
    of_the_account = {ErrorClass.PLAN, ErrorClass.VERIFICATION}  # modes of the embedded EC2
    injected = {error_class(code) for code in CODES.values()}
    assert injected == set(ErrorClass) - reported_by_instances - of_the_account
    assert error_class(CODES["unheard of"]) is ErrorClass.REFUSED


def test_each_action_has_a_cell_for_every_kind_or_a_reason_for_its_absence() -> None:
    for action in called_actions():
        row = Row(Scene.START, action)
        struck = {cell.kind for cell in cells_of(row)}
        assert struck
        assert struck | {kind for kind in KINDS if why_not(row, kind)} == set(KINDS)
    assert not [kind for kind in KINDS if why_not(Row(Scene.START, FLEET), kind)]


def test_each_kind_is_injected_once_and_until_it_is_cleared() -> None:
    cells = list(cells_of(Row(Scene.STOP, TAGS)))
    assert {(cell.kind, cell.mode) for cell in cells} == {
        (cell.kind, mode) for cell in cells for mode in Mode
    }


def test_services_get_their_own_error_codes() -> None:
    assert fault_kind(FLEET, "forbidden") == "UnauthorizedOperation"
    assert fault_kind(FLEET, ENTRIES[0]) == "entry:InsufficientInstanceCapacity"
    assert fault_kind(Action("ssm", "GetParameter"), "forbidden") == "AccessDeniedException"
    assert fault_kind(Action("pricing", "GetProducts"), "throttled") == "ThrottlingException"


def test_a_command_has_only_the_actions_that_the_hub_does_not_call() -> None:
    mine = Action("ec2", "DescribeKeyPairs")
    rows = rows_of(
        {
            Scene.START: frozenset({FLEET, TAGS}),
            Scene.STOP: frozenset({TAGS}),
            Scene.CHECK: frozenset({FLEET, mine}),
        }
    )
    assert rows == (
        Row(Scene.START, FLEET),
        Row(Scene.START, TAGS),
        Row(Scene.STOP, TAGS),
        Row(Scene.CHECK, mine),
    )


def test_a_detour_has_the_actions_that_are_new_or_called_for_another_reason() -> None:
    modify, create = Action("ec2", "ModifyVolume"), Action("ec2", "CreateVolume")
    rows = rows_of(
        {
            Scene.START: frozenset({FLEET, create}),
            Scene.GROW: frozenset({FLEET, create, modify}),
            Scene.MOVE: frozenset({FLEET, create, modify}),
            Scene.CHECK: frozenset({modify}),
        }
    )
    assert rows == (
        Row(Scene.START, FLEET),
        Row(Scene.START, create),
        Row(Scene.GROW, modify),
        Row(Scene.MOVE, create),
    )
    assert detours.DETOURS.keys() == DETOURS


def test_the_cells_of_a_short_run_can_happen() -> None:
    actions = {action.name: action for action in called_actions()}
    for scene, name, kind in SHORT:
        assert Cell(Row(scene, actions[name]), kind, Mode.ALWAYS) in cells_of(
            Row(scene, actions[name])
        )


def test_skipped_actions_are_called_and_have_a_reason() -> None:
    assert set(UNPLAYED) <= {action.name for action in called_actions()}
    assert all(len(why.split()) > 3 for why in UNPLAYED.values())


def test_an_action_that_is_never_called_is_reported() -> None:
    figures = figures_of(Found((Row(Scene.START, FLEET),), {}, frozenset({TAGS})))
    assert figures["unrecorded"] == 1


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        ("EC2 is busy: please try again in a few minutes (Unavailable)", ""),
        ("The hub cannot find the image that servers boot; an admin must fix it", ""),
        ("", "says nothing"),
        ("RequestLimitExceeded", "has too few words"),
        ("Your home could not be attached: something is wrong with it", "names no fix"),
        ("Spawn failed: CloudError('x'), please try again in a minute", "shows 'Error('"),
        ("The machine None could not be started, please try again", "shows 'None'"),
    ],
)
def test_a_message_is_clear_when_it_says_what_failed_and_what_helps(
    message: str, lacks: str
) -> None:
    assert unclear(message) == lacks


def test_the_page_has_the_bounds_as_they_are() -> None:
    assert bounds_table(HubTimeouts.of_the_hub()) in PAGE.read_text(encoding="utf-8")


def test_the_benchs_hub_has_shorter_timeouts_everywhere() -> None:
    usual = astuple(HubTimeouts.of_the_hub())
    assert all(short <= long for short, long in zip(astuple(HURRIED), usual, strict=True))


def test_shortened_timeouts_are_restored() -> None:
    usual = HubTimeouts.of_the_hub()
    undo = hurry()
    try:
        assert HubTimeouts.of_the_hub().attach == HURRIED.attach
    finally:
        undo()
    assert HubTimeouts.of_the_hub() == usual

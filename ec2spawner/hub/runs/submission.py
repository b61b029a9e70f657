"""Turns what a user wants to have run into runs."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from ...config import Options
from ...core.ledger.cost_rows import user_payer
from ...core.runs.documents import DocumentError, is_notebook, plain_size
from ...provisioner.model.leases.lease import Lease
from ...provisioner.model.leases.run import Run, as_json
from ...provisioner.provisioner import Provisioner
from ...provisioner.runs.runs import Owner
from ...wire import RunSubmission
from ..app.service import HubService
from ..spawn.allowed_profiles import choose, payer_from
from ..spawn.server_options import options_for_page

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


class CannotRun(Exception):
    """Why a submission is refused, in words for its user."""


async def submit(
    running: HubService,
    provisioner: Provisioner,
    spawner: Spawner,
    owner: Owner,
    submission: RunSubmission,
    server: Lease | None = None,
) -> list[Run]:
    """Queue what the owner sends: from this server, at the cost of its payer, or by a program. A
    repeated submission is answered with the runs that the first one has made, whatever would refuse
    it by now.

    Raises `CannotRun`, `OptionsRefused` and `TooManyRuns` with the reason in words, and
    `ProfileListError`, `StoreError` and `TooManyAtOnce`.
    """
    if known := provisioner.runs.submitted(owner, submission.request_id):
        return known
    new = await _new_runs(running, provisioner, spawner, owner, submission, server)
    return await provisioner.runs.submit(owner, new, submission.document)


async def _new_runs(
    running: HubService,
    provisioner: Provisioner,
    spawner: Spawner,
    owner: Owner,
    submission: RunSubmission,
    server: Lease | None,
) -> list[Run]:
    """One for each set of parameters, without numbers yet."""
    options = await options_for_page(running.options, spawner)
    now, user = provisioner.now(), owner.user
    _check(options, submission, now)
    async with running.limits.unpacking.turn(user):
        await asyncio.to_thread(_check_document, submission)
    payer = submission.payer
    if server is not None:
        payer = payer_from(server, options, spawner)
        shown = provisioner.accounts.scope(payer)
        if submission.payer not in {"", payer, shown}:
            raise CannotRun(
                f"payer: what this server sends is charged to its own payer, {shown}. To charge "
                "another one, send it from outside of servers, with a token of yours"
            )
    choice = await choose(options, owner.user, spawner, chosen(submission.profile, payer))
    return [
        Run(
            number=0,
            user=user,
            server=spawner.name,
            path=submission.path,
            profile=choice.profile.slug,
            profile_name=choice.profile.display_name,
            payer="" if choice.payer == user_payer(user) else choice.payer,
            submitted_at=now,
            parameters=as_json(parameters),
            array_at_once=submission.at_once,
            retries=submission.retries,
            max_usd=submission.max_usd,
            deadline=submission.deadline,
            max_spot_usd_per_hour=submission.max_spot_usd_per_hour,
            wait_until=submission.wait_until,
            notify=submission.notify,
            request_id=submission.request_id,
        )
        for parameters in submission.parameters
    ]


def chosen(profile: str, payer: str) -> dict[str, object]:
    """A user's options of a start, as the spawn page sends them."""
    options: dict[str, object] = {"profile": profile}
    return options | {"payer": payer} if payer else options


def _check(options: Options, submission: RunSubmission, now: datetime) -> None:
    if not options.runs.at_once:
        raise CannotRun(f"this hub allows no runs; ask {options.contact} to set c.EC2Spawner.runs")
    if options.image.container:
        raise CannotRun("this hub runs servers in containers, and there are no runs in those yet")
    if submission.deadline is not None and submission.deadline <= now:
        raise CannotRun("deadline: is over already")
    if submission.wait_until is not None and submission.max_spot_usd_per_hour is None:
        raise CannotRun("wait_until: needs max_spot_usd_per_hour, the price that it waits for")


def _check_document(submission: RunSubmission) -> None:
    """Raises `CannotRun` unless it can be unpacked, and is a notebook where it is called so."""
    try:
        if not submission.path.endswith(".ipynb"):
            plain_size(submission.document)
        elif not is_notebook(submission.document):
            raise CannotRun("document: is no notebook of nbformat 4")
    except DocumentError as error:
        raise CannotRun(f"document: {error}") from error

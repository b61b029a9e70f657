"""Delete what runs left in the account that were killed, before a new one begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..aws.ec2 import EC2Cloud
from ..check.facts.account import Account
from ..provisioner.model.cloud.cloud import CloudError
from . import cleanup
from .cleanup import Owner, Waits
from .preparation import NotStarted
from .run_folder import FolderUnusable, Run, RunFolder
from .steps import Steps


async def delete_remains(folders: Sequence[RunFolder], steps: Steps, waits: Waits) -> None:
    """Delete what the runs of these folders created, and then the folders.

    A folder stays until its run is proven to have left nothing: nobody else remembers it. Raises
    `NotStarted` where something is left or cannot be known.
    """
    waiting = list(folders)
    try:
        while waiting:
            await _delete_remains_of(waiting[0], steps, waits)
            waiting.pop(0).close(delete=True)
    finally:
        for folder in waiting:
            folder.close(delete=False)


async def _delete_remains_of(folder: RunFolder, steps: Steps, waits: Waits) -> None:
    try:
        run = folder.read()
    except FolderUnusable as error:
        raise NotStarted(str(error)) from error
    if run is None:
        return
    cloud = EC2Cloud(run.region, run.endpoint_url or None)
    try:
        await _same_account(cloud, run, folder.path)
        with steps.step("Delete what an interrupted run left"):
            # It may have been killed just now, with a call under way.
            left = await cleanup.delete_everything(
                cloud, Owner(run.hub_name, run.store_id), steps.announce, waits.unsettled, waits
            )
    finally:
        await cloud.close()
    if left:
        raise NotStarted(f"an interrupted run left what could not be deleted: {left}")


async def _same_account(cloud: EC2Cloud, run: Run, folder: Path) -> None:
    """Raises `NotStarted` for credentials of another account, which list nothing of the run, and
    where AWS does not say whose these are."""
    try:
        caller = await Account(cloud.client).caller()
    except CloudError as error:
        raise NotStarted(
            f"an interrupted run may have left resources in {run.region}, and these cannot be "
            f"listed: {error}. Fix: run first-light again once AWS answers these credentials, or, "
            f"if you know that nothing of it is left there, delete {folder}"
        ) from error
    if caller.account_id != run.account_id:
        raise NotStarted(
            f"an interrupted run created resources in the account {run.account_id}, and these "
            f"credentials are of the account {caller.account_id}. Fix: run first-light once with "
            f"credentials of {run.account_id}, or, if you know that nothing of it is left there, "
            f"delete {folder}"
        )

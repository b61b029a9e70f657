"""The last step that saves something: the user's folder, uploaded to S3 after a spot notice.

By the AWS CLI, which Deep Learning AMIs have, as the notebook's user and with the role of the
instance: the user's own credentials are not used. What is in S3 already is not uploaded again.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from ...wire import StepResult
from ..command import NOT_FOUND, TIMED_OUT, run
from ..settings import NotebookUser

FOLDER: Final = Path(".ec2spawner/upload")
"""In the home: a folder, or a link to one. Without it nothing is uploaded."""

UPLOAD_SECONDS: Final = 60.0
"""The most that it may take: the server continues elsewhere only when it is done."""

NO_FILE: Final = "/dev/null"


async def upload(user: NotebookUser, url: str, seconds: float) -> StepResult | None:
    """Upload the user's folder to `url` (`s3://bucket/prefix/`) within `seconds`; None where there
    is none."""
    began = time.monotonic()
    folder = await asyncio.to_thread(_folder, user.home)
    if folder is None:
        return None
    status, output = await run(
        # The agent's own environment names root's files, and the user's could name another role.
        *("env", f"HOME={user.home}", f"AWS_CONFIG_FILE={NO_FILE}"),
        *(f"AWS_SHARED_CREDENTIALS_FILE={NO_FILE}", "aws", "s3", "sync"),
        # Links within the folder could lead round in circles.
        *("--only-show-errors", "--no-follow-symlinks", f"{folder}/", url),
        seconds=max(seconds, 0.0),
        user=None if user.is_agent else user.uid,
        group=None if user.is_agent else user.gid,
    )
    took = time.monotonic() - began
    if status == 0:
        return StepResult(step="upload", outcome="done", seconds=took)
    if status == TIMED_OUT:
        return StepResult(step="upload", outcome="late", seconds=took)
    detail = "the image has no AWS CLI" if status == NOT_FOUND else output[-200:]
    return StepResult(step="upload", outcome="failed", seconds=took, detail=detail)


def _folder(home: Path) -> Path | None:
    try:
        folder = (home / FOLDER).resolve()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError):  # a link to itself
        return None

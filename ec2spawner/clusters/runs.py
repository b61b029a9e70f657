"""Starts scripts on a cluster of torchrun, and finds the last one after a kernel's restart."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ..wire import MAX_SCRIPT_BYTES, CancelOrder, ClusterRequest, ClusterStatus, RunOrder
from .agent_request import ask
from .errors import ClusterError
from .run import Run
from .run_folder import Record, folder
from .worker_calls import WorkerRefused, call, each_of, ready

LAST_RUN: Final = "run.json"


def new_order(
    script: str | os.PathLike[str],
    args: Sequence[object],
    *,
    nproc_per_node: int | None,
    min_nodes: int,
    max_nodes: int,
    max_restarts: int,
    environment: Mapping[str, str] | None,
) -> RunOrder:
    """The order for a script of this instance. Raises `ClusterError`."""
    path = Path(script).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path} cannot be read as a script: {error}") from error
    if len(content) > MAX_SCRIPT_BYTES:
        raise ClusterError(
            f"{path} has more than {MAX_SCRIPT_BYTES >> 20} MiB. Only the script itself is sent to "
            "the workers: put data and other files where they can read them, such as in a bucket."
        )
    try:
        return RunOrder(
            run_id=uuid.uuid4().hex,
            file_name=path.name,
            script=text,
            args=[str(each) for each in args],
            environment=dict(environment or {}),
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            nproc_per_node=nproc_per_node,
            max_restarts=max_restarts,
        )
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc'][:1]))}: {each['msg']}" for each in error.errors()
        )
        raise ClusterError(f"This run cannot be started. {wrong}") from None


def start(order: RunOrder, record: Record, status: ClusterStatus) -> Run:
    """Give an order to the workers that have joined. Raises `ClusterError` if there is none, or if
    one refuses: then the others end it again."""
    if order.min_nodes > order.max_nodes:
        raise ClusterError(
            f"min_nodes={order.min_nodes}, but the run has at most {order.max_nodes} workers."
        )
    joined = [each for each in ready(status.workers) if each.interruption_at is None]
    joined = joined[: order.max_nodes]
    if not joined:
        raise ClusterError("No worker has joined: wait for one with cluster.wait(1).")
    body = order.model_dump_json()
    answers = each_of(lambda each: call(each, record.token, "/run", body), joined)
    refused = next((x for x in answers.values() if isinstance(x, WorkerRefused)), None)
    has_it = [number for number, x in answers.items() if not isinstance(x, ClusterError)]
    if refused is not None:
        cancel = CancelOrder(run_id=order.run_id).model_dump_json()
        given = [each for each in joined if each.number in has_it]
        each_of(lambda each: call(each, record.token, "/cancel", cancel), given)
        raise ClusterError(
            f"{refused}. cluster.last_run shows the last run of this cluster; its cancel() ends it."
        )
    if not has_it:
        raise ClusterError(f"No worker could be given the run. {next(iter(answers.values()))}")
    _remember(order, has_it, record)
    return Run(order, has_it, record.token, status_now)


def last(record: Record) -> Run:
    """The last run of this cluster, followed again. Raises `ClusterError` without one."""
    try:
        kept = json.loads((folder() / LAST_RUN).read_text(encoding="utf-8"))
        order = RunOrder.model_validate(kept["order"])
        address, first = str(kept["address"]), [int(each) for each in kept["first"]]
    except (OSError, ValueError, KeyError, TypeError):
        address, first, order = "", [], None
    if order is None or address != record.address:
        raise ClusterError("This cluster has run no script: cluster.run('train.py') starts one.")
    return Run(order, first, record.token, status_now)


def status_now() -> ClusterStatus:
    """How the cluster of this server stands. Raises `ClusterError`."""
    return ask(ClusterRequest()).status


def _remember(order: RunOrder, first: Sequence[int], record: Record) -> None:
    """For `last`: in memory only until the kernel restarts, and readable for its user alone."""
    path = folder() / LAST_RUN
    kept = {"address": record.address, "first": first, "order": order.model_dump()}
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(kept, file)

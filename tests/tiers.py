"""What kind each test is, which invariant it holds, and with what it runs.

`KINDS` and `INVARIANTS` are by folder or file; the longest entry applies. A test file that no entry
of `KINDS` covers fails the collection. The kinds decide what `make quick` runs and what may be run
once more after a failure, see `tests/run.py`; the mark `nightly` leaves a test to `make test-all`.
`python -m tests.tiers KIND` prints the entries of a kind, as arguments of pytest.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TREE: Final = Path(__file__).resolve().parents[1]

PURE: Final = "pure"
"""Values in, values out: no process, no database, no clock. `make quick` runs these."""

VIRTUAL: Final = "virtual"
"""In virtual time, in an order that follows from a seed."""

LOCAL: Final = "local"
"""In the test's own process, with its real threads, files, sockets or clock."""

PROCESS: Final = "process"
"""Real processes: the embedded EC2, hubs, agents, notebook servers, kernels, databases."""

BROWSER: Final = "browser"
"""A real browser before all that."""

RUN_AGAIN: Final = frozenset({PROCESS, BROWSER})
"""Kinds whose failed files run once more: a busy machine can delay what they wait for."""

UNITS_WITH_PROCESSES: Final = {
    "agent": (
        *("agent_command", "agent_disks", "agent_home", "agent_memory", "agent_mounts"),
        *("container", "gpu_driver", "prewarmed_notebook", "read_ahead", "upload"),
    ),
    "checkpoint": ("killed_loop", "resumable"),
    "cluster_worker": ("engine_python", "ray_node", "torchrun_node", "worker_process"),
    "clusters": (
        *("cluster", "engine_process", "ray_contract", "ray_in_kernel"),
        *("runs", "torchrun_head"),
    ),
    "gpu_check": ("gpu_check", "gpu_magic"),
    "load_test": ("locust_child",),
    "notebook": (
        *("home_environment", "image_kernels", "ipython_folder", "ipython_startup"),
        *("killed_sleep", "sleep_hooks"),
        *("terminal_shell", "worker_threads"),
    ),
    "run_executor": ("end_of_processes", "kernel_of_run", "run_of_notebook", "run_of_script"),
    "runs": ("create_job", "scheduler"),
    "sleep": (
        *("crashes", "earlier_values", "in_kernel", "killed_and_full", "kinds_of_variables"),
        *("muted", "names_of_the_shell", "no_variable_ends_a_save", "other_versions"),
        *("registered_types", "restart", "sleep_and_wake", "what_waits"),
    ),
    "store": ("store", "store_postgresql"),
}
"""Files of unit tests that a busy machine may fail, by folder: they wait for processes."""

KINDS: Final[Mapping[str, str]] = {
    **{
        f"tests/unit/{folder}/test_{name}.py": PROCESS
        for folder, names in UNITS_WITH_PROCESSES.items()
        for name in names
    },
    "tests/unit/agent": LOCAL,
    "tests/unit/agent_socket": LOCAL,
    "tests/unit/aws": LOCAL,
    "tests/unit/bench": LOCAL,
    "tests/unit/check": LOCAL,
    "tests/unit/checkpoint": LOCAL,
    "tests/unit/checkpoint/test_schedule.py": PURE,
    "tests/unit/cluster_worker": LOCAL,
    "tests/unit/clusters": LOCAL,
    "tests/unit/clusters/test_cluster_words.py": PURE,
    "tests/unit/clusters/test_run_outcome.py": PURE,
    "tests/unit/commands": LOCAL,
    "tests/unit/config": PURE,
    "tests/unit/core": PURE,
    "tests/unit/cost": PURE,
    "tests/unit/cost/test_cost.py": LOCAL,
    "tests/unit/cost/test_on_interruption.py": LOCAL,
    "tests/unit/embedded": LOCAL,
    "tests/unit/first_light": LOCAL,
    "tests/unit/gpu_check": LOCAL,
    "tests/unit/gpu_check/test_gpu_verdict.py": PURE,
    "tests/unit/hub": LOCAL,
    "tests/unit/load_test": LOCAL,
    "tests/unit/notebook": LOCAL,
    "tests/unit/notebook/test_cell_outputs.py": PURE,
    "tests/unit/plan": LOCAL,
    "tests/unit/prices": PURE,
    "tests/unit/project": LOCAL,
    "tests/unit/provisioner": VIRTUAL,
    "tests/unit/reap": PURE,
    "tests/unit/report": PURE,
    "tests/unit/run_executor": LOCAL,
    "tests/unit/run_executor/test_notebook_document.py": PURE,
    "tests/unit/run_executor/test_parameters.py": PURE,
    "tests/unit/runs": LOCAL,
    "tests/unit/sleep": LOCAL,
    "tests/unit/sleep/test_plan.py": PURE,
    "tests/unit/store": LOCAL,
    "tests/unit/telemetry": LOCAL,
    "tests/integration/agent": PROCESS,
    "tests/integration/alarms": LOCAL,
    "tests/integration/aws": PROCESS,
    "tests/integration/commands": PROCESS,
    "tests/integration/embedded": PROCESS,
    "tests/integration/hub": PROCESS,
    "tests/integration/install": PROCESS,
    "tests/integration/notebook": PROCESS,
    "tests/integration/pages": PROCESS,
    "tests/integration/test_bench_short.py": PROCESS,
    "tests/boot": PROCESS,
    "tests/e2e": BROWSER,
}

INVARIANTS: Final[Mapping[str, Sequence[str]]] = {
    "authorization": (
        "tests/unit/agent/test_agent_mounts.py",
        "tests/unit/agent/test_hostile_telemetry.py",
        "tests/unit/aws/test_identity.py",
        "tests/unit/cluster_worker/test_service.py",
        "tests/unit/cluster_worker/test_torchrun_node.py",
        "tests/unit/clusters/test_engine_process.py",
        "tests/unit/config/test_config.py",
        "tests/unit/embedded/test_iam_policy.py",
        "tests/unit/hub/test_claim_rate_limit.py",
        "tests/unit/hub/test_instances_scope.py",
        "tests/unit/hub/test_notebook_certificates.py",
        "tests/unit/hub/test_owners_calls.py",
        "tests/unit/hub/test_runs_api.py",
        "tests/unit/hub/test_runs_of_new_account.py",
        "tests/unit/hub/test_signed_link.py",
        "tests/unit/notebook/test_guest_status.py",
        "tests/unit/project/test_iam_policy.py",
        "tests/unit/provisioner/instances/test_claim_admission.py",
        "tests/integration/agent/test_admin_key_on_instance.py",
        "tests/integration/agent/test_identity_on_instance.py",
        "tests/integration/agent/test_lease_on_instance.py",
        "tests/integration/agent/test_local_socket_of_agent.py",
        "tests/integration/embedded/test_embedded_access.py",
        "tests/integration/embedded/test_embedded_iam.py",
        "tests/integration/embedded/test_embedded_user_isolation.py",
        "tests/integration/hub/test_agent_api.py",
        "tests/integration/hub/test_claims.py",
        "tests/integration/hub/test_instances_api.py",
        "tests/integration/hub/test_jupyterhub_faults_on_hub.py",
        "tests/integration/hub/test_other_users_instances.py",
        "tests/integration/hub/test_pool_on_hub.py",
        "tests/integration/hub/test_profiles_api.py",
        "tests/integration/hub/test_protocols.py",
        "tests/integration/hub/test_ray_cluster_on_hub.py",
        "tests/integration/hub/test_rehearsal_on_hub.py",
        "tests/integration/hub/test_retention_on_hub.py",
        "tests/integration/hub/test_runs_on_hub.py",
        "tests/integration/hub/test_sleep_on_hub.py",
        "tests/integration/hub/test_usage_api.py",
        "tests/integration/notebook/test_extension_standalone.py",
        "tests/integration/notebook/test_notices_of_notebook.py",
        "tests/e2e/test_web_page_attacks.py",
    ),
    "money": (
        "tests/unit/core/ledger",
        "tests/unit/core/limits",
        "tests/unit/core/pricing",
        "tests/unit/cost",
        "tests/unit/hub/test_costs_answer.py",
        "tests/unit/hub/test_default_payers.py",
        "tests/unit/hub/test_run_payers.py",
        "tests/unit/provisioner/ledger",
        "tests/unit/provisioner/limits",
        "tests/unit/provisioner/pool/test_pool_costs.py",
        "tests/unit/report",
        "tests/unit/store/test_cost_totals.py",
        "tests/unit/store/test_ledger_reading.py",
        "tests/unit/store/test_storage_costs.py",
        "tests/unit/store/test_usage_queries.py",
        "tests/integration/aws/test_bills.py",
        "tests/integration/aws/test_prices.py",
        "tests/integration/commands/test_report_command.py",
        "tests/integration/hub/test_limits_on_hub.py",
        "tests/integration/hub/test_load_test_on_hub.py",
        "tests/integration/hub/test_plan_rehearsal_on_hub.py",
    ),
    "leaks": (
        "tests/unit/aws/test_request_tokens.py",
        "tests/unit/core/instances/test_leaks.py",
        "tests/unit/core/test_reconciliation.py",
        "tests/unit/provisioner/failures",
        "tests/unit/provisioner/instances/test_garbage_collection.py",
        "tests/unit/provisioner/instances/test_refused_terminations.py",
        "tests/unit/provisioner/pool/test_pool_crash.py",
        "tests/unit/reap",
        "tests/integration/agent/test_failures_on_instance.py",
        "tests/integration/agent/test_gpu_check_on_instance.py",
        "tests/integration/agent/test_idle_on_instance.py",
        "tests/integration/agent/test_power_on_instance.py",
        "tests/integration/aws/test_call_tokens.py",
        "tests/integration/commands/test_first_light.py",
        "tests/integration/commands/test_first_light_remains.py",
        "tests/integration/commands/test_reap_command.py",
        "tests/integration/embedded/test_embedded_demo.py",
        "tests/integration/hub/test_failed_starts.py",
        "tests/integration/hub/test_idle_stop.py",
        "tests/integration/hub/test_killed_agents.py",
        "tests/integration/hub/test_no_capacity.py",
        "tests/integration/hub/test_restart.py",
        "tests/integration/hub/test_restarts_in_chaos.py",
    ),
    "massacre": (
        "tests/unit/agent/test_agent_retry_after.py",
        "tests/unit/provisioner/instances/test_copied_instances.py",
        "tests/unit/store/test_store_postgresql.py",
        "tests/integration/hub/test_store_on_postgresql.py",
        "tests/integration/hub/test_two_hubs.py",
    ),
    "secrets": (
        "tests/unit/agent/test_agent_memory.py",
        "tests/unit/agent/test_agent_settings.py",
        "tests/unit/agent/test_container.py",
        "tests/unit/commands/test_hub_call.py",
        "tests/unit/first_light/test_redaction.py",
        "tests/unit/hub/test_log_limits.py",
        "tests/unit/hub/test_sealed_start.py",
        "tests/unit/project/test_security_docs.py",
        "tests/unit/project/test_supply_chain.py",
        "tests/integration/agent/test_secrets_on_instance.py",
        "tests/integration/agent/test_user_data_on_instance.py",
        "tests/integration/hub/test_alarms_on_hub.py",
        "tests/integration/hub/test_clusters_by_agent.py",
        "tests/integration/hub/test_hub_machine.py",
        "tests/integration/hub/test_internal_ssl.py",
    ),
}
"""Never run again after a failure: once is too often."""

REPEAT_OFFENDERS: Final[frozenset[str]] = frozenset()
"""Files that failed by chance before, and are not run again until the cause is found."""


@functools.cache
def kind_of(file: str) -> str | None:
    """The kind of a test file, by its path in the tree; None if no entry covers it."""
    found = [entry for entry in KINDS if _covers(entry, file)]
    return KINDS[max(found, key=len)] if found else None


def holds_invariant(file: str) -> bool:
    """Whether a test file holds an invariant."""
    return any(_covers(each, file) for entries in INVARIANTS.values() for each in entries)


def may_run_again(file: str) -> bool:
    """Whether a failure of the file may be the machine's."""
    return kind_of(file) in RUN_AGAIN and not holds_invariant(file) and file not in REPEAT_OFFENDERS


def path_of(file: Path) -> str:
    """A file's path in the tree, as entries have it."""
    return file.relative_to(TREE).as_posix()


def _covers(entry: str, file: str) -> bool:
    return file == entry or file.startswith(f"{entry}/")


if __name__ == "__main__":
    wanted = [entry for entry, kind in KINDS.items() if kind == sys.argv[1]]
    others = [entry for entry in KINDS if entry not in wanted]
    inside = [each for each in others if any(_covers(entry, each) for entry in wanted)]
    print(*wanted, *(f"--ignore={each}" for each in inside))

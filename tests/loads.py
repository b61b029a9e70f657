"""What tests and their processes load besides what imports and names in strings show.

For `tests/affected.py`. Entries are paths in the tree: of a file, of a folder with a slash at the
end, or `file:name` for those that use that name of a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

EVERYTHING: Final = (
    *("Makefile", "MANIFEST.in", "pyproject.toml", "setup.py", "jupyter-config/", "proxy/"),
    *("ec2spawner/core/", "ec2spawner/wire/", "ec2spawner/data/constraints.txt"),
    *("labextension/package", "labextension/tsconfig.json"),
)
"""A change below one of these runs everything, as does that of a `conftest.py`."""

ABOUT_THE_TREE: Final = "tests/unit/project/"
"""Tests that read files of any kind: part of each run."""

CLI: Final = "ec2spawner/cli.py"
STARTUP: Final = "ec2spawner/hub/startup.py"
HUB: Final = ("ec2spawner/spawner.py", STARTUP, "configs/demo/jupyterhub_config.py")
MAGICS: Final = (
    *("ec2spawner/clusters/magics.py", "ec2spawner/cost/magics.py"),
    *("ec2spawner/gpu_check/magic.py", "ec2spawner/sleep/magics.py"),
)
JUPYTERLAB: Final = ("ec2spawner/notebook/extension.py", *MAGICS)
LAB_EXTENSION: Final = ("labextension/schema/", "labextension/src/", "labextension/style/")
DEMO: Final = (CLI, "ec2spawner/embedded/demo/demo.py", *JUPYTERLAB)
FIRST_LIGHT: Final = "ec2spawner/first_light/command.py"
TEMPLATES: Final = "ec2spawner/hub/pages/templates/"
MIGRATIONS: Final = "ec2spawner/provisioner/store/migrations/"

LOADS: Final[Mapping[str, Sequence[str]]] = {
    "ec2spawner/__init__.py:EC2Spawner": HUB,
    "ec2spawner/__init__.py:cluster": ("ec2spawner/clusters/cluster.py",),
    "ec2spawner/__init__.py:load_ipython_extension": MAGICS,
    "ec2spawner/agent/notebook_server/process.py": ("ec2spawner/notebook/defaults/",),
    "ec2spawner/aws/identity.py": ("ec2spawner/data/identity-certificates/",),
    "ec2spawner/embedded/demo/demo.py": HUB,
    "ec2spawner/first_light/hub/temporary_hub.py": HUB,
    "ec2spawner/hub/app/reporting/event_log.py": ("ec2spawner/hub/app/reporting/event_schemas/",),
    "ec2spawner/hub/spawn/user_data.py": ("ec2spawner/hub/spawn/user_data.sh",),
    STARTUP: ("ec2spawner/agent/__main__.py",),
    f"{MIGRATIONS}__init__.py": (MIGRATIONS,),
    "ec2spawner/run_executor/notebook_run.py": MAGICS,
    "tests/aws_actions.py": ("ec2spawner/aws/", "ec2spawner/check/"),
    "tests/boot/conftest.py": (*HUB, CLI, *JUPYTERLAB),
    "tests/e2e/canned_server.py": ("tests/e2e/canned_status.py",),
    "tests/e2e/person.py:arrives_in_jupyterlab": LAB_EXTENSION,
    "tests/e2e/running_demo.py": DEMO,
    "tests/e2e/test_jobs_in_browser.py": ("ec2spawner/runs/scheduler.py",),
    "tests/harness.py:Embedded": ("ec2spawner/embedded/__main__.py", "tests/stub_notebook/"),
    "tests/harness.py:Hub": HUB,
    "tests/harness.py:STUB_NOTEBOOK": ("tests/stub_notebook/",),
    "tests/integration/aws/embedded_ec2.py": ("ec2spawner/embedded/__main__.py",),
    "tests/integration/commands/admin.py": (CLI, FIRST_LIGHT),
    "tests/integration/embedded/test_embedded_demo.py": DEMO,
    "tests/integration/hub/test_sample_configurations.py": ("configs/",),
    "tests/integration/hub/wheels.py": (*HUB, CLI, "configs/aws/"),
    "tests/integration/install/test_install.py": (*HUB, CLI, "configs/"),
    "tests/integration/pages/admin.py": (CLI, "configs/"),
    "tests/integration/test_bench_short.py": ("tests/bench/",),
    "tests/unit/bench/test_bench_modules.py": ("tests/bench/",),
    "tests/unit/clusters/torchrun_workers.py": ("tests/fake_torch/",),
    "tests/unit/gpu_check/test_gpu_magic.py": MAGICS,
    "tests/unit/hub/hub_html.py": (TEMPLATES,),
}
"""What a file loads, or a process that it starts."""

NOT_FOLLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "ec2spawner/__init__.py": (
        *("ec2spawner/clusters/", "ec2spawner/cost/", "ec2spawner/gpu_check/", "ec2spawner/hub/"),
        *("ec2spawner/sleep/", "ec2spawner/spawner.py"),
    ),
    "ec2spawner/agent/notebook_server/prewarmed.py": ("ec2spawner/notebook/",),
    CLI: ("ec2spawner/embedded/demo/", FIRST_LIGHT),
    "ec2spawner/clusters/agent_request.py": ("ec2spawner/__init__.py:cluster",),
    "ec2spawner/hub/runs/lease.py": ("ec2spawner/run_executor/",),
    "ec2spawner/hub/spawn/cluster_request.py": ("ec2spawner/cluster_worker/",),
    "ec2spawner/notebook/__init__.py": ("ec2spawner/notebook/",),
    "tests/conftest.py": ("tests/postgresql_server.py",),
    "tests/e2e/conftest.py": ("tests/e2e/canned_server.py", "tests/e2e/running_demo.py"),
    "tests/harness.py": ("configs/demo/", "ec2spawner/embedded/"),
    "tests/nursery.py": ("ec2spawner/", "tests/harness.py"),
}
"""Imports and names that only some users of a file need. Those users import the target themselves,
or have an entry in another table."""

ASKED_OF_A_HUB: Final[Mapping[str, Sequence[str]]] = {
    f"{TEMPLATES}*.html": ("/error", "/home", "/login", "/spawn", "/spawn-pending", "/user"),
    "ec2spawner/cluster_worker/__main__.py": ("cluster", "clusters"),
    "ec2spawner/run_executor/__main__.py": ("run", "runs"),
}
"""What a hub and its instances load only on request, with words that appear in a request. Modules
of handlers belong to it, with words of the addresses that they serve."""

CALLERS: Final = (
    *("ec2spawner/first_light/hub/", "ec2spawner/interrupt/", "ec2spawner/load_test/user/"),
    *("ec2spawner/plan/rehearsal/", "ec2spawner/pool/", "ec2spawner/runs/", TEMPLATES, "tests/"),
)
"""Where a string may be part of a request to a hub."""

NOT_CALLERS: Final = (
    *("tests/e2e/person.py", "tests/harness.py", "tests/integration/hub/conftest.py"),
    *("tests/nursery.py", "tests/stub_notebook/"),
    *(f"{TEMPLATES}page.html", f"{TEMPLATES}ec2spawner/usage/nav.html"),
)
"""Exceptions: files that many tests use for something else, and links to pages."""

ASKED_BY_NAME: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    **dict.fromkeys(JUPYTERLAB, ("tests/", ("jupyterlab", ".jupyterlab", "jupyter_server"))),
    **dict.fromkeys(LAB_EXTENSION, ("tests/e2e/", ("/lab", "/notebooks"))),
}
"""What a file in that folder loads, with a hub or without, if it has one of these words in a string
or as an attribute."""

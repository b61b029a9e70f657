"""Jobs of jupyter-scheduler are executed as runs, with its own database, files and processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_scheduler.environments import EnvironmentRetrievalError
from jupyter_scheduler.extension import SchedulerApp
from jupyter_scheduler.models import (
    CreateJob,
    CreateJobDefinition,
    CreateJobFromDefinition,
    DescribeJob,
    JobFeature,
    Status,
)
from jupyter_scheduler.orm import Job, create_tables

from ec2spawner.core.runs.documents import pack
from ec2spawner.runs.scheduler import ProfileEnvironments, RunExecutionManager, RunScheduler
from ec2spawner.runs.schedules import job_run
from ec2spawner.wire import HardwareChoice, HardwareChoices, RunsRequest, RunSubmission

from .agent_socket import agent
from .job_hub import NOTEBOOK, JobHub

HARDWARE = HardwareChoices(
    choices=[HardwareChoice(profile="a100", name="A100", usd_per_hour=4, is_available=True)],
    own=HardwareChoice(profile="t4", name="T4", refusal="your budget is used up"),
)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobHub]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(job_run, "FIRST_PAUSE", 0.01)
    (tmp_path / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    made = JobHub()
    with agent(tmp_path, monkeypatch, made, HARDWARE):
        yield made


class Server:
    """The part of a notebook server that jupyter-scheduler is."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.db_url = f"sqlite:///{home}/scheduler.sqlite"
        create_tables(self.db_url)
        self.scheduler = self.start()

    def start(self) -> RunScheduler:
        """As the server does: once more is after a restart."""
        return RunScheduler(
            root_dir=str(self._home),
            environments_manager=ProfileEnvironments(),
            db_url=self.db_url,
            staging_path=str(self._home / "staging"),
        )

    def job(self, **changes: Any) -> str:
        """A job that no process executes yet."""
        given = {
            "runtime_environment_name": "t4",
            "input_filename": "train.ipynb",
            "output_formats": ["ipynb", "html"],
            "name": "train",
        }
        with self.scheduler.db_session() as session:
            job = Job(**given | changes)
            session.add(job)
            session.commit()
            job_id = str(job.job_id)
        staged = Path(self.paths(job_id)["input"])
        staged.parent.mkdir(parents=True)
        staged.write_text(json.dumps(NOTEBOOK))
        return job_id

    def create_job(self) -> str:
        """One that a process of its own executes."""
        wanted = CreateJob(input_uri="train.ipynb", runtime_environment_name="t4", name="train")
        job_id: str = self.scheduler.create_job(wanted)
        return job_id

    def paths(self, job_id: str) -> dict[str, str]:
        found: dict[str, str] = self.scheduler.get_staging_paths(self.describe(job_id))
        return found

    def describe(self, job_id: str) -> DescribeJob:
        return self.scheduler.get_job(job_id, False)

    def execute(self, job_id: str) -> DescribeJob:
        """In this process, to its end."""
        RunExecutionManager(
            job_id=job_id,
            staging_paths=self.paths(job_id),
            root_dir=str(self._home),
            db_url=self.db_url,
        ).process()
        return self.describe(job_id)


@pytest.fixture
def server(tmp_path: Path, hub: JobHub) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.scheduler.end_processes()
    for process in multiprocessing.active_children():
        process.join(10)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def printed(path: str) -> list[str]:
    """By the first cell of a notebook."""
    cells = json.loads(Path(path).read_text())["cells"]
    found: list[str] = cells[0]["outputs"][0]["text"]
    return found


def test_a_job_has_the_result_of_its_run(server: Server, hub: JobHub) -> None:
    job_id = server.job(parameters={"lr": "0.1"}, runtime_environment_parameters={"max_usd": 5})
    job = server.execute(job_id)
    assert job.status is Status.COMPLETED
    assert job.start_time <= job.end_time
    assert job.status_message is None
    submission = hub.submitted()
    assert submission.profile == "t4"
    assert submission.parameters == [{"lr": 0.1}]
    assert submission.max_usd == 5
    assert submission.path == f"staging/{job_id}/train.ipynb"
    assert hub.submitted_cells()[0]["outputs"] == []
    assert printed(server.paths(job_id)["ipynb"]) == ["42\n"]
    assert "42" in Path(server.paths(job_id)["html"]).read_text()
    assert "delivered" not in hub.actions(), "it comes into the folder runs as well"


def test_a_job_whose_run_succeeded_with_a_note_shows_it(server: Server, hub: JobHub) -> None:
    hub.message = "The kernel 'r' is not on this image"
    job = server.execute(server.job())
    assert job.status is Status.COMPLETED
    assert hub.message in job.status_message


def test_a_run_that_failed_leaves_its_notebook_and_its_reason(server: Server, hub: JobHub) -> None:
    hub.outcome, hub.message = "failed", "KeyError: 'x'" + "!" * 400
    job_id = server.job()
    job = server.execute(job_id)
    assert job.status is Status.FAILED
    assert job.end_time
    assert all(part in job.status_message for part in ("Run 12", "0.2500 USD", "KeyError"))
    assert printed(server.paths(job_id)["ipynb"])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"parameters": {"a-b": "1"}}, "a-b"),
        ({"runtime_environment_parameters": {"colour": "red"}}, "colour"),
        ({"runtime_environment_parameters": {"retries": 1000}}, "retries"),
    ],
)
def test_a_wrong_job_fails_and_names_the_field(
    server: Server, hub: JobHub, changes: dict[str, object], named: str
) -> None:
    job = server.execute(server.job(**changes))
    assert job.status is Status.FAILED
    assert named in job.status_message
    assert "submit" not in hub.actions()


def test_a_notebook_that_is_gone_fails(server: Server, hub: JobHub) -> None:
    job_id = server.job()
    Path(server.paths(job_id)["input"]).unlink()
    assert server.execute(job_id).status is Status.FAILED
    assert "submit" not in hub.actions()


def test_a_job_in_progress_has_its_run_as_a_tag_and_no_message(server: Server, hub: JobHub) -> None:
    hub.outcome = None
    job_id = server.job(tags=["night", "run-7"])
    shown: list[DescribeJob] = []

    def fails(request: RunsRequest) -> None:
        if len(hub.asked) == 3:
            shown.append(server.describe(job_id))
            hub.end(12, "succeeded")

    hub.fails = fails
    job = server.execute(job_id)
    assert (job.status, job.tags) == (Status.COMPLETED, ["night", "run-7", "run-12"])
    assert shown[0].status is Status.IN_PROGRESS
    assert shown[0].tags == ["night", "run-7", "run-12"]
    assert shown[0].status_message is None


@pytest.mark.parametrize("how", ["stopped", "deleted"])
def test_the_run_of_a_job_that_is_not_wanted_is_cancelled(
    server: Server, hub: JobHub, how: str
) -> None:
    hub.outcome = None
    job_id = server.job()

    def fails(request: RunsRequest) -> None:
        if len(hub.asked) == 3:
            with server.scheduler.db_session() as session:
                jobs = session.query(Job).filter(Job.job_id == job_id)
                if how == "deleted":
                    jobs.delete()
                else:
                    jobs.update({"status": Status.STOPPING})
                session.commit()

    hub.fails = fails
    manager = RunExecutionManager(
        job_id=job_id,
        staging_paths=server.paths(job_id),
        root_dir="/",
        db_url=server.db_url,
    )
    manager.process()
    assert hub.runs[12].outcome == "cancelled"
    if how == "stopped":
        job = server.describe(job_id)
        assert (job.status, bool(job.end_time)) == (Status.STOPPED, True)


def test_the_run_of_a_job_that_is_deleted_without_its_process_is_cancelled(
    server: Server, hub: JobHub
) -> None:
    hub.outcome = None
    job_id = server.create_job()
    until(hub.is_asked_about_a_run)
    server.scheduler.end_processes()
    until(lambda: not multiprocessing.active_children())
    server.scheduler.delete_job(job_id)
    until(lambda: hub.runs[12].outcome == "cancelled")


@pytest.mark.parametrize("is_scheduled", [False, True])
def test_an_amount_as_text_is_kept_whole(server: Server, hub: JobHub, is_scheduled: bool) -> None:
    """jupyter-scheduler takes a number for an int first, also one that was stored as a text."""
    wanted = {
        "input_uri": "train.ipynb",
        "runtime_environment_name": "t4",
        "runtime_environment_parameters": {"max_spot_usd_per_hour": "0.35", "max_usd": "4.5"},
        "output_formats": ["ipynb"],
        "name": "train",
    }
    if is_scheduled:
        definition = server.scheduler.create_job_definition(CreateJobDefinition(**wanted))
        job_id = server.scheduler.create_job_from_definition(definition, CreateJobFromDefinition())
    else:
        job_id = server.scheduler.create_job(CreateJob(**wanted))
    until(lambda: server.describe(job_id).status is Status.COMPLETED)
    submission = hub.submitted()
    assert (submission.max_spot_usd_per_hour, submission.max_usd) == (0.35, 4.5)


def test_a_job_whose_run_the_hub_has_forgotten_is_not_run_again(
    server: Server, hub: JobHub
) -> None:
    job = server.execute(server.job(status=Status.IN_PROGRESS, tags=["run-7"]))
    assert job.status is Status.FAILED
    assert "submit" not in hub.actions()


def test_a_resumed_job_has_its_run_although_its_deadline_is_over(
    server: Server, hub: JobHub
) -> None:
    over = {"deadline": "2026-01-01T00:00Z"}
    job_id = server.job(status=Status.IN_PROGRESS, runtime_environment_parameters=over)
    packed = pack([json.dumps(NOTEBOOK).encode()])
    hub(
        RunsRequest(
            action="submit",
            submission=RunSubmission(
                request_id=job_id, path="train.ipynb", document=packed, profile="t4"
            ),
        )
    )
    assert server.execute(job_id).status is Status.COMPLETED
    assert set(hub.runs) == {12}


def test_a_job_that_is_stopped_before_it_was_submitted_is_not_submitted(
    server: Server, hub: JobHub
) -> None:
    job = server.execute(server.job(status=Status.STOPPING))
    assert job.status is Status.STOPPED
    assert "submit" not in hub.actions()


def test_a_job_continues_after_a_restart_of_the_server_and_is_stopped(
    server: Server, hub: JobHub
) -> None:
    hub.outcome = None
    job_id = server.create_job()
    until(hub.is_asked_about_a_run)
    server.scheduler.stop_job("another")
    first = {process.pid for process in multiprocessing.active_children()}
    server.scheduler.end_processes()
    until(lambda: not multiprocessing.active_children())
    assert server.describe(job_id).status is Status.IN_PROGRESS
    assert hub.runs[12].outcome is None

    server.scheduler = server.start()
    asked = len(hub.asked)
    until(lambda: len(hub.asked) > asked + 1)
    assert first.isdisjoint(process.pid for process in multiprocessing.active_children())
    server.scheduler.stop_job(job_id)
    assert server.describe(job_id).status in (Status.STOPPING, Status.STOPPED)
    until(lambda: server.describe(job_id).status is Status.STOPPED)
    assert hub.runs[12].outcome == "cancelled"
    assert server.describe(job_id).tags == ["run-12"]
    assert set(hub.runs) == {12}


CREATE = """
import sys
from ec2spawner.runs.scheduler import ProfileEnvironments, RunScheduler
from jupyter_scheduler.models import CreateJob
if __name__ == "__main__":
    home = sys.argv[1]
    scheduler = RunScheduler(
        root_dir=home,
        environments_manager=ProfileEnvironments(),
        db_url=f"sqlite:///{home}/scheduler.sqlite",
        staging_path=f"{home}/staging",
    )
    scheduler.create_job(
        CreateJob(input_uri="train.ipynb", runtime_environment_name="t4", name="train")
    )
    sys.stdin.readline()
"""


def test_a_server_that_stops_does_not_wait_for_runs(
    server: Server, hub: JobHub, tmp_path: Path
) -> None:
    hub.outcome = None
    script = tmp_path / "server.py"
    script.write_text(CREATE)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as stopping:
        try:
            until(hub.is_asked_about_a_run)
            assert stopping.stdin is not None
            stopping.stdin.close()
            assert stopping.wait(30) == 0
        finally:
            stopping.kill()


async def test_the_profiles_are_the_environments(hub: JobHub) -> None:
    manager = ProfileEnvironments()
    found = await manager.list_environments()
    assert [each.name for each in found] == ["t4", "a100"]
    assert [each.label for each in found] == ["t4", "a100"]
    assert "your budget is used up" in found[0].description
    assert "4.0000 USD per hour" in found[1].description
    assert set(found[0].output_formats) == set(manager.output_formats_mapping())


async def test_environments_need_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: JobHub
) -> None:
    (tmp_path / "silent").mkdir()
    with (
        agent(tmp_path / "silent", monkeypatch, hub),
        pytest.raises(EnvironmentRetrievalError),
    ):
        await ProfileEnvironments().list_environments()


def test_jupyter_scheduler_calls_the_class_with_itself() -> None:
    assert RunScheduler.execution_manager_class.default_value is RunExecutionManager
    assert RunExecutionManager.validate(RunExecutionManager, "train.ipynb") is True
    features = RunExecutionManager.supported_features(RunExecutionManager)
    assert features[JobFeature.stop_job] is True


def test_the_configuration_of_the_documentation_is_accepted() -> None:
    app = SchedulerApp(
        scheduler_class="ec2spawner.runs.scheduler.RunScheduler",
        environment_manager_class="ec2spawner.runs.scheduler.ProfileEnvironments",
    )
    assert app.scheduler_class is RunScheduler
    assert app.environment_manager_class is ProfileEnvironments

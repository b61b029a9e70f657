"""Jobs of jupyter-scheduler, each executed as a run on an instance of its own.

In a notebook server's configuration:

    c.SchedulerApp.scheduler_class = "ec2spawner.runs.scheduler.RunScheduler"
    c.SchedulerApp.environment_manager_class = "ec2spawner.runs.scheduler.ProfileEnvironments"

What is scheduled is kept and started by jupyter-scheduler in the user's notebook server: a schedule
fires only while that server runs, and what it would have started meanwhile is not made up for. A
run that was submitted needs no server: it continues, and its result comes into the home in any
case, as that of any run. A job whose server stopped is followed further by the next one.

Nothing else imports this module: it needs the extra `ec2spawner[scheduler]`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util  # whose exit, which waits for all processes, must come after ours
import re
import time
import traceback
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import nbformat
from anyio.to_thread import run_sync
from jupyter_scheduler.environments import EnvironmentManager, EnvironmentRetrievalError
from jupyter_scheduler.executors import DefaultExecutionManager
from jupyter_scheduler.models import DescribeJob, JobFeature, RuntimeEnvironment, Status
from jupyter_scheduler.orm import Job, JobDefinition
from jupyter_scheduler.scheduler import Scheduler
from jupyter_scheduler.utils import get_utc_timestamp
from traitlets import Type

from ..wire import RunSubmission, RunSummary
from . import words
from .errors import RunError
from .schedules import job_run
from .schedules.hardware import description, offered_profiles
from .schedules.job_options import job_options
from .schedules.job_run import JobStopped
from .submission import submission_of

STOP_SECONDS: Final = 1.0
"""Until the process of a job sees that its job was stopped."""

STOPPED: Final = "You have stopped this job. Its run, if it had one, was cancelled."

MAX_MESSAGE: Final = 1024
"""Characters of a job's message: its column has no more."""

FORMATS: Final = {"ipynb": "Notebook", "html": "HTML"}

_UNFINISHED: Final = (Status.IN_PROGRESS, Status.STOPPING)


class ProfileEnvironments(EnvironmentManager):
    """The user's profiles, each an environment that has its slug as the name, and as the label:
    JupyterLab's dialog shows the name, and sends the label in its place."""

    async def list_environments(self) -> list[RuntimeEnvironment]:
        """Described by hardware and price per hour. Raises `EnvironmentRetrievalError`."""
        try:
            choices = await run_sync(offered_profiles, abandon_on_cancel=True)
        except RunError as error:
            raise EnvironmentRetrievalError(str(error)) from error
        return [
            RuntimeEnvironment(
                name=choice.profile,
                label=choice.profile,
                description=description(choice),
                file_extensions=["ipynb"],
                output_formats=list(FORMATS),
            )
            for choice in choices
        ]

    def manage_environments_command(self) -> str:
        """None: profiles are the hub's."""
        return ""

    def output_formats_mapping(self) -> dict[str, str]:
        """Their names for a person."""
        return FORMATS


class RunExecutionManager(DefaultExecutionManager):
    """Executes one job, in a process of its own, that submits the run and waits for its end."""

    _was_begun = False
    """Another process may have submitted its run."""

    def before_start(self) -> None:
        """The job is in progress, unless another process has begun it before, or it was deleted."""
        status = self._job(Job.status)
        self._was_begun = status in _UNFINISHED
        if status is not None and not self._was_begun:
            super().before_start()

    def execute(self) -> None:
        """Raises `RunError` if the run does not succeed, `JobStopped` among them."""
        may_arrive = False
        try:
            self._pause(0)
            may_arrive = True  # from here a run may be made, though no answer says so
            run = job_run.begin(self.job_id, self._submission, pause=self._pause)
            self._tag(f"run-{run.number}")
            run = job_run.wait(run.number, pause=self._pause)
            if run.has_result:
                self._write(job_run.executed(run.number, pause=self._pause))
        except (RunError, OSError) as error:  # a job that is deleted loses its files
            if self._is_wanted():
                raise
            job_run.cancel(self.job_id, may_arrive=may_arrive)
            raise JobStopped(STOPPED) from error
        if run.outcome != "succeeded":
            raise RunError(_in_words(run))
        if run.message:  # such as that another kernel executed it
            self._update(status_message=_in_words(run))

    def on_failure(self, e: Exception) -> None:
        """The job is stopped, or has failed: the message says why."""
        status = Status.STOPPED if isinstance(e, JobStopped) else Status.FAILED
        message = str(e) or type(e).__name__
        self._update(status=status, status_message=message, end_time=get_utc_timestamp())
        if not isinstance(e, RunError):
            traceback.print_exception(e)

    # jupyter-scheduler calls these two with the class as their first argument.

    @staticmethod
    def supported_features(_manager: object = None) -> dict[JobFeature, bool]:
        """Those of jupyter-scheduler's own."""
        features = DefaultExecutionManager.supported_features(DefaultExecutionManager)
        return {**features, JobFeature.parameters: True}

    @staticmethod
    def validate(_manager: object, input_path: str) -> bool:
        """Whatever the notebook says of its kernel: the run's image may have another one."""
        return True

    @property
    def _input(self) -> Path:
        return Path(self.staging_paths["input"])

    def _submission(self) -> RunSubmission:
        tags = self._job(Job.tags) or []
        if self._was_begun and any(re.fullmatch(r"run-\d+", tag) for tag in tags):
            raise RunError(
                "The hub does not know the run of this job any more: look into the folder runs of "
                "your home."
            )
        options = job_options(
            self.model.runtime_environment_name,
            self._environment_parameters(),
            self.model.parameters or {},
            datetime.now().astimezone(),
        )
        submission = submission_of(self._input, Path.home(), options)
        return submission.model_copy(update={"request_id": self.job_id})

    def _environment_parameters(self) -> dict[str, object]:
        """As they were stored first: reading them into a model cuts 0.35 to 0."""
        parameters: dict[str, object] | None = None
        if definition_id := self._job(Job.job_definition_id):
            with self.db_session() as session:
                definitions = session.query(JobDefinition.runtime_environment_parameters)
                parameters = definitions.filter(
                    JobDefinition.job_definition_id == definition_id
                ).scalar()
        return parameters or self._job(Job.runtime_environment_parameters) or {}

    def _pause(self, seconds: float) -> None:
        """Raises `JobStopped` soon after the job was stopped or deleted."""
        until = time.monotonic() + seconds
        while self._is_wanted():
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, STOP_SECONDS))
        raise JobStopped(STOPPED)

    def _is_wanted(self) -> bool:
        return self._job(Job.status) not in (None, Status.STOPPING)

    def _tag(self, tag: str) -> None:
        """Show this as a tag: JupyterLab shows a job's message as an error, whatever its status."""
        tags = self._job(Job.tags) or []
        if tag not in tags:
            self._update(tags=[*tags, tag])

    def _write(self, content: bytes) -> None:
        """The executed notebook, in each format that was asked for."""
        notebook = nbformat.reads(content.decode(), as_version=4)
        if self.model.package_input_folder:
            self.add_side_effects_files(str(self._input.parent))
        self.create_output_files(self.model, notebook)

    def _job(self, column: Any) -> Any:
        """What the job has there now; None for nothing, and once it was deleted."""
        with self.db_session() as session:
            return session.query(column).filter(Job.job_id == self.job_id).scalar()

    def _update(self, **values: Any) -> None:
        if "status_message" in values:
            values["status_message"] = values["status_message"][:MAX_MESSAGE]
        with self.db_session() as session:
            session.query(Job).filter(Job.job_id == self.job_id).update(values)
            session.commit()


class RunScheduler(Scheduler):
    """Stops a job by having its process cancel the run, and follows jobs of an earlier server."""

    execution_manager_class: Any = Type(
        RunExecutionManager,
        klass="jupyter_scheduler.executors.ExecutionManager",
        config=True,
        help="What executes a job.",
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        atexit.register(self.end_processes)
        with self.db_session() as session:
            unfinished = session.query(Job.job_id).filter(Job.status.in_(_UNFINISHED)).all()
        for (job_id,) in unfinished:
            self._start_process(job_id)

    def stop_job(self, job_id: str) -> None:
        """Have the run cancelled; the job is `STOPPING` until the hub has done so."""
        with self.db_session() as session:
            jobs = session.query(Job).filter(Job.job_id == job_id, Job.status == Status.IN_PROGRESS)
            is_stopping = jobs.update({"status": Status.STOPPING})
            session.commit()
        if is_stopping:
            self._ensure_process(job_id)

    def delete_job(self, job_id: str) -> None:
        """Have its run cancelled, also where the process that was to do so was killed."""
        with self.db_session() as session:
            status = session.query(Job.status).filter(Job.job_id == job_id).scalar()
        if status in _UNFINISHED:
            self._ensure_process(job_id)
        super().delete_job(job_id)

    def end_processes(self) -> None:
        """End those that wait for a run: the exit of this server would wait for them."""
        alive = _alive()
        if alive:
            with self.db_session() as session:
                of_jobs = session.query(Job.pid).filter(Job.pid.in_(alive)).all()
            for (pid,) in of_jobs:
                alive[pid].terminate()

    def _ensure_process(self, job_id: str) -> None:
        """Start one for a job whose own is gone: it was killed."""
        with self.db_session() as session:
            pid = session.query(Job.pid).filter(Job.job_id == job_id).scalar()
        if pid not in _alive():
            self._start_process(job_id)

    def _start_process(self, job_id: str) -> None:
        with self.db_session() as session:
            job = session.query(Job).filter(Job.job_id == job_id).one()
            manager = self.execution_manager_class(
                job_id=job_id,
                staging_paths=self.get_staging_paths(DescribeJob.from_orm(job)),
                root_dir=self.root_dir,
                db_url=self.db_url,
            )
            # As `create_job` does: a fork would copy the threads' locks of this server.
            process = multiprocessing.get_context("spawn").Process(target=manager.process)
            process.start()
            job.pid = process.pid
            session.commit()


def _alive() -> dict[int, BaseProcess]:
    """The processes that this server has started, by their ids."""
    return {each.pid: each for each in multiprocessing.active_children() if each.pid is not None}


def _in_words(run: RunSummary) -> str:
    """`Run 12: failed, 3 of 12 cells, g5.xlarge eu-west-1a spot, 0.4532 USD: KeyError: 'x'`."""
    cost = f"{words.cost([run])} USD" if run.attempts else ""
    parts = [words.state(run), words.progress(run), words.place(run), cost]
    why = f": {run.message}" if run.message else ""
    return f"Run {run.number}: {', '.join(filter(None, parts))}{why}"

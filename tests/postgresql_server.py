"""A PostgreSQL server for tests: made in a folder of its own, listening on loopback alone."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import free_ports

PASSWORD = "hunter2-of-the-tests"  # tests look that it is in no log

START_SECONDS = 180.0
"""For a server to answer, on a busy machine."""


def programs() -> Path | None:
    """The folder of the newest PostgreSQL server's programs; None where none is installed."""
    found = shutil.which("postgres")
    if found:
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(installed, key=lambda path: float(path.parts[-3]), default=None)
    return newest.parent if newest else None


class PostgreSQL:
    """`new_database` gives URLs; the server can be stopped and started again."""

    def __init__(self) -> None:
        found = programs()
        if found is None:
            pytest.skip("PostgreSQL is not installed: make postgresql does it")
        self._programs = found
        # Not below pytest's folders: only the user who runs the tests may enter those. They may
        # be root, and PostgreSQL refuses to run as root.
        self._folder = Path(tempfile.mkdtemp(prefix="ec2spawner-postgresql-"))
        self._data = self._folder / "data"
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        [self.port] = free_ports(1)
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # Not `nobody`: agents under test end whatever runs as that user.
            user = pwd.getpwnam("postgres" if _has_user("postgres") else "daemon")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            *("initdb", "--pgdata", str(self._data), "--username", "hub", "--encoding", "UTF8"),
            *("--locale", "C", "--no-sync", "--auth", "scram-sha-256", f"--pwfile={secret}"),
        )

    def start(self) -> PostgreSQL:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",
            "log_min_messages": "fatal",
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    *("-D", self._data),
                    *(
                        word
                        for name, value in settings.items()
                        for word in ("-c", f"{name}={value}")
                    ),
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,
                **self._as_user,
            )
        deadline = time.monotonic() + START_SECONDS
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """End the server, and every session at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def remove(self) -> None:
        """Without writing down first what is deleted then."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_SECONDS)
            self._process = None
        shutil.rmtree(self._folder)

    def url(self, database: str) -> str:
        return f"postgresql://hub:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def new_database(self, like: str = "template1") -> str:
        """The URL of an empty database, or of a copy of one that nothing is connected to."""
        name = f"store_{next(self._numbers)}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {like}")
        return self.url(name)

    def sql(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement from outside the hub; the rows that it gives."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._as_user,
        )


def _has_user(name: str) -> bool:
    return any(user.pw_name == name for user in pwd.getpwall())


def database_of(url: str) -> str:
    """The database's name in one of `new_database`'s URLs."""
    found = re.search(r"/(\w+)$", url)
    assert found is not None
    return found[1]

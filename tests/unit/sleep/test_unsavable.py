"""What lives outside the kernel's process is said not to be saved, by its kind; nothing of it is
started."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from ec2spawner.core.sleep.unsavable import KINDS
from tests.unit.sleep.notebook import Notebook, entries

HEAD = """
import asyncio, concurrent.futures as cf, gzip, multiprocessing as mp, sqlite3, sys, tempfile
import threading, types, zipfile
from multiprocessing import shared_memory as sm
import boto3, httpx, psycopg, requests, sqlalchemy
def fake(name):
    module, _, kind = name.rpartition('.')
    sys.modules.setdefault(module, types.ModuleType(module))
    made = type(kind, (), {'__module__': module})
    setattr(sys.modules[module], kind, made)
    return made()
"""

CLUSTER = "an object of a cluster"
SHARED = "an object shared with other processes"
DATABASE = "a database connection"

EXPRESSIONS = {
    "cf.ThreadPoolExecutor(1)": "a pool of threads",
    "cf.Future()": "a task",
    "asyncio.new_event_loop()": "an event loop",
    "mp.Process(target=print)": "a process",
    "mp.Lock()": SHARED,
    "mp.Event()": SHARED,
    "mp.Semaphore(2)": SHARED,
    "mp.Queue()": SHARED,
    "mp.SimpleQueue()": SHARED,
    "mp.Value('i')": SHARED,
    "mp.Array('d', 3)": SHARED,
    "sm.SharedMemory(create=True, size=10)": SHARED,
    "sm.ShareableList([1, 2])": SHARED,
    "mp.Pipe()[0]": "a network connection",
    "threading.Timer(100, print)": "a thread",
    "sqlite3.connect(':memory:')": DATABASE,
    "sqlalchemy.create_engine('sqlite://')": DATABASE,
    "psycopg.Connection.__new__(psycopg.Connection)": DATABASE,
    "fake('duckdb.DuckDBPyConnection')": DATABASE,
    "fake('pymysql.connections.Connection')": DATABASE,
    "boto3.client('s3', region_name='us-east-1')": "a client of AWS",
    "boto3.session.Session(region_name='us-east-1')": "a client of AWS",
    "fake('distributed.client.Client')": CLUSTER,
    "fake('distributed.client.Future')": CLUSTER,
    "fake('pyspark.core.context.SparkContext')": CLUSTER,
    "fake('pyspark.sql.session.SparkSession')": CLUSTER,
    "fake('pyspark.sql.dataframe.DataFrame')": CLUSTER,
    "fake('ray.actor.ActorHandle')": CLUSTER,
    "fake('ray.ObjectRef')": CLUSTER,
    "open('a.txt', 'w')": "an open file",
    "gzip.open('a.gz', 'w')": "an open file",
    "zipfile.ZipFile('a.zip', 'w')": "an open file",
    "tempfile.TemporaryDirectory()": "a temporary folder",
    "tempfile.NamedTemporaryFile()": "an open file",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """By expression; of each a second variable holds it in a list."""
    home = tmp_path_factory.mktemp("home")
    with Notebook(home) as notebook:
        notebook.say(HEAD)
        for number, expression in enumerate(EXPRESSIONS):
            notebook.say(f"v{number} = {expression}\nw{number} = [v{number}]")
        notebook.say("session = requests.Session(); session.headers['a'] = 'b'")
        notebook.save(home / "generation")
        notebook.say("for each in (v11, v12.shm): each.close(); each.unlink()")
    return entries(home / "generation")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_outside_the_kernel_is_named(
    saved: dict[str, dict[str, object]], expression: str
) -> None:
    number = [*EXPRESSIONS].index(expression)
    for name in (f"v{number}", f"w{number}"):
        found = saved[name]
        said = (found["saved"], found["code"], found["detail"])
        assert said == (False, "not-storable", EXPRESSIONS[expression])
    assert EXPRESSIONS[expression] in KINDS


def test_a_session_of_requests_is_saved(saved: dict[str, dict[str, object]]) -> None:
    """It has no connection of its own, and comes back with its headers and cookies."""
    assert (saved["session"]["saved"], saved["session"]["differs"]) == (True, [])


RAY = """
import ray
ray.init(num_cpus=1, include_dashboard=False, logging_level='ERROR', log_to_driver=False)
reference = ray.put([1, 2])
@ray.remote
class Counter:
    def up(self): return 1
actor = Counter.remote()
waiting = {'next': actor.up.remote()}
one = 1
"""


@pytest.mark.slow(seconds=30)
@pytest.mark.nightly(
    guard="tests/unit/sleep/test_unsavable.py::test_what_is_outside_the_kernel_is_named"
)
def test_no_reference_to_a_real_ray_is_saved_and_no_ray_is_started(tmp_path: Path) -> None:
    short = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets have long names
    environment = {"RAY_TMPDIR": str(short)}
    try:
        with Notebook(tmp_path, environment=environment) as notebook:
            notebook.say(RAY)
            notebook.save(tmp_path / "generation")
            notebook.say("ray.shutdown()")
        found = entries(tmp_path / "generation")
        for name in ("reference", "actor", "waiting"):
            assert (found[name]["saved"], found[name]["detail"]) == (False, CLUSTER), name
        with Notebook(tmp_path, environment=environment) as woken:
            lost = {each["name"] for each in woken.restore(tmp_path / "generation")["lost"]}
            assert {"reference", "actor", "waiting"} <= lost
            assert woken.say("print(one, ray.is_initialized())") == "1 False"
    finally:
        shutil.rmtree(short, ignore_errors=True)

"""What no sleep can save, by the full name of its class, in a person's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CLASSES: Final[Mapping[str, str]] = {
    "IPython itself": "IPython.core.interactiveshell.InteractiveShell",
    "a client of AWS": (
        "boto3.resources.base.ServiceResource boto3.session.Session botocore.client.BaseClient"
        " botocore.session.Session"
    ),
    "a coroutine": "builtins.coroutine",
    "a database connection": (
        "_duckdb.DuckDBPyConnection duckdb.DuckDBPyConnection duckdb.duckdb.DuckDBPyConnection"
        " mysql.connector.abstracts.MySQLConnectionAbstract psycopg.AsyncConnection"
        " psycopg.AsyncCursor psycopg.Connection psycopg.Cursor psycopg2.extensions.connection"
        " psycopg2.extensions.cursor pymongo.mongo_client.MongoClient"
        " pymongo.synchronous.mongo_client.MongoClient pymysql.connections.Connection"
        " redis.client.Redis snowflake.connector.connection.SnowflakeConnection"
        " sqlalchemy.engine.base.Connection sqlalchemy.engine.base.Engine"
        " sqlalchemy.orm.session.Session sqlite3.Connection sqlite3.Cursor"
    ),
    "a finalizer": "weakref.finalize",
    "a generator": "builtins.async_generator builtins.generator",
    "a network connection": (
        "aiohttp.client.ClientSession asyncio.base_events.Server asyncio.streams.StreamReader"
        " asyncio.streams.StreamWriter asyncio.transports.BaseTransport"
        " multiprocessing.connection._ConnectionBase socket.socket ssl.SSLSocket"
        " zmq.sugar.context.Context zmq.sugar.socket.Socket"
    ),
    "a pool of processes": (
        "concurrent.futures.process.ProcessPoolExecutor multiprocessing.pool.Pool"
    ),
    "a pool of threads": (
        "concurrent.futures.thread.ThreadPoolExecutor multiprocessing.pool.ThreadPool"
    ),
    "a pool of workers": "concurrent.futures._base.Executor ray.util.actor_pool.ActorPool",
    "a process": (
        "asyncio.subprocess.Process multiprocessing.process.BaseProcess subprocess.Popen"
    ),
    "a running function": "builtins.frame",
    "a task": (
        "_asyncio.Future _asyncio.Task asyncio.futures.Future asyncio.tasks.Task"
        " concurrent.futures._base.Future"
    ),
    "a temporary folder": "tempfile.TemporaryDirectory",
    "a thread": "threading.Thread",
    "a traceback": "builtins.traceback",
    "an event loop": "asyncio.events.AbstractEventLoop",
    "an object of a cluster": (
        "distributed.actor.Actor distributed.client.Client distributed.client.Future"
        " distributed.deploy.cluster.Cluster pyspark.broadcast.Broadcast"
        " pyspark.context.SparkContext pyspark.core.broadcast.Broadcast"
        " pyspark.core.context.SparkContext pyspark.core.rdd.RDD pyspark.rdd.RDD"
        " pyspark.sql.connect.dataframe.DataFrame pyspark.sql.connect.session.SparkSession"
        " pyspark.sql.dataframe.DataFrame pyspark.sql.session.SparkSession ray.ObjectRef"
        " ray.ObjectRefGenerator ray._raylet.BaseID ray.actor.ActorHandle"
        " ray.util.placement_group.PlacementGroup"
    ),
    "an object shared with other processes": (
        "multiprocessing.managers.BaseManager multiprocessing.managers.BaseProxy"
        " multiprocessing.managers.Token multiprocessing.queues.Queue"
        " multiprocessing.queues.SimpleQueue multiprocessing.shared_memory.ShareableList"
        " multiprocessing.shared_memory.SharedMemory"
        " multiprocessing.sharedctypes.SynchronizedBase multiprocessing.synchronize.Barrier"
        " multiprocessing.synchronize.Condition multiprocessing.synchronize.Event"
        " multiprocessing.synchronize.SemLock"
    ),
    "an open file": (
        "_io.BufferedRandom _io.BufferedReader _io.BufferedWriter _io.FileIO _io.TextIOWrapper"
        " bz2.BZ2File gzip.GzipFile h5py._hl.files.File lzma.LZMAFile mmap.mmap"
        " netCDF4._netCDF4.Dataset tarfile.TarFile tempfile.SpooledTemporaryFile"
        " tempfile._TemporaryFileWrapper zipfile.ZipFile"
    ),
    "an output stream": "ipykernel.iostream.OutStream",
}
"""What dill would save as something that is not what it was, or fails at late. A file, above all:
one that is opened again for writing would be emptied. A reference into a cluster is dead on another
machine, and loading some of them starts a cluster."""

UNSAVABLE: Final[Mapping[str, str]] = {
    name: kind for kind, names in _CLASSES.items() for name in names.split()
}

KINDS: Final = frozenset(_CLASSES)
"""The words. Pages show a kernel's only where they are among these."""


def cannot_be_saved(code: str, detail: str) -> str:
    """`a generator cannot be saved`, for the code and detail of a variable that is lost; empty for
    other reasons."""
    return f"{detail} cannot be saved" if code == "not-storable" and detail in KINDS else ""

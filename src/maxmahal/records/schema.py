"""The file of records: SQLite in WAL mode.

Why SQLite: a commit is atomic and, with ``synchronous = FULL``, on disk when it returns, so a kill or a power failure
costs at most the chunk that was being computed; several processes may write; it comes with Python and needs no server.
To share records, export them as Parquet.
"""

import errno
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from maxmahal.errors import MaxmahalError
from maxmahal.files import StorageError, opened, parse_json, read_limited, storage_errors, writable

FORMAT = "maxmahal-records-1"
FILE = "records.sqlite"
PATIENCE = 60.0  # seconds to wait for another process to finish its commit; one takes milliseconds
_MOST_BYTES = 1 << 30  # of a copy in memory; SQLite lets it grow no further
_SIDE_FILES = ("-wal", "-shm", "-journal")

_EVALUATIONS = """
CREATE TABLE IF NOT EXISTS evaluations (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, data TEXT NOT NULL, suite TEXT NOT NULL, seed INTEGER NOT NULL,
    samples INTEGER NOT NULL, body TEXT NOT NULL, finished INTEGER NOT NULL DEFAULT 0, plane BLOB
);
"""
_IDENTITIES = """
CREATE UNIQUE INDEX IF NOT EXISTS identities ON evaluations (
    name, data, suite, seed, samples, json_extract(body, '$.same.suite.norm'), json_extract(body, '$.radius')
);
"""
_TABLES = f"""
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
{_EVALUATIONS} {_IDENTITIES}
CREATE TABLE IF NOT EXISTS findings (
    evaluation INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (evaluation, name)
);
CREATE TABLE IF NOT EXISTS stages (
    evaluation INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    skipped TEXT NOT NULL, planned INTEGER, chunks INTEGER, PRIMARY KEY (evaluation, position)
);
CREATE TABLE IF NOT EXISTS chunks (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, number INTEGER NOT NULL, seconds REAL NOT NULL,
    forward INTEGER NOT NULL, backward INTEGER NOT NULL, queries INTEGER NOT NULL, device TEXT NOT NULL,
    PRIMARY KEY (evaluation, stage, number)
);
CREATE TABLE IF NOT EXISTS records (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, label INTEGER NOT NULL,
    clean_prediction INTEGER NOT NULL, prediction INTEGER NOT NULL, right_before INTEGER NOT NULL,
    broken INTEGER NOT NULL, right_share REAL NOT NULL, distortion REAL, iterations INTEGER, forward INTEGER,
    backward INTEGER, queries INTEGER, broken_8bit INTEGER, PRIMARY KEY (evaluation, stage, sample)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pictures (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, shape TEXT NOT NULL,
    clean BLOB NOT NULL, adversarial BLOB NOT NULL, PRIMARY KEY (evaluation, stage, sample)
);
CREATE TABLE IF NOT EXISTS points (
    evaluation INTEGER NOT NULL, stage INTEGER NOT NULL, sample INTEGER NOT NULL, x REAL NOT NULL, y REAL NOT NULL,
    PRIMARY KEY (evaluation, stage, sample)
) WITHOUT ROWID;
"""

# What the JSON in a column holds at least; "key?" may be missing, and "*" stands for every key.
_BODIES: dict[str, Any] = {
    "evaluations": {
        "target": str,
        "radius": float,
        "class_names": [str],
        "comparison?": bool,
        "notes?": [str],
        "chunk?": int,
        "block?": int,
        "model": {
            **dict.fromkeys(("kind?", "loss?", "backbone?", "table?"), str),
            **{"parameters?": int, "stochastic?": bool, "draws?": int},
            "settings?": {"data?": {"source?": str}, "model?": {"backbone?": str}, "train?": {"seed": int}},
        },
        "environment": {"versions?": {"*": str}, **dict.fromkeys(("device?", "command?", "commit?", "started?"), str)},
        "training": [{"epoch?": int, "train_seconds?": float, "test_accuracy?": float}],
        "same": {
            "model": str,
            "data": str,
            "suite": {
                **{"version": int, "about": str, "norm": str, "epsilon": str},
                "stages?": {"*": {"attack?": str}},
            },
        },
    },
    "stages": {
        **dict.fromkeys(("title", "kind", "threat", "scope", "origin"), str),
        **{"settings": dict, "counts": bool},
    },
    "findings": {
        **dict.fromkeys(("check", "title", "sentence", "remedy"), str),
        **{"flagged": bool, "adds": [str], "numbers": dict},
    },
    "pictures": [int],
}


class RecordsError(MaxmahalError, ValueError):
    """A folder of records cannot be read, or belongs to something else."""


def parse_body(table: str, text: str) -> Any:
    """The JSON in a row of a table, with the parts that it must have."""
    value = parse_json(text, finite=False)
    _check_parts(value, _BODIES[table], f"a row of {table}")
    return value


def _check_parts(value: Any, wanted: Any, where: str) -> None:
    if wanted is float:
        right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    else:
        kind = wanted if isinstance(wanted, type) else type(wanted)
        right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if not right:
        raise ValueError(f"{where} is not as it should be")
    if isinstance(wanted, list):
        for each in value:
            _check_parts(each, wanted[0], where)
    elif isinstance(wanted, dict):
        for key, part in wanted.items():
            name = key.removesuffix("?")
            for found in value if key == "*" else [name]:
                if found in value or name == key:
                    _check_parts(value.get(found), part, f"'{found}' in {where}")


def open_for_writing(folder: Path, *, wal: bool = True) -> sqlite3.Connection:
    """The file of records in ``folder``, which is created if there is none."""
    path = folder / FILE
    with record_errors(path):
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for ending in ("", *_SIDE_FILES):
            writable(folder / f"{FILE}{ending}", folder)
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        with _closed_on_error(connection):
            if wal:
                _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            _create_tables(connection)
            _check_tables(connection, path)
            _allow_several_threats(connection)
    return connection


def open_copy(path: Path) -> sqlite3.Connection:
    """The file of records ``path`` in memory: a snapshot, or empty tables if there is no file."""
    with record_errors(path):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        with _closed_on_error(connection):
            if path.exists():
                try:
                    with opened(path) as stream:
                        content = read_limited(stream, _MOST_BYTES)
                except OSError as error:
                    way_out = "divide it into more shards." if error.errno == errno.EFBIG else _WAY_OUT
                    raise RecordsError(f"Cannot read {path} ({error.strerror or error}); {way_out}") from error
                if not content:
                    raise ValueError("it is empty")
                connection.deserialize(content)
                _check_tables(connection, path)
            else:
                _create_tables(connection)
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        # In one transaction: no process may see tables without their format.
        format_row = f"INSERT OR IGNORE INTO about VALUES ('format', '{FORMAT}');"
        connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} {format_row} COMMIT;")


def _allow_several_threats(connection: sqlite3.Connection) -> None:
    """Files of earlier versions allow one threat per model and suite; copy the rows into a table without that limit."""
    known = "SELECT 1 FROM sqlite_master WHERE name = 'identities'"
    if connection.execute(known).fetchone():
        return
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute(known).fetchone():  # another process may have done it
        connection.execute("ALTER TABLE evaluations RENAME TO narrow")
        connection.execute(_EVALUATIONS)
        connection.execute("INSERT INTO evaluations SELECT * FROM narrow")
        connection.execute("DROP TABLE narrow")
        connection.execute(_IDENTITIES)
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Wait for other processes, which SQLite does not do here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """The file of records in ``folder``, checked for damage."""
    path = folder if folder.is_file() else folder / FILE
    if not path.is_file():
        raise RecordsError(f"There are no records in {folder}; `maxmahal evaluate ... --out {folder}` makes them.")
    with record_errors(path):
        if any(side.exists() and not side.is_file() for side in (path.with_name(path.name + e) for e in _SIDE_FILES)):
            raise ValueError("there is a device, a pipe or a folder beside it")
        connection = _connect_to_read(path)
        with _closed_on_error(connection):
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                if path == folder:  # a shard
                    raise ValueError("it is empty")
                raise RecordsError(f"{path} is empty; `maxmahal evaluate ... --out {folder}` fills it.")
            _check_tables(connection, path)
            if (answer := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise ValueError(answer)
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """As usual; in a read-only folder, without the files that guard against concurrent writes."""
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    with _closed_on_error(connection):
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            return connection
        except sqlite3.OperationalError:
            if os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists():
                raise
    connection.close()
    return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


_WAY_OUT = "restore a copy of it, or move it away and evaluate again."


@contextmanager
def record_errors(path: Path) -> Iterator[None]:
    """Errors of SQLite as one sentence that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if any(words in text for words in ("disk is full", "disk I/O", "readonly", "unable to open")):
            raise StorageError(
                f"Cannot write {path}: {text}. Free space or choose another folder; every finished chunk is intact."
            ) from error
        if "locked" in text:
            raise RecordsError(f"{path} has been locked by another process for {PATIENCE:g} s; wait for it.") from error
        raise RecordsError(f"{path} is not a file of records ({text}); {_WAY_OUT}") from error
    except sqlite3.DatabaseError as error:
        raise RecordsError(f"{path} is damaged or not a file of records ({error}); {_WAY_OUT}") from error
    except MaxmahalError:
        raise
    except ValueError as error:
        raise RecordsError(f"{path} is damaged ({error}); {_WAY_OUT}") from error


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Our tables and nothing else: a view can run for ever, and a trigger changes what is written."""
    for kind, name, made_by in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind == "table" and name in _types() and str(made_by).startswith("CREATE TABLE"):
            continue
        if kind != "index" or not (name == "identities" or str(name).startswith("sqlite_autoindex_")):
            raise RecordsError(f"{path} is not a file of records (it has a {kind} '{name}'); {_WAY_OUT}")
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone()
    row = connection.execute("SELECT value FROM about WHERE key = 'format'").fetchone() if known else None
    if row is None or row[0] != FORMAT:
        found = "no format" if row is None else f"'{row[0]}'"
        raise RecordsError(
            f"{path} holds records of another version of maxmahal ({found}, expected '{FORMAT}'); "
            "read it with that version, or choose another folder."
        )
    for table, columns in _types().items():
        wrong = " OR ".join(f"typeof({name}) NOT IN ({types})" for name, types in columns.items())
        if connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
            raise ValueError(f"a value in {table} has a wrong type")


@cache
def _types() -> dict[str, dict[str, str]]:
    """The types that each column of each table may have, in SQL."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: {
                name: f"'{declared.lower()}'" if needed or key else f"'{declared.lower()}', 'null'"
                for _, name, declared, needed, _, key in connection.execute(f"PRAGMA table_info({table})")
            }
            for table in tables
        }

"""One evaluation in shards: each process writes a file of its own, and merging them gives the records of one process.

A shard keeps its records in memory and replaces its file as a whole. So the file needs no locks, is consistent whenever
it is read, and works on every file system, such as those that many hosts share, on which SQLite's WAL does not.
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from maxmahal.errors import SettingsError
from maxmahal.files import user_path, write_atomically
from maxmahal.records import schema
from maxmahal.records.schema import FILE, RecordsError, open_for_reading, parse_body, record_errors
from maxmahal.records.store import Store, finding_from_json
from maxmahal.records.types import Finding, Identity
from maxmahal.settings import Table

T = TypeVar("T")
_COPIED = ("findings", "stages", "chunks", "records", "pictures", "points")
_PATTERN = re.compile(r"(\d{1,9})/(\d{1,9})")
_FILE_NAME = re.compile(r"shard-(\d{1,9})-of-(\d{1,9})\.sqlite")
_SHARE = 20  # of its time, a shard spends one part at most on writing its file
_NAMED = 50  # unfinished shards in a line


@dataclass(frozen=True)
class Shard:
    """The share of one process: of ``count`` shards, number ``index`` computes every ``count``-th chunk."""

    index: int
    """From 0; people count from 1."""
    count: int

    def __str__(self) -> str:
        return f"{self.index + 1}/{self.count}"

    @property
    def file(self) -> str:
        """The name of its file of records."""
        return f"shard-{self.index + 1}-of-{self.count}.sqlite"

    def has(self, chunk: int) -> bool:
        """Whether that chunk belongs to it."""
        return chunk % self.count == self.index

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> "Shard":
        """Of "2/8", or with "auto" from the variables of a Slurm array or of torchrun."""
        if text == "auto":
            return cls._of(environment)
        match = _PATTERN.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise SettingsError(
                f"--shard {text} is not a shard; write for example 1/8 for the first of eight, 8/8 for the last one."
            )
        return cls(int(match[1]) - 1, int(match[2]))

    @classmethod
    def _of(cls, environment: Mapping[str, str]) -> "Shard":
        def number(name: str) -> int:
            value = environment.get(name, "")
            if re.fullmatch(r"\d{1,9}", value) is None:
                raise SettingsError(f"--shard auto needs the variable {name}, which is '{value}'; write --shard 1/8.")
            return int(value)

        if "SLURM_ARRAY_TASK_ID" in environment:
            first, last = number("SLURM_ARRAY_TASK_MIN"), number("SLURM_ARRAY_TASK_MAX")
            index, count = number("SLURM_ARRAY_TASK_ID") - first, number("SLURM_ARRAY_TASK_COUNT")
            if first > 1 or count != last - first + 1 or count == 1 or "RANK" in environment:
                raise SettingsError(
                    "--shard auto needs a whole Slurm array, such as --array=0-7, and no RANK beside it; to repeat "
                    f"some of its tasks write --shard I/N, where task {first + index} of 0-7 is {first + index + 1}/8."
                )
        elif "RANK" in environment:
            index, count = number("RANK"), number("WORLD_SIZE")
        else:
            raise SettingsError(
                "--shard auto reads SLURM_ARRAY_TASK_ID or RANK, and neither is set; write for example --shard 1/8."
            )
        if not 0 <= index < count:
            raise SettingsError(
                f"--shard auto found number {index} of {count}, counted from 0, in the variables of "
                f"{'torchrun' if 'RANK' in environment else 'Slurm'}; correct them, or write for example --shard 1/8."
            )
        return cls(index, count)


class FileStore(Store):
    """Records in memory, written to ``path`` as a whole after a chunk and at the end."""

    def __init__(self, path: Path, option_defaults: Callable[[str], Table] = lambda _: {}) -> None:
        super().__init__(path.parent, option_defaults, connection=schema.open_copy(path))
        self.path = path
        self._changed, self._due = False, 0.0

    def close(self) -> None:
        """Write what is not written yet."""
        if self._changed:
            self._write()
        super().close()

    def _commit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        result = super()._commit(work)
        self._changed = True
        if time.monotonic() >= self._due:
            self._write()
        return result

    def _write(self) -> None:
        started = time.monotonic()
        content = self._connection.serialize()
        write_atomically(self.path, lambda temporary: temporary.write_bytes(content), self.path.parent)
        self._changed = False
        now = time.monotonic()
        self._due = now + _SHARE * (now - started)


def findings_of_first(folder: Path, shard: Shard, identity: Identity, same: Table) -> list[Finding]:
    """The findings of the first shard, if its file is there: they are the same for all shards."""
    first = folder / Shard(0, shard.count).file
    if not first.exists():
        return []
    with closing(FileStore(first)) as other:
        known = other.find(identity)
        return other.findings(known[0]) if known is not None and known[1]["same"] == same else []


def warnings_of(findings: Sequence[Finding]) -> dict[str, tuple[bool, tuple[str, ...]]]:
    """What decides which attacks are added, for each check."""
    return {finding.check: (finding.flagged, finding.adds) for finding in findings}


def merge_records(
    folder: str | Path, others: Sequence[str | Path] = (), option_defaults: Callable[[str], Table] = lambda _: {}
) -> list[str]:
    """Collect the shards of a folder, and the records and shards of ``others``, in its file of records.

    Merging again changes nothing. Returns one line per evaluation: that it is complete, or what is missing.
    """
    out = user_path(folder)
    sources = _sources(out)
    for other in map(user_path, others):
        if not (found := _sources(other)):
            raise RecordsError(f"There are no records in {other}; name a folder that holds records or shards.")
        sources += found
    if not sources:
        raise RecordsError(
            f"There are no records in {out}; `maxmahal evaluate ... --shard 1/8 --out {out}` makes some."
        )
    target = out / FILE
    # Not in WAL mode, if the file is not in it yet: that does not work on every file system.
    connection = schema.open_for_writing(out, wal=False)
    with closing(Store(out, option_defaults, connection=connection)) as store, record_errors(target), connection:
        connection.execute("BEGIN IMMEDIATE")  # one transaction: other processes wait for it, and an error undoes it
        for source in sources:
            if not source.samefile(target):
                _take(store, connection, source)
        counts = {int(match[2]) for source in sources if (match := _FILE_NAME.fullmatch(source.name))}
        return _states(connection, counts)


def _sources(folder: Path) -> list[Path]:
    shards = {path: match for path in folder.glob("shard-*.sqlite") if (match := _FILE_NAME.fullmatch(path.name))}
    ordered = sorted(shards, key=lambda path: (int(shards[path][2]), int(shards[path][1])))
    return [path for path in (folder / FILE, *ordered) if path.is_file()]


def _take(store: Store, connection: sqlite3.Connection, source: Path) -> None:
    """Copy the evaluations of a file; what is known already stays as it is."""
    with closing(open_for_reading(source)) as theirs:
        with record_errors(source):
            theirs.execute("BEGIN")  # one snapshot of all tables
            query = "SELECT id, name, data, suite, seed, samples, body, finished, plane FROM evaluations ORDER BY id"
            rows = [(*row, parse_body("evaluations", row[6])) for row in theirs.execute(query).fetchall()]
            query = "SELECT 1 FROM stages JOIN evaluations ON evaluation = id WHERE chunks NOT BETWEEN 0 AND samples"
            if theirs.execute(query).fetchone():
                raise ValueError("a stage has more chunks than samples")
        for number, name, data, suite, seed, samples, _, finished, plane, body in rows:
            identity = Identity(name, data, suite, seed, samples, body["same"]["suite"]["norm"], body["radius"])
            with record_errors(source):
                difference = _difference(store, (connection, theirs), identity, body, number)
            if difference:
                raise RecordsError(
                    f"{source} cannot be merged: its evaluation of '{identity.name}' differs ({difference}); move it "
                    "away, or repeat it with the settings of the others, beside the file of shard 1."
                )
            known = store.begin(identity, body)
            query = "UPDATE evaluations SET finished = MAX(finished, ?), plane = IFNULL(plane, ?) WHERE id = ?"
            connection.execute(query, (finished, plane, known))
            _copy(connection, theirs, number, known)
            store.count_samples(known)


def _difference(
    store: Store, connections: Sequence[sqlite3.Connection], identity: Identity, body: Table, number: int
) -> str:
    """Why an evaluation of another file is not a part of the one that is known by the same name."""
    known = store.find(identity)
    if known is None:
        return ""
    if difference := store.difference(known[1], body):
        return difference
    mine, theirs = ([each.get(key) for key in ("block", "chunk")] for each in (body, known[1]))
    if mine != theirs:
        return f"chunks of {mine[0] or mine[1]} samples and not of {theirs[0] or theirs[1]}"
    found = connections[1].execute("SELECT body FROM findings WHERE evaluation = ?", (number,))
    before, now = warnings_of(store.findings(known[0])), warnings_of([finding_from_json(text) for (text,) in found])
    if check := next((check for check in before if before[check] != now.get(check, before[check])), ""):
        return f"only one of them warns of {check}"
    query = "SELECT position, name, skipped FROM stages WHERE evaluation = ?"
    ours, others = (
        {position: stage for position, *stage in connection.execute(query, (each,))}
        for connection, each in zip(connections, (known[0], number), strict=True)
    )
    return next((f"the plan of stage {others[at][0]}" for at in others if ours.get(at, others[at]) != others[at]), "")


def _copy(connection: sqlite3.Connection, theirs: sqlite3.Connection, number: int, known: int) -> None:
    """The rows of one evaluation, under the number that it has here."""
    # Rows of a chunk that is known are known, too: a chunk is recorded as a whole.
    for table in _COPIED:
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        rows = theirs.execute(f"SELECT ?, {', '.join(columns[1:])} FROM {table} WHERE evaluation = ?", (known, number))
        connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)


def _states(connection: sqlite3.Connection, counts: set[int]) -> list[str]:
    """What is missing of each evaluation; ``counts`` are the numbers of shards of the files."""
    lines = []
    count = min(counts) if len(counts) == 1 else 1
    query = "SELECT id, name, suite, samples, finished FROM evaluations ORDER BY id"
    for number, name, suite, samples, finished in connection.execute(query).fetchall():
        query = "SELECT position, IFNULL(chunks, 0) FROM stages WHERE evaluation = ? AND skipped = ''"
        stages = dict(connection.execute(query, (number,)).fetchall())
        query = (
            "SELECT stage, number % ?, COUNT(*) FROM chunks JOIN stages ON chunks.evaluation = stages.evaluation "
            "AND stage = position AND skipped = '' AND number < stages.chunks WHERE chunks.evaluation = ? GROUP BY 1, 2"
        )
        done = {(stage, index): many for stage, index, many in connection.execute(query, (count, number))}
        planned = sum(stages.values())
        missing = planned - sum(done.values())
        state = "complete."
        if missing or not finished:
            what = f"{missing:,} of {planned:,} chunks" if missing else "the last stages"
            unfinished = (
                str(Shard(index, count))
                for index in range(min(count, max(stages.values(), default=0)))  # later ones have no chunks
                if any(done.get((stage, index), 0) < len(range(index, many, count)) for stage, many in stages.items())
            )
            some = ", ".join(islice(unfinished, _NAMED)) if missing and len(counts) == 1 else ""
            shards = f", of {some}" if some else ""
            state = f"{what} are missing{shards}; run the unfinished shards again, then merge again."
        lines.append(f"{name}, {suite}, {samples:,} samples: {state}")
    return lines

"""Writing records: an evaluation, its plan, its findings and, chunk by chunk, the result for each sample."""

import json
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from maxmahal.files import parse_json
from maxmahal.records.schema import FILE, RecordsError, open_for_writing, parse_body, record_errors
from maxmahal.records.types import ChunkRecords, Columns, Finding, Identity
from maxmahal.settings import Table, first_difference

T = TypeVar("T")
_ADD_CHUNK = "INSERT OR IGNORE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Store:
    """The records of a folder, open for writing. Every method is one transaction."""

    def __init__(
        self,
        folder: Path,
        option_defaults: Callable[[str], Table] = lambda _: {},
        *,
        connection: sqlite3.Connection | None = None,
    ) -> None:
        """``option_defaults`` are those of an attack's options: records of earlier versions lack the newer ones.

        ``connection`` is to tables elsewhere, such as in memory.
        """
        self.path = folder / FILE
        self._option_defaults = option_defaults
        self._connection = open_for_writing(folder) if connection is None else connection

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def begin(self, identity: Identity, body: Table) -> int:
        """The number of the evaluation, created if it does not exist; of an existing one "same" must not differ."""

        def work(connection: sqlite3.Connection) -> tuple[int, Table]:
            known = self.find(identity)
            if known is not None:
                return known
            text = json.dumps(body)
            query = "INSERT INTO evaluations (name, data, suite, seed, samples, body) VALUES (?, ?, ?, ?, ?, ?)"
            connection.execute(query, (*identity[:5], text))
            ((number,),) = connection.execute("SELECT last_insert_rowid()")
            return number, parse_body("evaluations", text)

        number, found = self._commit(work)
        self._refuse_other(identity, found, body)
        return number

    def body(self, evaluation: int) -> Table:
        """The description of an evaluation when it began."""
        ((text,),) = self._rows("SELECT body FROM evaluations WHERE id = ?", evaluation)
        body: Table = self._parse("evaluations", text)
        return body

    def check(self, identity: Identity, body: Table) -> None:
        """Raise what ``begin`` would raise, and write nothing."""
        if known := self.find(identity):
            self._refuse_other(identity, known[1], body)

    def find(self, identity: Identity) -> tuple[int, Table] | None:
        """The number and description of an evaluation, if it exists."""
        query = "SELECT id, body FROM evaluations WHERE (name, data, suite, seed, samples) = (?, ?, ?, ?, ?)"
        for number, text in self._rows(query, *identity[:5]):
            found: Table = self._parse("evaluations", text)
            # Not in SQL, which may read the last bit of a radius differently.
            if (found["same"]["suite"]["norm"], found["radius"]) == (identity.norm, identity.radius):
                return number, found
        return None

    def _refuse_other(self, identity: Identity, found: Table, body: Table) -> None:
        if difference := self.difference(found, body):
            raise RecordsError(
                f"{self.path.parent} already holds an evaluation of '{identity.name}' that differs ({difference}); "
                f"choose another --out, or another name with NAME=TARGET."
            )

    def difference(self, found: Table, body: Table) -> str:
        """In what the model, the data or the suite of two descriptions differ first; empty if they do not."""

        def filled(same: Table) -> Table:
            stages = same["suite"].get("stages", {}).items()
            full = {name: {**self._option_defaults(stage.get("attack", "")), **stage} for name, stage in stages}
            return {**same, "suite": {**same["suite"], "stages": full, "about": ""}}  # any description will do

        return first_difference(filled(found["same"]), filled(parse_json(json.dumps(body["same"]), finite=False)))

    def add_finding(self, evaluation: int, position: int, finding: Finding) -> None:
        """Record the result of a check; the first one counts."""
        row = (evaluation, position, finding.check, json.dumps(asdict(finding)))
        self._write_rows("INSERT OR IGNORE INTO findings VALUES (?, ?, ?, ?)", row)

    def adopt(self, evaluation: int, findings: Sequence[Finding]) -> None:
        """Replace all findings, and forget the attacks that were added for the earlier ones."""
        rows = [(evaluation, at, finding.check, json.dumps(asdict(finding))) for at, finding in enumerate(findings)]
        added = "SELECT position FROM stages WHERE evaluation = ?1 AND json_extract(body, '$.origin') = 'diagnosis'"

        def work(connection: sqlite3.Connection) -> None:
            for table in ("chunks", "records", "pictures", "points"):
                connection.execute(f"DELETE FROM {table} WHERE evaluation = ?1 AND stage IN ({added})", (evaluation,))
            connection.execute(f"DELETE FROM stages WHERE evaluation = ?1 AND position IN ({added})", (evaluation,))
            connection.execute("DELETE FROM findings WHERE evaluation = ?1", (evaluation,))
            connection.executemany("INSERT INTO findings VALUES (?, ?, ?, ?)", rows)

        self._commit(work)

    def findings(self, evaluation: int) -> list[Finding]:
        """The results of the checks so far."""
        rows = self._rows("SELECT body FROM findings WHERE evaluation = ? ORDER BY position", evaluation)
        with record_errors(self.path):
            return [finding_from_json(body) for (body,) in rows]

    def plan(self, evaluation: int, position: int, name: str, body: Table, skipped: str) -> None:
        """Record a stage of the plan; one already recorded must be the same except for its title."""
        text = json.dumps(body)

        def work(connection: sqlite3.Connection) -> Table:
            connection.execute(
                "INSERT OR IGNORE INTO stages VALUES (?, ?, ?, ?, ?, NULL, NULL)",
                (evaluation, position, name, text, skipped),
            )
            query = "SELECT body, skipped FROM stages WHERE evaluation = ? AND position = ?"
            body, reason = connection.execute(query, (evaluation, position)).fetchone()
            return {**parse_body("stages", body), "skipped": reason}

        # An older version may have used another title.
        known, planned = self._commit(work), {**parse_body("stages", text), "skipped": skipped}
        known["settings"] = {**self._option_defaults(known["kind"]), **known["settings"]}
        difference = first_difference({**known, "title": ""}, {**planned, "title": ""})
        if difference:
            raise RecordsError(
                f"{self.path.parent} holds another plan for stage {position + 1} ({difference}); "
                "continue with the same command and the same models, or choose another --out."
            )

    def size(self, evaluation: int, stage: int, samples: int | None, chunks: int) -> None:
        """Record how many samples, if that is known, and chunks a stage has."""
        query = "UPDATE stages SET planned = ?, chunks = ? WHERE evaluation = ? AND position = ?"
        self._write_rows(query, (samples, chunks, evaluation, stage))

    def count_samples(self, evaluation: int) -> None:
        """Record how many samples the stages have whose chunks were computed elsewhere."""
        query = (
            "UPDATE stages SET planned = MAX(IFNULL(planned, 0), (SELECT COUNT(*) FROM records WHERE "
            "records.evaluation = stages.evaluation AND records.stage = stages.position)) "
            "WHERE evaluation = ? AND chunks IS NOT NULL"
        )
        self._write_rows(query, (evaluation,))

    def add_empty_chunks(self, evaluation: int, stage: int, numbers: Collection[int], device: str) -> None:
        """Record chunks of which earlier stages left no sample."""
        self._write_rows(_ADD_CHUNK, *((evaluation, stage, number, 0.0, 0, 0, 0, device) for number in numbers))

    def done_chunks(self, evaluation: int, stage: int) -> set[int]:
        """The numbers of the recorded chunks."""
        query = "SELECT number FROM chunks WHERE evaluation = ? AND stage = ?"
        return {number for (number,) in self._rows(query, evaluation, stage)}

    def finished_stages(self, evaluation: int) -> list[str]:
        """The titles of the finished stages, in order."""
        query = (
            "SELECT body FROM stages WHERE evaluation = ? AND skipped = '' AND chunks = ("
            "SELECT COUNT(*) FROM chunks WHERE chunks.evaluation = stages.evaluation "
            "AND chunks.stage = stages.position) ORDER BY position"
        )
        return [self._parse("stages", body)["title"] for (body,) in self._rows(query, evaluation)]

    def worst_shares(self, evaluation: int, before: int | None = None) -> dict[int, float]:
        """For each sample, the smallest ``right_share`` of the counting stages, or of those ``before`` one."""
        query = (
            "SELECT sample, MIN(right_share) FROM records JOIN stages ON records.evaluation = stages.evaluation "
            "AND records.stage = stages.position WHERE records.evaluation = ? "
            "AND json_extract(stages.body, '$.counts') AND stages.position < ? GROUP BY sample"
        )
        return dict(self._rows(query, evaluation, sys.maxsize if before is None else before))

    def clean_predictions(self, evaluation: int) -> dict[int, tuple[int, float]]:
        """The prediction of each clean image, and how often it was correct."""
        query = "SELECT sample, prediction, right_share FROM records WHERE evaluation = ? AND stage = 0"
        return {sample: (prediction, share) for sample, prediction, share in self._rows(query, evaluation)}

    def add_chunk(self, evaluation: int, stage: int, number: int, chunk: ChunkRecords, device: str) -> bool:
        """Record a finished chunk; False if another process recorded it first."""
        where = evaluation, stage

        def work(connection: sqlite3.Connection) -> bool:
            row = (*where, number, *vars(chunk.rating).values(), device)
            if not connection.execute(_ADD_CHUNK, row).rowcount:
                return False
            place = ", ".join("?" * 15)
            connection.executemany(f"INSERT INTO records VALUES ({place})", _rows_of(chunk.columns, evaluation, stage))
            images = ((sample, json.dumps(both[0].shape), *map(_to_bytes, both)) for sample, *both in chunk.pictures)
            pictures, points = ([(*where, *row) for row in rows] for rows in (images, chunk.points))
            connection.executemany("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?)", pictures)
            connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?)", points)
            return True

        return self._commit(work)

    def keep_plane(self, evaluation: int, plane: bytes) -> bytes:
        """The plane of features in which all points are drawn: the first one recorded."""

        def work(connection: sqlite3.Connection) -> bytes:
            query = "UPDATE evaluations SET plane = ? WHERE id = ? AND plane IS NULL"
            connection.execute(query, (plane, evaluation))
            return bytes(connection.execute("SELECT plane FROM evaluations WHERE id = ?", (evaluation,)).fetchone()[0])

        return self._commit(work)

    def finish(self, evaluation: int) -> None:
        """Mark the evaluation as finished."""
        self._write_rows("UPDATE evaluations SET finished = 1 WHERE id = ?", (evaluation,))

    def _parse(self, table: str, text: str) -> Table:
        with record_errors(self.path):
            body: Table = parse_body(table, text)
        return body

    def _rows(self, query: str, *values: object) -> list[Any]:
        with record_errors(self.path):
            return self._connection.execute(query, values).fetchall()

    def _write_rows(self, query: str, *rows: tuple[object, ...]) -> None:
        self._commit(lambda connection: connection.executemany(query, rows))

    def _commit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction, or a part of an open one; the lock is taken at once, so that two writers wait."""
        if self._connection.in_transaction:
            with record_errors(self.path):
                return work(self._connection)
        with record_errors(self.path), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            return work(connection)


def finding_from_json(text: str) -> Finding:
    """A finding from its JSON."""
    values = parse_body("findings", text)
    return Finding(**{each.name: values[each.name] for each in fields(Finding)} | {"adds": tuple(values["adds"])})


def _rows_of(columns: Columns, evaluation: int, stage: int) -> Iterator[tuple[object, ...]]:
    """The rows of the table, which has the columns in the same order; what is not known is null."""
    values = [getattr(columns, field.name) for field in fields(Columns)]
    values = [np.full(len(columns), -1) if value is None else value for value in values]
    known = ([each if each >= 0 and each < np.inf else None for each in value.tolist()] for value in values)
    return zip([evaluation] * len(columns), [stage] * len(columns), *known, strict=True)


def _to_bytes(image: np.ndarray) -> bytes:
    return image.astype("<f4").tobytes()

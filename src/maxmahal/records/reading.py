"""Reading records: all evaluations of a folder, as plain values."""

import io
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from maxmahal.files import read_arrays, user_path
from maxmahal.records.schema import FILE, RecordsError, open_for_reading, parse_body, record_errors
from maxmahal.records.store import finding_from_json
from maxmahal.records.types import AND, Columns, Evaluation, Picture, Points, Rating, StageRecords

# Records of older versions: a suite of the paper's protocol is known by its description, two by their names.
_NOT_A_MEASURE = "not a measure of robustness"
_BY_NAME = ("paper-figure4", "spsa-sizes")


def read_evaluations(folders: str | Path | Sequence[str | Path]) -> list[Evaluation]:
    """Every evaluation in one or several folders, finished or not, in the order they began."""
    several = [folders] if isinstance(folders, str | Path) else folders
    return [evaluation for folder in several for evaluation in read_folder(user_path(folder))]


def read_folder(folder: Path, numbers: Sequence[int] | None = None) -> list[Evaluation]:
    """The evaluations of these numbers, in their order, or all."""
    with closing(open_for_reading(folder)) as connection, record_errors(folder / FILE):
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")  # a consistent view of a file that others may be writing
        rows = {row["id"]: row for row in connection.execute("SELECT * FROM evaluations ORDER BY id").fetchall()}
        return [_evaluation(connection, rows[number]) for number in (rows if numbers is None else numbers)]


def _evaluation(connection: sqlite3.Connection, row: sqlite3.Row) -> Evaluation:
    number, facts = row["id"], parse_body("evaluations", row["body"])
    same, suite = facts["same"], facts["same"]["suite"]
    stages = _stages(connection, number)
    findings = connection.execute("SELECT body FROM findings WHERE evaluation = ? ORDER BY position", (number,))
    kind, centers = "", np.empty((0, 2))
    if row["plane"] is not None:
        kind, _, _, centers = read_plane(row["plane"])
    return Evaluation(
        **{name: row[name] for name in ("name", "data", "suite", "seed", "samples")},
        **{name: facts[name] for name in ("target", "radius", "model", "training")},
        **{name: suite[name] for name in ("norm", "epsilon")},
        suite_version=suite["version"],
        suite_about=suite["about"],
        model_fingerprint=same["model"],
        data_fingerprint=same["data"],
        class_names=tuple(facts["class_names"]),
        environment={**facts["environment"], "device": _devices(connection, number, facts["environment"])},
        stages=tuple(stages.values()),
        findings=tuple(finding_from_json(text) for (text,) in findings),
        pictures=tuple(_pictures(connection, number, stages)),
        points=tuple(_points(connection, number, stages)),
        centers_xy=centers if len(centers) else None,
        plane=kind,
        finished=bool(row["finished"]) and all(stage.finished for stage in stages.values()),
        notes=tuple(facts.get("notes", ())),
        comparison=facts.get("comparison", row["suite"] in _BY_NAME or _NOT_A_MEASURE in suite["about"]),
    )


def _devices(connection: sqlite3.Connection, evaluation: int, begun: dict[str, Any]) -> str:
    """Where it began and where it was continued, which may be another machine."""
    found = connection.execute("SELECT DISTINCT device FROM chunks WHERE evaluation = ? ORDER BY device", (evaluation,))
    return AND.join(dict.fromkeys([begun.get("device", ""), *(device for (device,) in found)])).removeprefix(AND)


def _stages(connection: sqlite3.Connection, evaluation: int) -> dict[int, StageRecords]:
    query = "SELECT position, name, body, skipped, planned, chunks FROM stages WHERE evaluation = ? ORDER BY position"
    stages = {}
    for position, name, body, skipped, planned, chunks in connection.execute(query, (evaluation,)).fetchall():
        facts = parse_body("stages", body)
        done, *sums = connection.execute(
            "SELECT COUNT(*), TOTAL(seconds), IFNULL(SUM(forward), 0), IFNULL(SUM(backward), 0), "
            "IFNULL(SUM(queries), 0) FROM chunks WHERE evaluation = ? AND stage = ?",
            (evaluation, position),
        ).fetchone()
        stages[position] = StageRecords(
            name=name,
            **{key: facts[key] for key in ("title", "kind", "settings", "threat", "scope", "origin", "counts")},
            skipped=skipped,
            finished=bool(skipped) or (chunks is not None and done == chunks),
            planned=planned or 0,
            columns=_columns(connection, evaluation, position),
            rating=Rating(*sums),
        )
        if not math.isfinite(sums[0]):
            raise ValueError("a time in chunks is not finite")
        _find_rows(stages[min(stages)].columns, stages[position].columns.sample)  # every sample was seen clean
    return stages


def _find_rows(columns: Columns, samples: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Where these samples are; one that is missing is an error."""
    rows = np.searchsorted(columns.sample, samples)
    if len(rows) and (rows.max() >= len(columns) or not np.array_equal(columns.sample[rows], samples)):
        raise ValueError("a stage has samples that are not recorded where they should be")
    return rows


def _columns(connection: sqlite3.Connection, evaluation: int, stage: int) -> Columns:
    kinds = {field.name: "f8" if field.name in ("right_share", "distortion") else "i8" for field in fields(Columns)}
    known = ", ".join(f"IFNULL({name}, -1)" for name in kinds)
    query = f"SELECT {known} FROM records WHERE evaluation = ? AND stage = ? ORDER BY sample"
    rows = map(tuple, connection.execute(query, (evaluation, stage)))  # row by row: there may be millions
    table = np.fromiter(rows, dtype=list(kinds.items()))
    found = {name: table[name].copy() for name in kinds}
    found["distortion"][found["distortion"] < 0] = np.nan
    found |= {name: found[name] == 1 for name in ("right_before", "broken")}
    columns = Columns(**found)
    shares = columns.right_share
    if not ((shares >= 0) & (shares <= 1)).all() or np.isinf(columns.distortion).any():
        raise ValueError("a share or a distance in records is out of range")
    return columns


def _pictures(connection: sqlite3.Connection, evaluation: int, stages: dict[int, StageRecords]) -> list[Picture]:
    query = "SELECT stage, sample, shape, clean, adversarial FROM pictures WHERE evaluation = ? ORDER BY sample, stage"
    pictures, facts = [], ("label", "clean_prediction", "prediction", "distortion")
    for stage, sample, shape, clean, adversarial in connection.execute(query, (evaluation,)):
        if stage not in stages:
            raise ValueError(f"an image belongs to stage {stage}, which does not exist")
        columns = stages[stage].columns
        row = int(_find_rows(columns, np.array([sample]))[0])
        size = tuple(parse_body("pictures", shape))
        if len(size) != 3 or min(size) < 1 or not 4 * math.prod(size) == len(clean) == len(adversarial):
            raise ValueError(f"an image of sample {sample} has not the size that it promises")
        pictures.append(
            Picture(
                sample=sample,
                stage=stages[stage].name,
                **{name: getattr(columns, name)[row].item() for name in facts},
                clean=np.frombuffer(clean, dtype="<f4").reshape(size),
                adversarial=np.frombuffer(adversarial, dtype="<f4").reshape(size),
            )
        )
    return pictures


def _points(connection: sqlite3.Connection, evaluation: int, stages: dict[int, StageRecords]) -> list[Points]:
    found = []
    for position, stage in stages.items():
        query = "SELECT sample, x, y FROM points WHERE evaluation = ? AND stage = ? ORDER BY sample"
        rows = connection.execute(query, (evaluation, position)).fetchall()
        if rows:
            sample = np.array([row[0] for row in rows], dtype=np.int64)
            label = stage.columns.label[_find_rows(stage.columns, sample)]
            xy = np.array([row[1:] for row in rows], dtype=np.float64)
            found.append(Points(stage.name, sample, label, xy))
    return found


def read_plane(blob: bytes) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """How features were projected: in words, by an origin and two axes; and where the centers are in the plane."""
    try:
        arrays, _ = read_arrays(io.BytesIO(blob), ("kind", "origin", "axes", "centers"))
        kind, origin, axes, centers = (arrays[name] for name in ("kind", "origin", "axes", "centers"))
        if kind.dtype.kind != "U" or kind.ndim or any(each.dtype.kind != "f" for each in (origin, axes, centers)):
            raise ValueError("it has wrong types")
        if axes.shape != (*origin.shape, 2) or centers.shape != (len(centers), 2) or not np.isfinite(centers).all():
            raise ValueError("it has wrong shapes")
    except (ValueError, KeyError) as error:
        raise RecordsError(f"The plane of features in the records is damaged ({error}); evaluate again.") from error
    return str(kind), origin, axes, centers

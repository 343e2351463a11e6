"""Exports: every format reads back as what the records say, and a card claims no more than they know."""

import csv
import json
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from maxmahal.errors import ArgumentError
from maxmahal.records import Columns, Evaluation, Finding
from maxmahal.records.export import COLUMNS, robustbench_card, select, write_records, write_robustbench

sys.path.append(str(Path(__file__).resolve().parent.parent / "report"))  # its builder serves both folders
from small_evaluations import make_columns, make_evaluation, make_stage, make_stages

ARRAYS = ("sample", "label", "clean_prediction", "prediction", "right_before", "broken", "right_share")
COSTS = ("iterations", "forward", "backward", "queries")


def several() -> list[Evaluation]:
    """Two models; one has odd texts, awkward numbers and a column about bytes."""
    clean, pgd, *_ = make_stages()
    columns = replace(
        pgd.columns,
        right_share=np.array([1 / 3, 0.1 + 0.2, 0.0, *[1.0] * 7]),
        distortion=np.array([0.1, 1e-300, np.pi, np.inf, *[np.nan] * 6]),
        broken_8bit=np.array([1, 0, -1, *[0] * 7]),
    )
    odd = replace(pgd, columns=columns, settings={"targets": 'näher, "x"\n', "bound": float("inf"), "c": (1, 2.5)})
    return [make_evaluation(), make_evaluation(name='a,"b"\n50% µ', seed=3, stages=(clean, odd))]


def expected(evaluations: list[Evaluation]) -> list[dict[str, Any]]:
    """The rows, put together one value at a time."""
    rows = []
    for evaluation in evaluations:
        for stage in evaluation.stages:
            columns = stage.columns
            for place in range(len(columns)):
                row = {name: getattr(columns, name)[place].item() for name in ARRAYS}
                costs = {name: getattr(columns, name)[place].item() for name in COSTS}
                distortion = columns.distortion[place].item()
                eight = -1 if columns.broken_8bit is None else columns.broken_8bit[place].item()
                rows.append(
                    row
                    | {name: None if cost == -1 else cost for name, cost in costs.items()}
                    | {
                        "distortion": distortion if np.isfinite(distortion) else None,
                        "broken_8bit": None if eight == -1 else eight == 1,
                        "model": evaluation.name,
                        "target": evaluation.target,
                        "data": evaluation.data,
                        "suite": evaluation.suite,
                        "suite_version": evaluation.suite_version,
                        "norm": evaluation.norm,
                        "epsilon": evaluation.epsilon,
                        "seed": evaluation.seed,
                        "attack": stage.name,
                        "kind": stage.kind,
                        "threat": stage.threat,
                        "scope": stage.scope,
                        "origin": stage.origin,
                        "counts": stage.counts,
                        "model_fingerprint": evaluation.model_fingerprint,
                        "data_fingerprint": evaluation.data_fingerprint,
                        "device": "cpu",
                        "torch_version": "2.11.0",
                        "maxmahal_version": "0.4.0",
                    }
                )
    return rows


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of any format; CSV's texts turned into what their column holds."""
    if path.suffix == ".json":
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    turn = {"string": str, "int64": int, "float64": float, "bool": {"true": True, "false": False}.__getitem__}
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            {
                name: None if not text and COLUMNS[name] != "string" else turn[COLUMNS[name]](text)
                for name, text in row.items()
            }
            for row in csv.DictReader(stream)
        ]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_reads_back_exactly(tmp_path: Path, form: str) -> None:
    path = tmp_path / "new" / f"records.{form}"
    evaluations = several()
    write_records(evaluations, path, form)
    rows = read(path)
    assert all(list(row) == list(COLUMNS) for row in rows)
    settings = [json.loads(row.pop("settings")) for row in rows]
    wanted = expected(evaluations)
    assert rows == wanted
    assert [[type(row[name]) for name in sorted(row)] for row in rows] == [
        [type(row[name]) for name in sorted(row)] for row in wanted
    ]
    assert settings[-1] == {"targets": 'näher, "x"\n', "bound": "inf", "c": [1, 2.5]}
    assert [path] == list(path.parent.iterdir())


def test_every_column_of_the_records_is_exported() -> None:
    assert {field.name for field in fields(Columns)} <= set(COLUMNS)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_narrow_numbers_keep_their_values(tmp_path: Path, form: str) -> None:
    evaluation = several()[1]
    stage = evaluation.stages[1]
    narrow = {
        name: getattr(stage.columns, name).astype(np.float32 if COLUMNS[name] == "float64" else np.int32)
        for name in COLUMNS
        if COLUMNS[name] in ("float64", "int64") and hasattr(stage.columns, name)
    }
    small = replace(evaluation, stages=(replace(stage, columns=replace(stage.columns, **narrow)),))
    write_records([small], tmp_path / f"records.{form}", form)
    rows = read(tmp_path / f"records.{form}")
    assert [{**row, "settings": None} for row in rows] == [{**row, "settings": None} for row in expected([small])]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_nothing_is_an_empty_table(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"records.{form}"
    write_records([], path, form)
    assert read(path) == []
    if form == "csv":
        assert path.read_text(encoding="utf-8") == ",".join(COLUMNS) + "\n"
    if form == "parquet":
        assert parquet.read_schema(path).names == list(COLUMNS)


def test_a_machine_that_is_not_known_is_null(tmp_path: Path) -> None:
    write_records([make_evaluation(environment={})], tmp_path / "records.json", "json")
    row = read(tmp_path / "records.json")[0]
    assert (row["device"], row["torch_version"], row["maxmahal_version"]) == (None, None, None)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be written as 'parket'; did you mean 'parquet'"):
        write_records([make_evaluation()], tmp_path / "records", "parket")
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ArgumentError, match=r"pip install 'maxmahal\[parquet\]'"):
        write_records([make_evaluation()], tmp_path / "records.parquet", "parquet")
    assert list(tmp_path.iterdir()) == []


def counted(evaluations: list[Evaluation]) -> dict[tuple[str, str], list[int]]:
    """Which samples are left, by model and attack."""
    return {(each.name, stage.name): stage.columns.sample.tolist() for each in evaluations for stage in each.stages}


def test_select_by_each_thing_and_by_all_of_them() -> None:
    both = [make_evaluation(), make_evaluation(name="sce", stages=make_stages()[:2])]
    assert set(counted(select(both, model="sce"))) == {("sce", "clean"), ("sce", "pgd10-un-8")}
    assert counted(select(both, attack="square")) == {("mmc", "square"): [3, 4, 5, 6, 7, 8]}
    assert counted(select(both, attack="pgd10-un-8", broken=True)) == {
        ("mmc", "pgd10-un-8"): [0, 1, 2],  # and 9 is wrong as well, but was so before
        ("sce", "pgd10-un-8"): [0, 1, 2],
    }
    assert counted(select(both, model="sce", broken=False, sample=4)) == {("sce", "pgd10-un-8"): [4]}
    assert counted(select(both, model="mmc", attack="square", broken=True, sample=3)) == {("mmc", "square"): [3]}
    assert select(both, sample=99) == []
    assert counted(select(both)) == {key: rows for key, rows in counted(both).items() if rows}


def test_what_was_wrong_from_the_start_is_no_attacks_doing() -> None:
    evaluation = make_evaluation()
    for broken in (True, False):
        chosen = select([evaluation], broken=broken)
        assert all(stage.columns.right_before.all() for stage in chosen[0].stages)
        assert "clean" not in {stage.name for stage in chosen[0].stages}
    assert counted(select([evaluation], attack="clean", broken=True)) == {("mmc", "clean"): [9]}


def test_a_card_of_the_papers_protocol_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"does not measure robustness.* evaluate with autoattack or strict"):
        robustbench_card(replace(make_evaluation(), comparison=True))


def test_select_keeps_a_row_together() -> None:
    evaluation = several()[1]
    chosen = select([evaluation], attack="pgd10-un-8", sample=1)[0].stages[0].columns
    assert chosen.right_share.tolist() == [0.1 + 0.2]
    assert chosen.distortion.tolist() == [1e-300]
    assert chosen.broken_8bit is not None
    assert chosen.broken_8bit.tolist() == [0]


def test_select_refuses_what_is_not_there() -> None:
    with pytest.raises(ArgumentError, match="no model 'mcm'; did you mean 'mmc'"):
        select([make_evaluation()], model="mcm")
    with pytest.raises(ArgumentError, match="no attack 'squares'; did you mean 'square'"):
        select([make_evaluation()], attack="squares")


def test_a_card_of_another_suite_is_an_external_evaluation() -> None:
    assert robustbench_card(make_evaluation()) == {
        "link": None,
        "name": "mmc",
        "authors": None,
        "additional_data": False,
        "number_forward_passes": 1,
        "dataset": "cifar10",
        "venue": None,
        "architecture": "resnet32",
        "eps": "8/255",
        "clean_acc": "90.00",
        "reported": None,
        "autoattack_acc": None,
        "external": "50.00",
        "footnote": "50.00% is the worst case per sample over every attack of maxmahal's suite standard "
        "(version 1, seed 0, 10 samples).",
        "unreliable": None,
    }


def test_a_card_knows_less_of_a_stranger() -> None:
    card = robustbench_card(make_evaluation(model={"kind": "module", "settings": {}, "stochastic": False}))
    assert (card["additional_data"], card["number_forward_passes"], card["architecture"]) == (None, None, None)
    noisy = {**make_evaluation().model, "stochastic": True}
    assert robustbench_card(make_evaluation(model=noisy))["number_forward_passes"] is None
    elsewhere = {**make_evaluation().model, "settings": {"data": {"source": "more.npz"}}}
    assert robustbench_card(make_evaluation(model=elsewhere))["additional_data"] is None


def test_autoattack_s_number_is_autoattack_s_alone() -> None:
    clean, pgd, square, *_ = make_stages()
    uncounted = replace(clean, counts=False)
    pure = robustbench_card(make_evaluation(suite="autoattack", stages=(uncounted, pgd, square)))
    assert (pure["autoattack_acc"], pure["external"]) == ("50.00", None)
    added = make_stage("apgd", make_columns([4, 9]), origin="diagnosis")
    mended = robustbench_card(make_evaluation(suite="autoattack", stages=(clean, pgd, square, added)))
    assert (mended["autoattack_acc"], mended["external"]) == ("50.00", "40.00")
    partly = robustbench_card(make_evaluation(suite="autoattack"))  # its last stage was skipped
    assert (partly["autoattack_acc"], partly["external"]) == (None, "50.00")


@pytest.mark.parametrize(("flagged", "unreliable"), [(True, True), (False, False)])
def test_what_the_diagnosis_saw_is_on_the_card(flagged: bool, unreliable: bool) -> None:
    finding = Finding("zero-gradients", "Gradients", flagged, "Seen.", "", adds=("straight-through",))
    assert robustbench_card(make_evaluation(findings=(finding,)))["unreliable"] is unreliable


def test_no_card_before_the_end() -> None:
    with pytest.raises(ArgumentError, match="mmc is not finished"):
        robustbench_card(make_evaluation(finished=False))


def test_cards_lie_where_robustbench_keeps_them(tmp_path: Path) -> None:
    path = write_robustbench(make_evaluation(), tmp_path)
    assert path == tmp_path / "cifar10" / "Linf" / "mmc.standard.v1.eps8_255.seed0.10samples.json"
    assert json.loads(path.read_text(encoding="utf-8")) == robustbench_card(make_evaluation())
    away = write_robustbench(make_evaluation(name="../x", data="/etc/own.npz"), tmp_path)
    assert away == tmp_path / "_etc_own.npz" / "Linf" / "_._x.standard.v1.eps8_255.seed0.10samples.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "sce"},
        {"data": "cifar100"},
        {"norm": "L2"},
        {"suite": "autoattack"},
        {"suite_version": 2},
        {"epsilon": "4/255"},
        {"seed": 1},
        {"samples": 9},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("suite", ["standard", "autoattack"])
def test_every_evaluation_has_a_card_of_its_own(tmp_path: Path, suite: str, changes: dict[str, Any]) -> None:
    other = {"suite": suite} | ({"suite": "quick"} if changes == {"suite": suite} else changes)
    paths = [write_robustbench(make_evaluation(**each), tmp_path) for each in ({"suite": suite}, other)]
    assert len(set(paths)) == len(list(tmp_path.rglob("*.json"))) == 2


def test_a_card_is_never_lost_to_another(tmp_path: Path) -> None:
    path = write_robustbench(make_evaluation(), tmp_path)
    before = path.read_bytes()
    assert write_robustbench(make_evaluation(), tmp_path) == path
    retrained = make_evaluation(model_fingerprint="another", stages=make_stages()[:2])
    with pytest.raises(ArgumentError, match=r"10samples\.json exists already with other content; move it"):
        write_robustbench(retrained, tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("skipped", [True, False], ids=["skipped", "only what does not count"])
def test_no_card_where_no_attack_ran(skipped: bool) -> None:
    clean, pgd, square, distance, _ = make_stages()
    none = make_columns([], [])
    others = [replace(each, skipped="It needs gradients.", columns=none) for each in (pgd, square)]
    stages = (clean, *others) if skipped else (clean, distance)
    with pytest.raises(ArgumentError, match=r"No counting attack of autoattack ran on mmc, .* such as strict"):
        robustbench_card(make_evaluation(suite="autoattack", stages=stages))

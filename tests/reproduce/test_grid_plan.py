"""Plans: what the disk says is done, partly done or missing, and how long the rest takes."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.errors import CheckpointError, DataNotice, SettingsError
from maxmahal.evaluate.durations import duration
from maxmahal.evaluate.suite import load_suite
from maxmahal.records.schema import RecordsError
from maxmahal.reproduce import GridOutcome, GridPlan, PlanCell, load_grid, make_plan, plan_lines
from maxmahal.reproduce.plan import missing_data
from maxmahal.reproduce.runner import Deadline, parse_budget
from maxmahal.reproduce.states import CellState, evaluation_seconds, speeds, training_seconds
from maxmahal.train import load_settings
from maxmahal.train.checkpoint import save_tensors

Undisturbed = tuple[GridPlan, GridOutcome]


@pytest.fixture
def out(undisturbed: Undisturbed, tmp_path: Path) -> Path:
    """A copy of what a whole call made."""
    return Path(shutil.copytree(undisturbed[0].out, tmp_path / "out"))


def cells(undisturbed: Undisturbed, out: Path, **options: object) -> dict[str, PlanCell]:
    plan = make_plan(undisturbed[0].grid, out, **options)  # type: ignore[arg-type]
    return {cell.key: cell for cell in plan.cells}


def test_everything_is_missing_then_everything_is_done(undisturbed: Undisturbed) -> None:
    before, outcome = undisturbed
    assert {cell.state.kind for cell in before.cells} == {"missing"}
    assert {cell.look().kind for cell in before.cells} == {"done"}
    after = make_plan(before.grid, before.out)
    assert after.seconds == 0.0 < before.seconds
    assert (outcome.failed, outcome.left) == ({}, [])
    assert plan_lines(after)[-1] == "In all: everything is done."


def test_trainings_come_first(undisturbed: Undisturbed) -> None:
    keys = [cell.key for cell in undisturbed[0].cells]
    assert keys == ["sce--training", "mmc--training", "sce--short-30", "mmc--short-30"]


def test_a_training_is_half_done(undisturbed: Undisturbed, out: Path) -> None:
    run = out / "models" / "sce"
    (run / "result.json").unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines()
    entry = json.loads(lines[3])
    # The last line was torn by a kill, and does not count.
    (run / "metrics.jsonl").write_text("\n".join([*lines[:3], json.dumps({**entry, "train_seconds": 400.0}), '{"epo']))
    with pytest.warns(DataNotice, match="its last line is incomplete"):
        cell = cells(undisturbed, out)["sce--training"]
    assert (cell.state.kind, cell.state.detail) == ("half", "epoch 4 of 6")
    assert cell.seconds == pytest.approx(speeds()["start"]["cpu"] + 200.0)  # as slow as it was so far
    with pytest.warns(DataNotice):
        plan = make_plan(undisturbed[0].grid, out)
    assert "partly done (epoch 4 of 6)" in "\n".join(plan_lines(plan))
    shutil.rmtree(run)
    assert cells(undisturbed, out)["sce--training"].state == CellState("missing")


@pytest.mark.parametrize("trained_on", ["cuda", "nobody knows"])
def test_speed_measured_elsewhere_is_no_plan_for_this_device(
    undisturbed: Undisturbed, out: Path, trained_on: str
) -> None:
    run = out / "models" / "sce"
    (run / "result.json").unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines()[:4]
    lines[3] = json.dumps({**json.loads(lines[3]), "train_seconds": 0.004})
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    if trained_on == "cuda":
        save_tensors(run / "state.safetensors", {"random.cuda": torch.zeros(1)}, {})
    else:
        (run / "state.safetensors").unlink()
    start, whole = speeds()["start"]["cpu"], undisturbed[0].cells[0].seconds
    assert cells(undisturbed, out)["sce--training"].seconds == pytest.approx(start + (whole - start) / 3)
    on_gpu = cells(undisturbed, out, device="cuda")["sce--training"].seconds
    measured = on_gpu == pytest.approx(speeds()["start"]["cuda"] + 0.002, abs=1e-6)
    assert measured == (trained_on == "cuda")


def test_data_is_asked_for_only_where_something_is_left_to_do(undisturbed: Undisturbed, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text('[[model]]\nname = "digits-sce"\n[[model]]\nname = "mnist-sce"\npreset = "digits-sce"\n')
    assert make_plan(load_grid(path), tmp_path / "out", data_dir=tmp_path).missing_data == ""
    path.write_text(path.read_text() + 'set = ["data.source=cifar100"]\n[[model]]\nname = "cifar10-sce"\n')
    missing = make_plan(load_grid(path), tmp_path / "out", data_dir=tmp_path).missing_data
    assert missing.startswith(f"cifar100 and cifar10 are not in {tmp_path}; run `maxmahal data fetch cifar100 --data-")
    folder = undisturbed[0].out
    plan = make_plan(undisturbed[0].grid, folder, data_dir=tmp_path)
    assert plan.missing_data == missing_data(["digits"], tmp_path) == ""


def test_what_is_done_needs_no_data(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text('[[model]]\nname = "cifar10-sce"\n')
    run = tmp_path / "out" / "models" / "cifar10-sce"
    run.mkdir(parents=True)
    assert make_plan(load_grid(path), tmp_path / "out", data_dir=tmp_path).missing_data
    (run / "result.json").write_text("{}")
    assert not make_plan(load_grid(path), tmp_path / "out", data_dir=tmp_path).missing_data


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (40, "40 s"),
        (300, "5 min"),
        (89 * 60, "89 min"),
        (117 * 60, "1.9 h"),
        (2 * 3600, "2 h"),
        (9.99 * 3600, "10 h"),
        (11 * 3600, "11 h"),
        (40 * 3600, "1.7 days"),
        (30 * 86400, "30 days"),
    ],
)
def test_times_are_told_in_units_that_people_read(seconds: float, text: str) -> None:
    assert duration(float(seconds)) == text


def test_an_evaluation_is_half_done(undisturbed: Undisturbed, out: Path) -> None:
    connection = sqlite3.connect(out / "records" / "records.sqlite")
    number = connection.execute("SELECT id FROM evaluations WHERE name = 'mmc'").fetchone()[0]
    connection.execute("UPDATE evaluations SET finished = 0 WHERE id = ?", (number,))
    connection.execute("DELETE FROM chunks WHERE evaluation = ? AND stage = 2 AND number = 1", (number,))
    connection.commit()
    connection.close()
    found = cells(undisturbed, out)
    assert found["sce--short-30"].state.kind == "done"
    assert found["mmc--short-30"].state.kind == "half"
    assert found["mmc--short-30"].state.detail == "2 of 3 stages"


def test_what_another_version_of_the_suite_measured_is_said_and_never_gone_on_with(
    undisturbed: Undisturbed, out: Path
) -> None:
    change = "UPDATE evaluations SET body = json_set(body, '$.same.suite.version', 7), finished = ? WHERE name = 'mmc'"
    for finished in (1, 0):
        connection = sqlite3.connect(out / "records" / "records.sqlite")
        connection.execute(change, (finished,))
        connection.commit()
        connection.close()
        if finished:
            assert cells(undisturbed, out)["mmc--short-30"].state.kind == "done"
            lines = "\n".join(plan_lines(make_plan(undisturbed[0].grid, out)))
            assert lines.count("done by version 7 of the suite; use another --out for version 1") == 1
    with pytest.raises(RecordsError, match=r"mmc was evaluated in part under version 7 of short, which is 1 now"):
        cells(undisturbed, out)


def test_other_samples_or_another_suite_are_another_evaluation(undisturbed: Undisturbed, out: Path) -> None:
    path = undisturbed[0].out.parent / "other.toml"
    text = (undisturbed[0].out.parent / "small.toml").read_text()
    path.write_text(text.replace("limit = 30", "limit = 31"))
    states = {cell.key: cell.state.kind for cell in make_plan(load_grid(path), out).cells}
    assert states == {
        "sce--training": "done",
        "mmc--training": "done",
        "sce--short-31": "missing",
        "mmc--short-31": "missing",
    }


def test_an_evaluation_of_a_model_that_is_gone_or_was_trained_anew_is_not_done(
    undisturbed: Undisturbed, out: Path
) -> None:
    shutil.copy(out / "models" / "mmc" / "last.safetensors", out / "models" / "sce" / "last.safetensors")
    shutil.rmtree(out / "models" / "mmc")
    states = {key: cell.state.kind for key, cell in cells(undisturbed, out).items()}
    assert states["sce--short-30"] == states["mmc--short-30"] == states["mmc--training"] == "missing"


def test_two_groups_of_transfer_are_two_cells_and_no_two_cells_share_a_name(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d")
    text = "".join(f'[[model]]\nname = "{name}"\npreset = "digits-sce"\n' for name in names)
    for pair in (["a", "b"], ["c", "d"]):
        text += f'[[evaluation]]\nsuite = "quick"\ntransfer = true\nmodels = {json.dumps(pair)}\n'
    path = tmp_path / "grid.toml"
    path.write_text(text)
    keys = [cell.key for cell in make_plan(load_grid(path), tmp_path / "out").cells]
    assert keys[-2:] == ["transfer-a+b--quick", "transfer-c+d--quick"]
    path.write_text(text.replace('"a"', '"x y"').replace('"b"', '"x-y"'))
    with pytest.raises(SettingsError, match="two of its cells are called 'x-y--training'"):
        make_plan(load_grid(path), tmp_path / "out")


def test_other_settings_are_refused_with_the_first_difference(undisturbed: Undisturbed, out: Path) -> None:
    with pytest.raises(CheckpointError, match=r"models/sce .*train.lr was 0.05 and is now 0.25.*choose another --out"):
        make_plan(undisturbed[0].grid, out, overrides=["train.lr=0.25"])


def test_settings_that_an_older_version_did_not_write_stand_at_their_defaults(
    undisturbed: Undisturbed, out: Path
) -> None:
    settings = out / "models" / "sce" / "settings.toml"
    lines = settings.read_text().splitlines()
    assert {"momentum = 0.9", "warmup = 0.05"} < set(lines)
    settings.write_text("\n".join(line for line in lines if not line.startswith(("about", "momentum"))))
    assert cells(undisturbed, out)["sce--training"].state.kind == "done"
    settings.write_text("\n".join(line for line in lines if not line.startswith("warmup")))
    with pytest.raises(CheckpointError, match=r"train.warmup was 0.0 and is now 0.05"):
        make_plan(undisturbed[0].grid, out)


def test_the_best_checkpoint_is_a_subject_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    text = (
        '[[model]]\nname = "digits-at-mmc"\nset = ["data.validation={}"]\ncheckpoints = ["last", "best"]\n'
        '[[evaluation]]\nsuite = "quick"\n[[evaluation]]\nsuite = "strict"\ncheckpoints = ["last"]\n'
    )
    path.write_text(text.format(100))
    plan = make_plan(load_grid(path), tmp_path / "out")
    assert {name: [cell.column for cell in cells] for name, cells in plan.rows.items()} == {
        "digits-at-mmc": ["training", "quick", "strict"],
        "digits-at-mmc-best": ["quick"],
    }
    assert plan.rows["digits-at-mmc-best"][0].needs == ("digits-at-mmc",)
    target = tmp_path / "out" / "models" / "digits-at-mmc" / "best.safetensors"
    assert plan.rows["digits-at-mmc-best"][0].job.arguments["targets"] == {"digits-at-mmc-best": str(target)}
    path.write_text(text.format(0))
    with pytest.raises(SettingsError, match="'best'"):
        make_plan(load_grid(path), tmp_path / "out")


def test_transfer_takes_all_models_in_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    models = '[[model]]\nname = "digits-sce"\n[[model]]\nname = "digits-mmc"\n'
    text = f'{models}[[evaluation]]\nsuite = "quick"\ntransfer = true\n'
    path.write_text(text)
    cell = make_plan(load_grid(path), tmp_path / "out").cells[-1]
    assert (cell.row, cell.column) == ("transfer digits-sce+digits-mmc", "quick")
    assert cell.needs == ("digits-sce", "digits-mmc")
    path.write_text(text + '[[evaluation]]\nsuite = "quick"\n')
    with pytest.raises(SettingsError, match="with transfer and without"):
        make_plan(load_grid(path), tmp_path / "out")


def test_minutes_follow_the_table() -> None:
    settings, missing = load_settings("cifar10-sce"), CellState("missing")
    start = speeds()["start"]["cuda"]
    expected = 200 * 50_000 / speeds()["training"]["cuda"]["standard"]
    seconds = training_seconds(settings, missing, "cuda", None)
    assert seconds == pytest.approx(start + expected * speeds()["cost"][settings.model.backbone])
    deep = training_seconds(load_settings("cifar10-sce-resnet110"), missing, "cuda", None)
    assert deep - start == pytest.approx(3 * (seconds - start))
    trained = load_settings("cifar10-at-un-sce", ["data.limit=7000", "train.epochs=2", "method.steps=21"])
    expected = 2 * 7000 / speeds()["training"]["cpu"]["adversarial"] * 2 * speeds()["cost"]["resnet32"]
    assert training_seconds(trained, missing, "cpu", None) == pytest.approx(speeds()["start"]["cpu"] + expected)
    strict = load_suite("strict")
    whole = evaluation_seconds(settings, strict, 10_000, missing, "cuda")
    half = evaluation_seconds(settings, strict, 10_000, CellState("half", share=0.5), "cuda")
    assert whole - start == pytest.approx(2 * (half - start))
    assert whole < evaluation_seconds(trained, strict, 10_000, missing, "cuda")
    assert evaluation_seconds(settings, load_suite("quick"), 10_000, missing, "cuda") < whole
    assert evaluation_seconds(settings, strict, 10_000, CellState("done"), "cuda") == 0.0


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_budgets_read_as_they_are_written(hours: int, minutes: int, seconds: int) -> None:
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if count]
    total = 3600 * hours + 60 * minutes + seconds
    if total:
        assert parse_budget("".join(parts)) == total
        deadline = Deadline.after(float(total))
        assert deadline.workers < deadline.stop < deadline.end


@pytest.mark.parametrize("text", ["", "8", "0m", "m", "-5m", "5 minutes", "1m1h", "1.5h"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a time; write for example 90s, 8m or 1h30m"):
        parse_budget(text)

"""Summaries say what the records say: verdicts, columns, paired tests, after a trip through a small file."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_evaluations_helpers import made_up, stage_records

from maxmahal.errors import ArgumentError, CheckpointError
from maxmahal.evaluate import Evaluation, RecordsError, compare, give_verdict
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.records import Finding
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.train import RunFolder, Settings, load_model, save_model, train_model
from paper.summaries import (
    Summary,
    pair_clean,
    pair_near,
    pair_stage,
    pair_up,
    read_run,
    read_summary,
    summarise,
    summarise_run,
    write_summary,
)


def evaluation(seed: int, count: int = 203, **changes: object) -> Evaluation:
    """An attack on all samples, one on those still correct, one that does not count and measures distances."""
    rng = np.random.default_rng(seed)
    clean = (rng.random(count) < 0.9).astype(float)
    first = clean * (rng.random(count) < 0.7)
    left = np.flatnonzero(first >= 0.5)
    second = (rng.random(len(left)) < 0.8).astype(float)
    far = stage_records("cw-un", np.zeros(count), kind="carlini", threat="", counts=False)
    columns = replace(far.columns, distortion=rng.random(count), right_before=clean >= 0.5)
    made = made_up(
        stage_records("clean", clean, counts=False, kind="clean", threat=""),
        stage_records("pgd", first),
        stage_records("square", second, left, scope="survivors", kind="square"),
        replace(far, columns=columns),
        stage_records("nearest", [], skipped="It has no centers."),
        findings=(Finding("zero-gradients", "Zero", True, "Some are zero.", "", ()),),
        name=f"model-{seed}",
    )
    return replace(made, **changes)


def there_and_back(made: Evaluation, folder: Path) -> Summary:
    path = folder / f"{made.name}.json"
    write_summary(path, summarise(made))
    return read_summary(path)


def test_a_summary_gives_the_verdict_of_its_records(tmp_path: Path) -> None:
    made = evaluation(0)
    verdict, summary = give_verdict(made), there_and_back(made, tmp_path)
    assert (summary.clean, summary.robust, summary.trust) == (verdict.clean, verdict.robust, verdict.trust)
    assert [each.name for each in summary.stages] == [each.stage.name for each in verdict.stages]
    for ours, theirs in zip(summary.stages, verdict.stages, strict=True):
        assert (ours.accuracy, ours.broke) == (theirs.accuracy, theirs.broke)
        assert (ours.samples, ours.skipped) == (len(theirs.stage.columns), theirs.stage.skipped)


def test_classes_that_are_never_answered_are_counted(tmp_path: Path) -> None:
    clean = stage_records("clean", np.array([1.0, 0, 0, 0, 1, 0.4]), counts=False, kind="clean", threat="")
    columns = replace(clean.columns, label=np.array([7, 7, 2, 2, 0, 3]))
    summary = there_and_back(made_up(replace(clean, columns=columns)), tmp_path)
    assert summary.answered == Rate(2.0, 4)  # 7 and 0, not 2 and 3


def test_answers_in_the_right_superclass_are_kept_of_data_that_has_superclasses(tmp_path: Path) -> None:
    clean = stage_records("clean", np.array([1.0, 0, 0]), counts=False, kind="clean", threat="")
    # 4 and 30 are water mammals, 1 is a fish.
    columns = replace(clean.columns, label=np.array([4, 4, 4]), clean_prediction=np.array([4, 30, 1]))
    made = made_up(replace(clean, columns=columns))
    found = there_and_back(replace(made, data="cifar100"), tmp_path)
    assert found.near is not None
    assert found.near.tolist() == [True, True, False]
    assert there_and_back(made, tmp_path).near is None
    other = replace(found, near=np.array([False, True, False]))
    assert pair_near(found, other) == Comparison(1, 0, 3)
    assert pair_near(found, replace(found, near=None)) is None


def test_the_distance_is_the_mean_over_what_was_right_and_broke(tmp_path: Path) -> None:
    made = evaluation(1)
    columns = made.stage("cw-un").columns
    found = there_and_back(made, tmp_path).stage("cw-un")
    assert found is not None
    assert found.distortion == pytest.approx(columns.distortion[columns.right_before].mean(), abs=1e-4)
    attack = there_and_back(made, tmp_path).stage("pgd")
    assert attack is not None
    assert attack.distortion is None


@pytest.mark.parametrize("count", [1, 7, 8, 203])
def test_the_paired_test_is_that_of_the_records(tmp_path: Path, count: int) -> None:
    first, second = evaluation(2, count), evaluation(3, count)
    summaries = [there_and_back(each, tmp_path) for each in (first, second)]
    assert pair_up(*summaries) == compare(first, second)
    shares = [each.stage("clean").columns.right_share >= 0.5 for each in (first, second)]
    assert pair_clean(*summaries).first_only == int((shares[0] & ~shares[1]).sum())


def test_a_stage_remembers_which_images_it_left(tmp_path: Path) -> None:
    made = evaluation(8)
    summary = there_and_back(made, tmp_path)
    shares = {name: made.stage(name).columns.right_share >= 0.5 for name in ("clean", "pgd")}
    attack = summary.stage("pgd")
    assert attack is not None
    assert attack.right is not None
    assert attack.right.tolist() == shares["pgd"].tolist()
    for name in ("clean", "square", "nearest"):  # the model's own, some of the samples, none of them
        other = summary.stage(name)
        assert other is not None
        assert other.right is None
        assert summary.kept(name) is None
    assert summary.kept("unknown") is None


def test_what_an_attack_turned_right_is_not_kept(tmp_path: Path) -> None:
    clean, after = np.array([1.0, 1.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0, 0.4])
    stages = (stage_records("clean", clean, counts=False, kind="clean", threat=""), stage_records("pgd", after))
    kept = there_and_back(made_up(*stages), tmp_path).kept("pgd")
    assert kept is not None
    assert kept.tolist() == [True, False, False, False, False]


def test_two_models_are_paired_attack_by_attack(tmp_path: Path) -> None:
    made = [evaluation(seed) for seed in (9, 10)]
    first, second = (there_and_back(each, tmp_path) for each in made)
    ours, theirs = (
        (each.stage("clean").columns.right_share >= 0.5) & (each.stage("pgd").columns.right_share >= 0.5)
        for each in made
    )
    found = pair_stage(first, second, "pgd")
    assert found is not None
    assert (found.first_only, found.second_only) == (int((ours & ~theirs).sum()), int((theirs & ~ours).sum()))
    assert found.total == 203
    assert pair_stage(first, second, "square") is None
    with pytest.raises(ArgumentError, match="attacked differently"):
        pair_stage(first, replace(second, radius=0.5), "pgd")


def test_an_older_summary_is_read_and_tells_no_images_apart(tmp_path: Path) -> None:
    table = summarise(evaluation(11))
    for each in table["stages"]:
        each.pop("right", None)
        each.pop("distortion_error", None)
    write_summary(tmp_path / "older.json", table)
    older = read_summary(tmp_path / "older.json")
    assert all(each.right is None and each.distortion_error is None for each in older.stages)
    assert pair_stage(older, older, "pgd") is None
    assert pair_up(older, older).difference == 0


def test_the_distance_has_its_standard_error(tmp_path: Path) -> None:
    made = evaluation(12)
    columns = made.stage("cw-un").columns
    moved = columns.distortion[columns.right_before]
    found = there_and_back(made, tmp_path).stage("cw-un")
    assert found is not None
    assert found.distortion_error == pytest.approx(np.std(moved, ddof=1) / np.sqrt(len(moved)), abs=1e-7)


def test_other_images_or_other_attacks_are_not_paired(tmp_path: Path) -> None:
    one = there_and_back(evaluation(4), tmp_path)
    with pytest.raises(ArgumentError, match="different images"):
        pair_up(one, replace(one, data_fingerprint="other"))
    with pytest.raises(ArgumentError, match="attacked differently"):
        pair_up(one, replace(one, suite_version=2))


def test_the_file_is_small_stable_and_knows_no_paths_of_the_machine(tmp_path: Path) -> None:
    secret = {"command": "maxmahal evaluate /home/me/runs/x --limit 203 --out /home/me/out", "device": "cpu"}
    made = evaluation(5, 10_000, environment=secret, target="/home/me/runs/x", data="/home/me/mine.npz")
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write_summary(one, summarise(made))
    write_summary(two, json.loads(one.read_text()))
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size < 8_000
    assert "/home" not in one.read_text()
    assert list(json.loads(one.read_text())) == sorted(json.loads(one.read_text()))


@pytest.mark.parametrize(
    ("data", "command", "limited"),
    [
        ("made", "maxmahal evaluate x", False),
        ("made", "maxmahal evaluate x --limit 16", True),
        ("cifar10", "maxmahal evaluate x --limit 16", True),
    ],
)
def test_a_limit_is_remembered(tmp_path: Path, data: str, command: str, limited: bool) -> None:
    made = evaluation(6, 16, environment={"command": command}, data=data)
    assert there_and_back(made, tmp_path).limited is limited


def test_a_limit_of_the_whole_test_set_is_none(tmp_path: Path) -> None:
    made = evaluation(6, 10_000, environment={"command": "maxmahal evaluate x --limit 10000"}, data="cifar10")
    assert not there_and_back(made, tmp_path).limited


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "cannot be read as JSON"),
        (lambda text: text.replace("maxmahal-evaluation-summary-1", "something"), "is not a"),
        (lambda text: "[]", "is not a"),
        (lambda text: text.replace('"robust"', '"rowbust"'), "damaged summary"),
        (lambda text: text.replace('"stands": "', '"stands": "AAAA'), "damaged summary"),
        (lambda text: text.replace(', "right": "', ', "right": "AAAA'), "damaged summary"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, change: Callable[[str], str], said: str) -> None:
    path = tmp_path / "bad.json"
    write_summary(path, summarise(evaluation(7)))
    path.write_text(change(path.read_text()))
    with pytest.raises(RecordsError, match=said) as raised:
        read_summary(path)
    assert "bad.json" in str(raised.value)
    assert "collect it again" in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="cannot be read"):
        read_summary(tmp_path / "none.json")


def test_a_run_is_summarised(tmp_path: Path, tiny_settings: Callable[..., Settings]) -> None:
    folder = tmp_path / "run"
    result = train_model(tiny_settings("digits-mmc"), folder)
    path = tmp_path / "run.json"
    write_summary(path, summarise_run(folder))
    run = read_run(path)
    assert (run.name, run.finished, len(run.epochs)) == ("run", True, 3)
    assert run.settings["loss"]["name"] == "mmc"
    assert run.epochs[-1]["test_accuracy"] == pytest.approx(result["last"]["test_accuracy"], rel=1e-4)
    assert run.train_seconds == run.epochs[-1]["train_seconds"]
    assert run.result["last"]["epoch"] == 3
    (folder / "result.json").unlink()
    assert summarise_run(folder)["finished"] is False


def test_a_run_remembers_its_gpu_and_its_company_where_they_were_written_down(
    tmp_path: Path, tiny_settings: Callable[..., Settings]
) -> None:
    folder, path = tmp_path / "run", tmp_path / "run.json"
    train_model(tiny_settings("digits-mmc"), folder)
    content = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**content, "gpu": "NVIDIA H200", "sharing": 3}))
    write_summary(path, summarise_run(folder))
    assert (read_run(path).gpu, read_run(path).sharing) == ("NVIDIA H200", 3)
    older = {key: value for key, value in content.items() if key not in ("gpu", "sharing")}
    (folder / "result.json").write_text(json.dumps(older))
    table = summarise_run(folder)
    assert (table["gpu"], table["sharing"]) == ("", 1)
    write_summary(path, {key: value for key, value in table.items() if key not in ("gpu", "sharing")})
    assert (read_run(path).gpu, read_run(path).sharing) == ("", 1)


def test_a_run_is_known_by_the_weights_that_evaluations_are_of(
    tmp_path: Path, tiny_settings: Callable[..., Settings]
) -> None:
    folder, path = tmp_path / "run", tmp_path / "run.json"
    train_model(tiny_settings("digits-at-mmc"), folder)
    weights = {name: fingerprint_model(load_model(folder / f"{name}.safetensors")) for name in ("last", "best")}
    write_summary(path, summarise_run(folder))
    run = read_run(path)
    assert run.weights == weights
    assert run.made("run", weights["last"])
    assert run.made("run-best", weights["best"])
    assert not run.made("run", "others")
    assert not run.made("run-best", "others")
    save_model(folder / "half.safetensors", load_model(folder), load_model(folder).card, half=True)
    write_summary(path, summarise_run(folder))
    run = read_run(path)
    rounded = {"half": fingerprint_model(load_model(folder / "half.safetensors"))}
    assert run.weights == weights | rounded
    assert run.made("run", rounded["half"])
    assert not run.made("run", "others")
    (folder / "half.safetensors").unlink()
    (folder / "last.safetensors").write_text("damaged")
    (folder / "best.safetensors").unlink()
    table = summarise_run(folder)
    assert table.pop("weights") == {}
    write_summary(path, table)  # as in files that do not record them
    assert read_run(path).weights == {}
    assert read_run(path).made("run", "others")


def test_a_run_that_diverged_can_be_written_and_read(tmp_path: Path, tiny_settings: Callable[..., Settings]) -> None:
    folder = tmp_path / "run"
    train_model(tiny_settings("digits-mmc"), folder)
    (folder / "metrics.jsonl").write_text('{"epoch": 1, "train_loss": NaN, "train_seconds": 1.25}\n')
    write_summary(tmp_path / "run.json", summarise_run(folder))
    assert read_run(tmp_path / "run.json").epochs == ({"epoch": 1, "train_loss": None, "train_seconds": 1.25},)


@pytest.mark.parametrize("epochs", [0, 2])
def test_a_run_that_was_stopped_by_its_divergence_is_summarised_as_such(
    tmp_path: Path, tiny_settings: Callable[..., Settings], epochs: int
) -> None:
    folder, settings = RunFolder(tmp_path / "run"), tiny_settings("digits-mmc", "train.epochs=2")
    if epochs:
        train_model(settings, folder.path)
        folder.result.unlink()
    folder.path.mkdir(exist_ok=True)
    folder.write_diverged(epochs + 1, settings)
    write_summary(tmp_path / "run.json", summarise_run(folder.path))
    found = read_run(tmp_path / "run.json")
    assert (found.diverged, found.finished, len(found.epochs)) == (epochs + 1, False, epochs)
    assert found.settings["loss"]["name"] == "mmc"


def test_a_folder_without_a_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no run with a finished epoch"):
        summarise_run(tmp_path)

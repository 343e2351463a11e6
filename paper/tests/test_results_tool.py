"""The tool that publishes: what it collects, what it writes, and what it notices."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from maxmahal import evaluate_models, load
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.records.schema import FILE
from maxmahal.train import RunFolder, Settings, train_model
from paper import ROOT

_MADE: list[Path] = []  # trained once, then copied


@pytest.fixture
def out(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, tiny_settings: Callable[..., Settings]) -> Path:
    """What a reproduction leaves: two finished runs, one begun, a whole evaluation, a limited and an unfinished one."""
    if not _MADE:
        _MADE.append(reproduction(tmp_path_factory.mktemp("reproduction"), tiny_settings))
    return Path(shutil.copytree(_MADE[0], tmp_path / "out"))


def reproduction(folder: Path, tiny_settings: Callable[..., Settings]) -> Path:
    for name, preset in (("cifar10-sce", "digits-sce"), ("cifar10-at-un-mmc", "digits-mmc")):
        train_model(tiny_settings(preset), folder / "models" / name)
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), folder / "models" / "cifar10-mmc")
    (folder / "models" / "cifar10-mmc" / "result.json").unlink()
    (folder / "models" / "empty").mkdir()
    targets = {name: folder / "models" / name for name in ("cifar10-sce", "cifar10-at-un-mmc")}
    suite = folder / "strict.toml"
    suite.write_text(
        'version = 1\nabout = "x"\nepsilon = "8/255"\n[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 2\n'
    )
    evaluate_models(targets, suite=suite, out=folder / "records")
    evaluate_models(targets, suite=suite, out=folder / "records", limit=12, seed=3)
    with sqlite3.connect(folder / "records" / FILE) as connection:
        connection.execute("UPDATE evaluations SET finished = 0 WHERE name = 'cifar10-sce' AND samples = 12")
    connection.close()
    return folder


def published(tool: Any, out: Path, root: Path) -> Path:
    tool.collect(out, root)
    tool.fill_zoo(out, root)
    tool.write(root)
    return root


def test_finished_evaluations_and_runs_are_collected_under_their_names(tool: Any, out: Path, tmp_path: Path) -> None:
    written = tool.collect(out, tmp_path / "root")
    names = sorted(str(path.relative_to(tmp_path / "root" / "paper" / "results")) for path in written)
    assert names == [
        "evaluations/cifar10-at-un-mmc--strict-12-seed3.json",
        "evaluations/cifar10-at-un-mmc--strict.json",
        "evaluations/cifar10-sce--strict.json",
        "runs/cifar10-at-un-mmc.json",
        "runs/cifar10-mmc.json",
        "runs/cifar10-sce.json",
    ]
    assert json.loads((tmp_path / "root/paper/results/runs/cifar10-mmc.json").read_text())["finished"] is False


def test_a_training_that_diverged_in_its_first_epoch_is_collected(
    tool: Any, out: Path, tmp_path: Path, tiny_settings: Callable[..., Settings]
) -> None:
    RunFolder(out / "models" / "empty").write_diverged(1, tiny_settings("digits-mmc"))
    tool.collect(out, tmp_path / "root")
    assert json.loads((tmp_path / "root/paper/results/runs/empty.json").read_text())["diverged"] == 1


def test_collecting_twice_changes_nothing(tool: Any, out: Path, tmp_path: Path) -> None:
    first = {path: path.read_bytes() for path in tool.collect(out, tmp_path / "root")}
    assert {path: path.read_bytes() for path in tool.collect(out, tmp_path / "root")} == first


def test_what_was_measured_on_earlier_weights_is_removed(
    tool: Any, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.collect(out, tmp_path / "root")
    folder = tmp_path / "root" / "paper/results" / "evaluations"
    content = json.loads((folder / "cifar10-sce--strict.json").read_text())
    earlier = {**content, "suite": "autoattack", "model_fingerprint": "of earlier weights"}
    (folder / "cifar10-sce--autoattack.json").write_text(json.dumps(earlier))
    (folder / "other--autoattack.json").write_text(json.dumps({**earlier, "name": "other"}))
    tool.collect(out, tmp_path / "root")
    assert not (folder / "cifar10-sce--autoattack.json").exists()
    assert (folder / "cifar10-sce--strict.json").exists()
    assert (folder / "other--autoattack.json").exists()
    assert "Removed cifar10-sce--autoattack.json: it is of an earlier 'cifar10-sce'" in capsys.readouterr().out


def test_a_model_that_was_trained_again_and_not_evaluated_since_is_named_on_the_page(
    tool: Any, out: Path, tmp_path: Path
) -> None:
    root, remark = tmp_path / "root", "evaluated with other weights than those of the published training"
    tool.collect(out, root)
    tool.write(root)
    assert remark not in (root / "paper/results" / "tables.md").read_text()
    retrained = out / "models" / "cifar10-at-un-mmc"
    shutil.copy(retrained / "last.safetensors", out / "models" / "cifar10-sce")
    tool.collect(out, root)
    with pytest.raises(SystemExit, match=r"paper/results/tables.md does not say"):
        tool.check(root)
    tool.write(root)
    assert f"- `cifar10-sce`: {remark}\n" in (root / "paper/results" / "tables.md").read_text()


def test_a_training_that_is_only_begun_leaves_a_finished_one_as_it_was(
    tool: Any, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    tool.collect(out, root)
    path = root / "paper/results" / "runs" / "cifar10-sce.json"
    before = path.read_bytes()
    run = out / "models" / "cifar10-sce"
    (run / "result.json").unlink()
    metrics = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text(metrics[0] + "\n")
    capsys.readouterr()
    assert path not in tool.collect(out, root)
    assert path.read_bytes() == before
    assert (
        capsys.readouterr().out
        == f"Kept cifar10-sce.json: the training in {run} is not finished, and the published one is.\n"
    )
    shutil.rmtree(out / "records")
    for other in {*run.parent.iterdir()} - {run}:
        shutil.rmtree(other)
    assert tool.collect(out, root) == [], "nothing new is no error"


def test_missing_checkpoints_keep_their_fingerprint_unless_they_were_trained_again(
    tool: Any, out: Path, tmp_path: Path
) -> None:
    root, run = tmp_path / "root", out / "models" / "cifar10-sce"
    tool.collect(out, root)
    path = root / "paper/results" / "runs" / "cifar10-sce.json"
    before = path.read_bytes()
    assert json.loads(before)["weights"]
    for checkpoint in run.glob("*.safetensors"):
        checkpoint.unlink()
    tool.collect(out, root)
    assert path.read_bytes() == before
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    metrics[-1]["train_loss"] += 1
    (run / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in metrics))
    tool.collect(out, root)
    assert json.loads(path.read_bytes())["weights"] == {}


def test_records_of_two_models_of_one_name_are_refused(tool: Any, out: Path, tmp_path: Path) -> None:
    with sqlite3.connect(out / "records" / FILE) as connection:
        connection.execute("UPDATE evaluations SET name = 'cifar10-sce', seed = 4 WHERE samples = 12 AND finished = 1")
    connection.close()
    with pytest.raises(SystemExit, match="two models called cifar10-sce"):
        tool.collect(out, tmp_path / "root")


def test_another_ball_has_a_file_of_its_own(tool: Any) -> None:
    facts = {"name": "m", "suite": "strict", "norm": "Linf", "seed": 0, "limited": False, "samples": 9}
    assert tool._file_name({**facts, "epsilon": "8/255", "radius": 8 / 255}) == "m--strict.json"
    assert tool._file_name({**facts, "epsilon": "4/255", "radius": 4 / 255}) == "m--strict-Linf-4-255.json"


def test_evaluations_in_several_balls_are_collected_side_by_side(tool: Any, out: Path, tmp_path: Path) -> None:
    for epsilon in ("1/255", "2/255"):
        target = {"cifar10-sce": out / "models" / "cifar10-sce"}
        evaluate_models(target, suite=out / "strict.toml", out=out / "records", limit=12, epsilon=epsilon)
    names = {path.name: path for path in tool.collect(out, tmp_path / "root")}
    for epsilon in ("1/255", "2/255"):
        name = f"cifar10-sce--strict-Linf-{epsilon.replace('/', '-')}-12.json"
        assert json.loads(names[name].read_text())["epsilon"] == epsilon
    assert json.loads(names["cifar10-sce--strict.json"].read_text())["epsilon"] == "8/255"


def test_a_folder_without_anything_is_refused(tool: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no finished evaluation"):
        tool.collect(tmp_path, tmp_path / "root")


def test_the_zoo_holds_the_last_checkpoints_of_finished_runs(
    tool: Any, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = published(tool, out, tmp_path / "root")
    assert sorted(path.name for path in (root / "zoo").iterdir()) == [
        "README.md",
        "cifar10-at-mmc.md",
        "cifar10-at-mmc.safetensors",
        "cifar10-sce.md",
        "cifar10-sce.safetensors",
    ]
    last = out / "models" / "cifar10-at-un-mmc" / "last.safetensors"
    assert (root / "zoo" / "cifar10-at-mmc.safetensors").read_bytes() == last.read_bytes()
    monkeypatch.setenv("MAXMAHAL_ZOO", str(root / "zoo"))
    assert type(load("cifar10-at-mmc").head).__name__ == "MMC"


def test_a_run_in_half_precision_is_published_as_it_was_evaluated(
    tool: Any, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, run = tmp_path / "root", out / "models" / "cifar10-sce"
    half = tool.write_half(out, "cifar10-sce")
    tool.collect(out, root)
    with pytest.raises(SystemExit, match=r"half\.safetensors is not what strict measured as cifar10-sce"):
        tool.fill_zoo(out, root)
    shutil.rmtree(out / "records")
    shutil.rmtree(root)
    evaluate_models({"cifar10-sce": half}, suite=out / "strict.toml", out=out / "records")
    (run / "last.safetensors").unlink()  # it need not be brought along
    published(tool, out, root)
    assert (root / "zoo" / "cifar10-sce.safetensors").read_bytes() == half.read_bytes()
    assert "| weights stored in | half precision" in (root / "zoo" / "cifar10-sce.md").read_text()
    monkeypatch.setenv("MAXMAHAL_ZOO", str(root / "zoo"))
    summary = json.loads((root / "paper/results/evaluations/cifar10-sce--strict.json").read_text())
    assert summary["model_fingerprint"] == fingerprint_model(load("cifar10-sce"))
    assert "evaluated with other weights" not in (root / "paper/results/tables.md").read_text()


def test_only_a_finished_run_is_written_in_half_precision(tool: Any, out: Path) -> None:
    with pytest.raises(SystemExit, match="cifar10-mmc holds no finished run"):
        tool.write_half(out, "cifar10-mmc")


def test_a_checkpoint_other_than_the_one_evaluated_is_refused(tool: Any, out: Path, tmp_path: Path) -> None:
    tool.collect(out, tmp_path / "root")
    other = (out / "models" / "cifar10-at-un-mmc" / "last.safetensors").read_bytes()
    (out / "models" / "cifar10-sce" / "last.safetensors").write_bytes(other)
    with pytest.raises(SystemExit, match=r"is not what strict measured as cifar10-sce; collect"):
        tool.fill_zoo(out, tmp_path / "root")


@pytest.mark.parametrize(
    "name",
    [f"paper/results/{name}" for name in ("README.md", "tables.md", "figures/training-epochs.svg")]
    + ["zoo/cifar10-sce.md"],
)
def test_a_number_changed_by_hand_is_noticed(tool: Any, out: Path, tmp_path: Path, name: str) -> None:
    root = published(tool, out, tmp_path / "root")
    tool.check(root)
    path = root / name
    text = path.read_text()
    digit = next(place for place in range(len(text) // 2, len(text)) if text[place].isdigit())
    path.write_text(f"{text[:digit]}{(int(text[digit]) + 1) % 10}{text[digit + 1 :]}")
    with pytest.raises(SystemExit, match=f"{name} does not say"):
        tool.check(root)
    tool.write(root)
    tool.check(root)


def test_a_summary_that_changes_changes_the_pages(tool: Any, out: Path, tmp_path: Path) -> None:
    root = published(tool, out, tmp_path / "root")
    path = root / "paper/results" / "evaluations" / "cifar10-sce--strict.json"
    content = json.loads(path.read_text())
    content["robust"] = [59, 60]
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit, match=r"paper/results/README.md does not say"):
        tool.check(root)


def test_a_figure_without_a_source_is_noticed_and_removed(tool: Any, out: Path, tmp_path: Path) -> None:
    root = published(tool, out, tmp_path / "root")
    (root / "paper/results" / "figures" / "old.svg").write_text(f"<svg/>\n{tool.MARK}\n")
    with pytest.raises(SystemExit, match=r"old.svg has no source"):
        tool.check(root)
    tool.write(root)
    tool.check(root)


def test_robustbenchs_entry_lies_beside_a_model_with_autoattack_on_all_images(
    tool: Any, out: Path, tmp_path: Path
) -> None:
    root = published(tool, out, tmp_path / "root")
    assert not list((root / "zoo").glob("*.json"))
    folder, entry = root / "paper/results/evaluations", root / "zoo" / "cifar10-at-mmc.json"
    content = json.loads((folder / "cifar10-at-un-mmc--strict.json").read_text())
    measured = folder / "cifar10-at-un-mmc--autoattack.json"
    measured.write_text(json.dumps({**content, "suite": "autoattack"}))
    with pytest.raises(SystemExit, match="does not say"):
        tool.check(root)
    tool.write(root)
    tool.check(root)
    assert json.loads(entry.read_text())["name"] == "cifar10-at-mmc"
    assert [path.name for path in (root / "zoo").glob("*.json")] == [entry.name]
    (root / "zoo" / "mine.json").write_text("{}")
    measured.unlink()
    tool.write(root)
    assert [path.name for path in (root / "zoo").glob("*.json")] == ["mine.json"]


@pytest.mark.parametrize("name", ["paper/results/notes.md", "zoo/notes.md", "paper/results/figures/mine.svg"])
def test_files_written_by_hand_are_not_touched(tool: Any, out: Path, tmp_path: Path, name: str) -> None:
    root = published(tool, out, tmp_path / "root")
    (root / name).write_text("# Mine\n")
    tool.check(root)
    tool.write(root)
    assert (root / name).read_text() == "# Mine\n"


def test_every_generated_file_has_the_mark_and_is_removed_with_its_source(tool: Any, out: Path, tmp_path: Path) -> None:
    root = published(tool, out, tmp_path / "root")
    made = [*root.rglob("*.md"), *root.rglob("*.svg")]
    assert len(made) > 4
    assert all(path.read_text().endswith(f"\n{tool.MARK}\n") for path in made)
    for path in root.rglob("*.svg"):
        ElementTree.fromstring(path.read_text())
    (root / "zoo" / "cifar10-sce.safetensors").unlink()
    tool.write(root)
    assert not (root / "zoo" / "cifar10-sce.md").exists()


def test_without_results_there_is_nothing_to_write_and_nothing_to_check(tool: Any, tmp_path: Path) -> None:
    tool.write(tmp_path)
    tool.check(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_repository_says_what_its_summaries_say(tool: Any) -> None:
    tool.check(ROOT)

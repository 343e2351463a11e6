"""``maxmahal density`` on runs of a second."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from maxmahal.density import compare_models, render_density_page, table
from maxmahal.errors import ArgumentError
from maxmahal.train import Settings, train_model


@pytest.fixture
def runs(tiny_settings: Callable[..., Settings], tmp_path: Path) -> dict[str, Path]:
    folders = {}
    for preset in ("digits-mmc", "digits-sce"):
        folders[preset] = tmp_path / preset
        train_model(tiny_settings(preset), folders[preset])
    return folders


def test_models_are_compared_in_a_table_a_record_and_a_page(run, runs: dict[str, Path], tmp_path: Path) -> None:
    done = run("density", *runs.values(), "--device", "cpu", "--out", tmp_path / "record.json")
    assert done.code == 0, done.err
    for part in ("digits-mmc", "digits-sce", "log density at loss 50 %", "contours are planes"):
        assert part in done.out
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["format"] == "maxmahal-density-1"
    assert [each["name"] for each in record["models"]] == ["digits-mmc", "digits-sce"]
    assert [each["samples"] for each in record["models"]] == [60, 60]
    assert all(value is not None for value in record["models"][0]["shells"]["log_density"])

    done = run("density", *runs.values(), "--device", "cpu", "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == render_density_page(record)  # the page says what the record says, and no more
    _, rows = table(record)
    assert all(f"<td>{cell}</td>" in page for row in rows for cell in row[1:])


def test_limits_parts_and_other_data(run, runs: dict[str, Path], tiny_npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    done = run("density", runs["digits-mmc"], "--train", "--limit", "30", "--data", tiny_npz, "--out", out)
    assert done.code == 0, done.err
    (model,) = json.loads(out.read_text())["models"]
    assert (model["samples"], model["split"]) == (30, "train")


def test_a_checkpoint_and_a_name_of_the_zoo(
    run, runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    shutil.copy(runs["digits-mmc"] / "last.safetensors", zoo / "striped-mmc.safetensors")
    monkeypatch.setenv("MAXMAHAL_ZOO", str(zoo))
    record = compare_models([runs["digits-mmc"] / "last.safetensors", "striped-mmc", "zoo:striped-mmc"])
    names = [each.pop("name") for each in record["models"]]
    assert names == ["digits-mmc-last", "striped-mmc", "striped-mmc"]
    assert record["models"][0] == record["models"][1] == record["models"][2]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("runs/nowhere",), "There is no run folder, checkpoint, function or model of the zoo 'runs/nowhere'"),
        (("no-such-model",), "model of the zoo 'no-such-model'"),
        (("torch.nn:Identity",), "torch.nn:Identity is in train mode"),
        (("RUN", "--out", "page.pdf"), "--out must end in .html for a page or in .json"),
        (("RUN", "--limit", "0"), "--limit must be at least 1; got 0."),
        (("RUN", "--limit", "1"), "Take more images."),
        (("RUN", "--data", "digits"), "has 3 classes and digits has 10"),
    ],
)
def test_mistakes_are_refused_in_one_sentence(run, runs: dict[str, Path], words: tuple[str, ...], part: str) -> None:
    run("density", *(runs["digits-mmc"] if word == "RUN" else word for word in words)).assert_refused(part)


def test_no_model_is_a_mistake() -> None:
    with pytest.raises(ArgumentError, match=r"Name at least one model"):
        compare_models([])

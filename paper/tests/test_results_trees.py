"""The tool that publishes, for the study of trees: from a reproduction's folder to a page that cannot be changed."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxmahal import evaluate_models
from maxmahal.data import load_dataset
from maxmahal.errors import CheckpointError
from maxmahal.records.schema import RecordsError
from maxmahal.train import load_settings, train_model
from paper import own
from paper.pages.trees_study import STRICT, TREES

SOURCE = "maxmahal.data.digits_tree:by_shape"
SMALL = ["train.epochs=1", "data.limit=150", "data.validation=50", "data.test_limit=40", f"data.source={SOURCE}"]


@pytest.fixture
def on_digits(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits with their own tree in the place of CIFAR-100's, in whatever ball they were attacked."""
    superclasses = load_dataset(SOURCE, "test").superclasses
    assert superclasses is not None
    studies = tuple(replace(study, superclasses=superclasses, epsilon="") for study in (TREES, STRICT))
    monkeypatch.setattr(tool, "TREE_STUDIES", studies)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A tiny training in a folder; the same one is trained once and copied."""
    known = tmp_path_factory.mktemp("trained")

    def trained(folder: Path, preset: str = "digits-short-mmc", seed: int = 0) -> Path:
        first = known / f"{preset}-{seed}"
        if not first.exists():
            train_model(load_settings(own("preset", preset), [*SMALL, f"train.seed={seed}"]), first)
        return Path(shutil.copytree(first, folder))

    return trained


def attack(folders: list[Path], out: Path, suite: str = "trees", epsilon: str = "0.05") -> None:
    """The models of these folders, under their names, into the records of another folder."""
    path = out.parent / f"{suite}.toml"
    stage = '[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 2\n'
    path.write_text(f'version = 1\nabout = "x"\nepsilon = "{epsilon}"\n{stage}')
    evaluate_models({each.name: each for each in folders}, suite=path, out=out / "records", data=SOURCE)


@pytest.mark.usefixtures("on_digits")
def test_a_study_that_is_measured_in_steps(
    tool: Any, train: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step has a folder of its own, and that of the step before is gone."""
    root = tmp_path / "root"
    plain, strict = (root / "paper/results" / "variants" / name for name in ("trees.json", "trees-strict.json"))
    first = train(tmp_path / "one" / "models" / "trees-mmc-seed0")
    attack([first], tmp_path / "one")
    assert tool.collect_variants(tmp_path / "one", root) == [plain]
    (begun,) = runs_in(plain)

    # Another seed.
    attack([train(tmp_path / "two" / "models" / "trees-mmc-seed1", seed=1)], tmp_path / "two")
    assert tool.collect_variants(tmp_path / "two", root) == [plain]
    assert [(run["arm"], run["seed"]) for run in runs_in(plain)] == [("trees-mmc", 0), ("trees-mmc", 1)]
    assert runs_in(plain)[0] == begun

    # Another suite on the first run, whose folder is not there, or is that of another training: the first step has kept
    # what is asked of it.
    before = plain.read_bytes()
    begun_anew = train(tmp_path / "three" / "models" / "trees-mmc-seed0", "digits-mmc", seed=7)
    attack([first], tmp_path / "three", suite="strict", epsilon="0.1")
    assert tool.collect_variants(tmp_path / "three", root) == [strict]
    content = strict.read_bytes()
    shutil.rmtree(begun_anew)
    tool.collect_variants(tmp_path / "three", root)
    assert strict.read_bytes() == content
    assert plain.read_bytes() == before
    (other,) = runs_in(strict)
    trained = ("arm", "seed", "fingerprint", "validation", "centers", "test_accuracy")
    assert {key: other[key] for key in trained} == {key: begun[key] for key in trained}
    assert json.loads(strict.read_text())["shared"].items() >= json.loads(plain.read_text())["shared"].items()
    assert capsys.readouterr().out == ""

    # The first run is trained again: what was measured on the old one is removed from both studies.
    attack([train(tmp_path / "four" / "models" / "trees-mmc-seed0", seed=5)], tmp_path / "four")
    assert tool.collect_variants(tmp_path / "four", root) == [plain]
    assert [run["seed"] for run in runs_in(plain)] == [0, 1]
    assert runs_in(plain)[0]["fingerprint"] != begun["fingerprint"]
    assert not strict.exists()
    assert capsys.readouterr().out.splitlines() == [
        "Removed trees-mmc-seed0 from trees.json: it is of an earlier 'trees-mmc-seed0' with other weights.",
        "Removed trees-mmc-seed0 from trees-strict.json: it is of an earlier 'trees-mmc-seed0' with other weights.",
    ]
    tool.write(root)
    tool.check(root)
    page = root / "paper/results" / "trees.md"
    assert f"| MMC-10 | {100 * runs_in(plain)[0]['validation']:.1f} | " in page.read_text()
    page.write_text(page.read_text().replace("MMC-10", "the best of all", 1))
    with pytest.raises(SystemExit, match=r"trees\.md does not say"):
        tool.check(root)


@pytest.mark.usefixtures("on_digits")
def test_what_cannot_be_merged_leaves_every_file_as_it_was(
    tool: Any, train: Callable[..., Path], tmp_path: Path
) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    model = train(out / "models" / "trees-mmc-seed0")
    attack([model], out)
    (path,) = tool.collect_variants(out, root)
    before = path.read_bytes()
    other = tmp_path / "other"
    attack([train(other / "models" / "trees-orthogonal-1-seed0")], other, epsilon="0.1")
    with pytest.raises(RecordsError, match=r"not attacked like those here \(epsilon 0\.05 there, 0\.1 here\)"):
        tool.collect_variants(other, root)
    other = train(tmp_path / "other" / "trees-mmc-seed0", seed=5)
    attack([other], tmp_path / "other")
    with pytest.raises(CheckpointError, match="holds no run with a finished epoch"):
        tool.collect_variants(tmp_path / "other", root)
    attack([other], out, suite="strict")
    with pytest.raises(SystemExit, match="two models called trees-mmc-seed0"):
        tool.collect_variants(out, root)
    with pytest.raises(SystemExit, match="holds no evaluation of a grid"):
        tool.collect_variants(tmp_path / "nothing", root)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def runs_in(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text())["runs"])


def test_no_page_without_data(tool: Any, tmp_path: Path) -> None:
    assert not [path for path in tool.pages(tmp_path) if "trees" in path.name]

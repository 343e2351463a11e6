"""The tool that publishes, for the study of trees: from a reproduction's folder to a page that cannot be changed."""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxmahal import evaluate_models
from maxmahal.data import load_dataset
from maxmahal.report.published.trees_study import TREES
from maxmahal.train import load_settings, train_model

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = "maxmahal.data.digits_tree:by_shape"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    if not (ROOT / "tools").exists():
        pytest.skip("a copy of the tree without its tools")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("results")


def test_from_a_folder_of_runs_to_the_page(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the digits with their own tree in the place of CIFAR-100's."""
    superclasses = load_dataset(SOURCE, "test").superclasses
    assert superclasses is not None
    monkeypatch.setattr(tool, "TREE_STUDIES", (replace(TREES, superclasses=superclasses),))
    out, root = tmp_path / "out", tmp_path / "root"
    small = ["train.epochs=1", "data.limit=150", "data.validation=50", "data.test_limit=40", f"data.source={SOURCE}"]
    arms = {"trees-mmc-seed0": "digits-short-mmc", "trees-orthogonal-0.5-seed0": "digits-mmc-hierarchical"}
    for name, preset in arms.items():
        train_model(load_settings(preset, small), out / "models" / name)
    suite = tmp_path / "trees.toml"
    suite.write_text(
        'version = 1\nabout = "x"\nepsilon = "0.05"\n[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 2\n'
    )
    evaluate_models({name: out / "models" / name for name in arms}, suite=suite, out=out / "records", data=SOURCE)
    (path,) = tool.collect_variants(out, root)
    assert path == root / "results" / "variants" / "trees.json"
    runs = json.loads(path.read_text())["runs"]
    assert [run["arm"] for run in runs] == ["trees-mmc", "trees-orthogonal-0.5"]
    assert all(sum(counts) == 500 for run in runs for counts in run["mistakes"].values())

    tool.write(root)
    page = root / "results" / "trees.md"
    clean = runs[1]["mistakes"]["clean"]
    assert f"| orthogonal subspaces, ratio 0.5 | {100 * clean[0] / 500:.1f} [" in page.read_text()
    tool.check(root)
    page.write_text(page.read_text().replace("orthogonal subspaces, ratio 0.5", "the best of all", 1))
    with pytest.raises(SystemExit, match=r"trees\.md does not say"):
        tool.check(root)


def test_no_page_without_data(tool: Any, tmp_path: Path) -> None:
    assert not [path for path in tool.pages(tmp_path) if "trees" in path.name]

"""``maxmahal tree``: from a run's mistakes to a file, and from the file to centers."""

from pathlib import Path

import pytest
import torch

from maxmahal.centers import CENTERS, load_tree
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.learned_tree import confusion_matrix, learn_tree
from maxmahal.models import accuracy
from maxmahal.train import load_settings, train_model
from maxmahal.train.splits import load_splits

SMALL = ("train.epochs=2", "data.limit=200", "data.test_limit=50")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short runs on the digits, with held-out images and without."""
    folder = tmp_path_factory.mktemp("trees")
    train_model(load_settings("digits-mmc", [*SMALL, "data.validation=300"]), folder / "held-out")
    train_model(load_settings("digits-mmc", SMALL), folder / "all")
    return folder


def test_a_tree_is_made_of_held_out_mistakes_and_trained_with(run, trained: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "tree.toml"
    done = run("tree", trained / "held-out", "--classes", 4, "--out", out, "--device", "cpu")
    assert done.code == 0, done.err
    assert "300 held-out images of digits" in done.out
    tree = load_tree(str(out))
    assert len(tree.superclasses) == 10
    assert set(tree.superclasses) == {0, 1, 2, 3}
    for group in tree.groups():
        assert ", ".join(group) in done.out
    options = ["--set", "centers.name=hierarchical", "--set", f"centers.tree={out}", "--set", "centers.length=10.0"]
    small = [word for each in SMALL for word in ("--set", each)]
    again = run("train", "digits-mmc", "--out", tmp_path / "run", *options, *small, "--device", "cpu", "-q")
    assert again.code == 0, again.err
    head = load_target(tmp_path / "run").head
    wanted = CENTERS["hierarchical"](10, 64, None, tree=str(out), length=10.0)
    assert torch.equal(head.centers, wanted)  # type: ignore[union-attr]


def test_the_mistakes_are_not_those_on_test_images(trained: Path) -> None:
    subject = load_target(trained / "held-out")
    assert subject.card is not None
    parts = load_splits(subject.card.settings.data, None, "cpu")
    counts = confusion_matrix(subject, parts.validation)
    assert counts.sum() == 300
    assert counts.trace() / 300 == pytest.approx(accuracy(subject.model, parts.validation))  # type: ignore[arg-type]
    assert counts.sum(axis=1).tolist() == torch.bincount(parts.validation.labels, minlength=10).tolist()
    about = learn_tree(trained / "held-out", superclasses=3).about
    assert f"{300 - counts.trace()} mistakes on 300 held-out images" in about


def test_without_held_out_images_the_training_images_are_taken(trained: Path) -> None:
    assert "on 200 training images" in learn_tree(trained / "all", superclasses=3).about
    assert "on 200 training images" in learn_tree(trained / "held-out", superclasses=3, train=True).about
    other = "maxmahal.data.digits_tree:by_value"
    assert "on 1297 training images" in learn_tree(trained / "all", superclasses=3, data=other).about


def test_a_checkpoint_may_not_choose_what_code_to_run(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source = "maxmahal.data.digits_tree:by_value"
    train_model(load_settings("digits-mmc", [*SMALL, f"data.source={source}", "data.validation=90"]), tmp_path / "run")
    out = ("--classes", 3, "--out", tmp_path / "tree.toml", "--device", "cpu")
    run("tree", tmp_path / "run", *out).assert_refused("may not choose what code to run")
    trusted = run("tree", tmp_path / "run", "--data", source, *out)
    assert trusted.code == 0, trusted.err
    assert "90 held-out images" in trusted.out


def test_mistakes_of_the_user_are_told(run, trained: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run("tree", trained / "all", "--out", tmp_path / "tree.json").assert_refused("--out must end in .toml")
    out = ("--out", tmp_path / "tree.toml", "--device", "cpu")
    run("tree", trained / "all", "--classes", 11, *out).assert_refused("between 1 and 10 superclasses; got 11")
    run("tree", tmp_path / "none", *out).assert_refused("There is no run folder")
    run("tree", trained / "all", "--data", "cifar-nothing", *out).assert_refused("Unknown data set")
    assert not (tmp_path / "tree.toml").exists()
    bad = tmp_path / "bad.toml"
    bad.write_text("superclasses = [0]")
    settings = ("--set", "centers.name=hierarchical", "--set", f"centers.tree={bad}", "--device", "cpu")
    run("train", "digits-mmc", "--out", tmp_path / "run", *settings).assert_refused("is not a tree of classes")
    assert not (tmp_path / "run").exists()

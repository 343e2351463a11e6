"""Trained models by their names: loading, evaluating, listing, and names that are none."""

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer

import maxmahal
from maxmahal import zoo
from maxmahal.cli.zoo import zoo_command
from maxmahal.errors import CheckpointError
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.train import Settings, train_model
from maxmahal.train.checkpoint import FINGERPRINT, read_tensors
from paper.pages.models import ZOO
from paper.pages.results import read_published

Make = Callable[..., Settings]
ROOT = Path(__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "zoo").glob("*.safetensors"))


@pytest.fixture
def models(tmp_path: Path, tiny_settings: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of the user's own with two models, and no other."""
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name, preset in (("stripes-sce", "digits-sce"), ("stripes-mmc", "digits-mmc")):
        train_model(tiny_settings(preset), tmp_path / "runs" / name)
        (tmp_path / "runs" / name / "last.safetensors").rename(folder / f"{name}.safetensors")
    monkeypatch.setenv("MAXMAHAL_ZOO", str(folder))
    monkeypatch.setattr(zoo, "_PACKAGE", tmp_path / "site-packages" / "maxmahal")
    monkeypatch.chdir(tmp_path)
    return folder


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_published_evaluations_are_of_the_published_models() -> None:
    """A change of the networks' code that changes fingerprints would make every one of them another model's."""
    found = [path for name in ZOO if (path := ROOT / "zoo" / f"{name}.safetensors").exists()]
    if not found:
        pytest.skip("a copy of the tree without its zoo")
    evaluations = read_published(ROOT / "paper" / "results").evaluations
    for path in found:
        published = {each.model_fingerprint for each in evaluations if each.name == ZOO[path.stem]}
        assert published == {fingerprint_model(maxmahal.load(path))}, path.stem


def test_a_name_loads_its_model(models: Path) -> None:
    loaded = maxmahal.load("stripes-mmc")
    assert same(loaded, maxmahal.load(models / "stripes-mmc.safetensors"))
    assert not loaded.training
    assert same(loaded, maxmahal.load("zoo:stripes-mmc"))
    assert list(zoo.zoo_models()) == ["stripes-mmc", "stripes-sce"]


def test_a_path_that_exists_wins_over_a_name(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = models.parent / "here"
    (here / "stripes-mmc").mkdir(parents=True)
    (models / "stripes-sce.safetensors").rename(here / "stripes-mmc" / "last.safetensors")
    monkeypatch.chdir(here)
    assert maxmahal.load("stripes-mmc").head is not None
    assert type(maxmahal.load("stripes-mmc").head).__name__ == "SCE"
    assert type(maxmahal.load("zoo:stripes-mmc").head).__name__ == "MMC"


def test_an_unknown_name_is_one_sentence_with_the_nearest(models: Path) -> None:
    with pytest.raises(CheckpointError, match="no model 'stripes-mcm' in the zoo; did you mean 'stripes-mmc'"):
        maxmahal.load("stripes-mcm")
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        maxmahal.load("runs/nothing")
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        maxmahal.load(Path("stripes-mmc"))


def test_an_empty_zoo_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "_PACKAGE", tmp_path / "maxmahal")
    monkeypatch.delenv("MAXMAHAL_ZOO", raising=False)
    with pytest.raises(CheckpointError, match="this installation has no models"):
        maxmahal.load("cifar10-mmc")
    zoo_command()
    assert "no models in the zoo" in capsys.readouterr().out


def test_a_model_of_ones_own_wins_over_a_shipped_one_of_its_name(models: Path, tmp_path: Path) -> None:
    shipped = tmp_path / "site-packages" / "maxmahal" / "zoo_files"
    shipped.mkdir(parents=True)
    shutil.copy(models / "stripes-sce.safetensors", shipped / "stripes-mmc.safetensors")
    shutil.copy(models / "stripes-sce.safetensors", shipped / "shipped.safetensors")
    assert type(maxmahal.load("stripes-mmc").head).__name__ == "MMC"
    assert zoo.zoo_checkpoint("zoo:stripes-mmc").parent == models
    assert zoo.zoo_checkpoint("shipped").parent == shipped


@pytest.mark.parametrize("ask", [lambda: maxmahal.load("cifar10-sce"), lambda: load_target("zoo:x"), zoo_command])
def test_a_zoo_that_is_not_there_is_told(
    ask: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAXMAHAL_ZOO", str(tmp_path / "gone"))
    with pytest.raises(CheckpointError, match=r"\$MAXMAHAL_ZOO names .*gone, which is not a folder; correct"):
        ask()


@pytest.mark.parametrize("place", ["site-packages/maxmahal/zoo_files", "src/../zoo"])
def test_models_are_found_in_the_package_and_in_a_checkout(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delenv("MAXMAHAL_ZOO")
    root = tmp_path / "root"
    package = root / ("src/maxmahal" if place.startswith("src") else "site-packages/maxmahal")
    (root / "src").mkdir(parents=True)
    folder = (root / place).resolve()
    folder.mkdir(parents=True)
    (models / "stripes-sce.safetensors").rename(folder / "shipped.safetensors")
    monkeypatch.setattr(zoo, "_PACKAGE", package)
    assert list(zoo.zoo_models()) == ["shipped"]
    assert type(maxmahal.load("shipped").head).__name__ == "SCE"


def test_a_zoo_beside_an_installed_package_is_none_of_ours(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAXMAHAL_ZOO")
    monkeypatch.setattr(zoo, "_PACKAGE", tmp_path / "lib" / "maxmahal")
    assert zoo.zoo_models() == {}, "the folder 'zoo' two levels up counts in a source checkout only"


def test_a_model_of_the_zoo_is_a_target(models: Path, tiny_npz: Path, tmp_path: Path) -> None:
    subject = load_target("zoo:stripes-mmc")
    assert (subject.name, subject.target, subject.card is not None) == ("stripes-mmc", "zoo:stripes-mmc", True)
    assert load_target("zoo:stripes-mmc", name="mine").name == "mine"
    found = maxmahal.evaluate_models(
        ["zoo:stripes-mmc", "b=zoo:stripes-sce"], suite="quick", limit=6, out=tmp_path / "out"
    )
    assert [each.name for each in found] == ["stripes-mmc", "b"]
    assert found[0].model_fingerprint == subject.fingerprint


def test_a_short_name_is_not_taken_for_a_function(models: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no model 'x' in the zoo"):
        load_target("zoo:x")


def test_the_list_names_every_model_and_where_it_comes_from(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = tmp_path / "site-packages" / "maxmahal" / "zoo_files"
    shipped.mkdir(parents=True)
    for name in ("stripes-mmc", "shipped"):
        shutil.copy(models / "stripes-sce.safetensors", shipped / f"{name}.safetensors")
    zoo_command()
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines[:-1] == [f"In {models}:", "stripes-mmc", "stripes-sce", f"In {shipped}:", "shipped"]
    assert lines[-1].startswith("In the folder zoo/ of the source repository, not installed: cifar10-at-mmc-released, ")


def test_a_model_that_is_in_the_repository_only_says_so(models: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'cifar100-at-mmc' is not part of the installed package; copy zoo/"):
        maxmahal.load("zoo:cifar100-at-mmc")


def test_the_wheel_holds_the_library_and_the_models_that_are_not_left_out() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    library, *files = table["only-include"]
    assert library == "src/maxmahal"
    assert not (ROOT / "src" / "maxmahal" / "paper").exists()
    models = {Path(file).stem for file in files if file.endswith(".safetensors")}
    assert {*files} == {f"zoo/{name}{ending}" for name in models for ending in (".md", ".safetensors")}
    if SHIPPED:
        assert models | {*zoo.NOT_INSTALLED} == {path.stem for path in SHIPPED}
        assert sum((ROOT / file).stat().st_size for file in files) < 10_000_000


def test_the_list_tells_what_a_card_beside_the_checkpoint_tells(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "stripes-mmc.md").write_text(
        "| accuracy | paper | ours |\n|---|---:|---:|\n| clean | 92.9 | 91.2 % [90.1, 92.0] |\n"
        "| PGD-10 un 8, paper's protocol | 36.0 | 1.0 % |\n"
        "| worst case of `autoattack` | – | 0.3 % |\n| worst case of `strict` | – | not run |\n"
    )
    zoo_command()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "clean 91.2 % [90.1, 92.0], worst case of autoattack 0.3 %" in lines
    assert len([line for line in lines if "clean" in line]) == 1, "the other model has no card"


def test_a_file_that_cannot_be_read_does_not_hide_the_others(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (models / "broken.safetensors").write_bytes(b"no tensors")
    with pytest.raises(typer.Exit) as stopped:
        zoo_command()
    assert stopped.value.exit_code == 1
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r" broken .*not a readable safetensors file.* stripes-mmc .*epochs on .* stripes-sce ", said)


def test_a_zoo_that_is_not_there_does_not_matter_to_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_without_zoo.py").write_text("def make(): return lambda images: images.flatten(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAXMAHAL_ZOO", str(tmp_path / "gone"))
    assert load_target("nets_without_zoo:make").model(torch.zeros(1, 3, 2, 2)).shape == (1, 12)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_model_vouches_for_itself_and_has_numbers(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_tensors(path)[1][FINGERPRINT]
    monkeypatch.delenv("MAXMAHAL_ZOO", raising=False)
    zoo_command()
    clean = re.search(r"^\| clean \|.*\| (\d.*) \|$", path.with_suffix(".md").read_text(), re.MULTILINE)
    assert clean is not None
    said = capsys.readouterr().out.partition(f"\n{path.stem} ")[2].partition("\ncifar")[0]
    assert f" clean {clean[1]}, worst case of " in said


def test_the_shipped_folder_named_as_ones_own_is_listed_once(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "_PACKAGE", models.parent / "src" / "maxmahal")
    assert zoo.zoo_folders() == [models]
    zoo_command()
    assert capsys.readouterr().out.count("stripes-mmc") == 1

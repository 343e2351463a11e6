"""Hugging Face Hub by its own library, without a network: folders, and its cache."""

import importlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors.torch
import torch
from small_evaluations_helpers import small_stages, small_suite

import maxmahal
from maxmahal.errors import ArgumentError, CheckpointError
from maxmahal.evaluate import Evaluation
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.models import Classifier
from maxmahal.train import Settings, train_model
from maxmahal.train.checkpoint import read_tensors, save_tensors


@pytest.fixture
def hub(library: Callable[[str], ModuleType]) -> ModuleType:
    return library("huggingface_hub")


@pytest.fixture
def trained(hub: ModuleType, tiny_settings: Callable[..., Settings], tmp_path: Path) -> Classifier:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "run")
    return maxmahal.load(tmp_path / "run")


@pytest.fixture
def evaluation(trained: Classifier, tiny_npz: Path, tmp_path: Path) -> Evaluation:
    return maxmahal.evaluate_model(
        trained, data=tiny_npz, suite=small_suite(*small_stages()), limit=12, out=tmp_path / "records"
    )


def test_a_saved_model_is_the_same_model(
    hub: ModuleType, trained: Classifier, evaluation: Evaluation, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    trained.save_pretrained(folder, evaluations=[evaluation])
    assert sorted(file.name for file in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    loaded = Classifier.from_pretrained(folder)
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(loaded(images), trained(images))
    assert not loaded.training
    assert loaded.card.class_names == trained.card.class_names
    again = tmp_path / "again"
    loaded.save_pretrained(again, evaluations=[evaluation])
    for name in ("README.md", "config.json"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    assert read_tensors(again / "model.safetensors")[1] == read_tensors(folder / "model.safetensors")[1]


def test_the_card_holds_the_results(
    hub: ModuleType, trained: Classifier, evaluation: Evaluation, tmp_path: Path
) -> None:
    trained.save_pretrained(tmp_path / "saved", evaluations=[evaluation])
    card = hub.ModelCard.load(tmp_path / "saved" / "README.md")
    values = {result.metric_type: result.metric_value for result in card.data.eval_results}
    verdict = evaluation.verdict
    assert values == {"accuracy": verdict.clean.value, "robust_accuracy": verdict.robust.value}
    assert card.data.library_name == "maxmahal"
    assert verdict.sentence in card.text
    assert "# cnn with mmc\n" in card.text
    assert "(n, 1, 8, 8)" in card.text
    trained.save_pretrained(tmp_path / "saved")
    assert "Robustness was not measured" in (tmp_path / "saved" / "README.md").read_text()


def test_the_files_do_not_tell_where_the_data_are(trained: Classifier, tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path / "saved")
    for file in (tmp_path / "saved").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes()
        if file.suffix != ".safetensors":
            assert b"stripes.npz" in file.read_bytes()


def test_results_of_other_weights_are_refused(trained: Classifier, evaluation: Evaluation, tmp_path: Path) -> None:
    with torch.no_grad():
        next(trained.parameters()).add_(1)
    with pytest.raises(ArgumentError, match="other weights"):
        trained.save_pretrained(tmp_path / "saved", evaluations=[evaluation])
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("changes", [{"finished": False}, {"comparison": True}, {"stages": ()}])
def test_results_that_do_not_measure_robustness_are_refused(
    trained: Classifier, evaluation: Evaluation, tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(ArgumentError, match="not finished or does not measure"):
        trained.save_pretrained(tmp_path / "saved", evaluations=[replace(evaluation, **changes)])


def damage_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= changes
    (folder / "config.json").write_text(json.dumps(config))


def test_a_config_of_another_model_is_refused(trained: Classifier, tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path)
    damage_config(tmp_path, epoch=2)
    with pytest.raises(CheckpointError, match="describe different models"):
        Classifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("text", ["[1]", "{", '{"format": "x"}', '"text"'])
def test_a_damaged_config_is_refused(trained: Classifier, tmp_path: Path, text: str) -> None:
    trained.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        Classifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_one_sentence(trained: Classifier, tmp_path: Path, name: str) -> None:
    trained.save_pretrained(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        Classifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("extra", [True, False])
def test_every_tensor_must_fit(trained: Classifier, tmp_path: Path, extra: bool) -> None:
    trained.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors, metadata = read_tensors(file)
    changed = {**tensors, "more": torch.zeros(1)} if extra else dict(list(tensors.items())[1:])
    save_tensors(file, changed, {key: text for key, text in metadata.items() if key != "fingerprint"})
    with pytest.raises(CheckpointError, match="does not fit the model"):
        Classifier.from_pretrained(tmp_path)


def test_code_that_a_file_names_does_not_run(
    trained: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evilnets.py").write_text("from pathlib import Path\nPath('executed').touch()\ndef net(shape, dim): ...\n")
    model = replace(trained.card.settings.model, backbone="evilnets:net")
    trained.card = replace(trained.card, settings=replace(trained.card.settings, model=model))
    trained.save_pretrained("saved")
    with pytest.raises(CheckpointError, match="trusted"):
        Classifier.from_pretrained("saved")
    with pytest.raises(CheckpointError, match="--trust evilnets:net"):
        load_target("hub:saved", trusted=["other:net", "another:net"])
    assert not Path("executed").exists()


def test_a_trusted_network_of_a_hub_model_is_evaluated(
    trained: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("hubnets.py").write_text(
        "from maxmahal.models import BACKBONES\ndef net(shape, dim):\n    return BACKBONES['cnn'](shape, dim)\n"
    )
    model = replace(trained.card.settings.model, backbone="hubnets:net")
    trained.card = replace(trained.card, settings=replace(trained.card.settings, model=model))
    trained.save_pretrained("saved")
    found = load_target("hub:saved", trusted=["hubnets:net"], device="cpu")
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(found.model(images), trained(images))


def test_a_model_built_by_hand_says_what_it_lacks(hub: ModuleType, tmp_path: Path) -> None:
    by_hand = Classifier(torch.nn.Flatten(), maxmahal.SCE(num_classes=3, feature_dim=64))
    with pytest.raises(ArgumentError, match="built by hand"):
        by_hand.save_pretrained(tmp_path)


@pytest.fixture
def offline(hub: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Hub's cache, and no network."""
    constants = importlib.import_module(f"{hub.__name__}.constants")  # the package imports its parts on first use
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


def test_a_repository_is_loaded_and_evaluated_by_its_name(
    trained: Classifier, offline: Path, tiny_npz: Path, tmp_path: Path
) -> None:
    folder = offline / "models--owner--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    trained.save_pretrained(folder / "snapshots" / ("0" * 40))
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(Classifier.from_pretrained("owner/name")(images), trained(images))
    suite = small_suite(*small_stages())
    (found,) = maxmahal.evaluate_models(
        ["hub:owner/name"], data=tiny_npz, suite=suite, limit=6, out=tmp_path / "records"
    )
    assert found.name == "name"
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match=r"no folder 'owner/name'.*config\.json"):
        Classifier.from_pretrained("owner/name")


def test_pushing_uploads_the_folder(
    hub: ModuleType, trained: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    def create(_: object, repo_id: str, **options: object) -> object:
        asked.append((repo_id, options["private"]))
        return hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def upload(_: object, *, repo_id: str, folder_path: str, **__: object) -> str:
        shutil.copytree(folder_path, tmp_path / "uploaded")
        return f"uploaded to {repo_id}"

    monkeypatch.setattr(hub.HfApi, "create_repo", create)
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    assert trained.push_to_hub("owner/name", private=True) == "uploaded to owner/name"
    assert asked == [("owner/name", True)]
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(Classifier.from_pretrained(tmp_path / "uploaded")(images), trained(images))
    with safetensors.safe_open(str(tmp_path / "uploaded" / "model.safetensors"), framework="pt") as file:
        assert file.metadata()["format"].startswith("maxmahal")


def test_pushing_without_a_network_is_one_sentence(offline: Path, trained: Classifier) -> None:
    with pytest.raises(ArgumentError, match="Cannot upload to owner/name: "):
        trained.push_to_hub("owner/name", token="hf_" + "x" * 34)


@pytest.mark.usefixtures("offline")
def test_a_repository_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(CheckpointError, match=r"^There is no folder 'owner/none', .*; check the name and the"):
        maxmahal.evaluate_model("hub:owner/none", data="digits")

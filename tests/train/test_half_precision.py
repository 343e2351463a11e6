"""Checkpoints in half precision: the backbone's kernels are rounded, all else is exact, and the file is evaluated."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from maxmahal import MMC, Classifier, evaluate_model, max_mahalanobis_centers
from maxmahal.errors import CheckpointError
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.train import Settings, load_model, save_model, train_model
from maxmahal.train.checkpoint import FINGERPRINT, ModelCard, read_metadata, read_tensors, save_tensors

Make = Callable[..., Settings]


@pytest.fixture
def model(tiny_settings: Make, tmp_path: Path) -> Classifier:
    """Trained for an epoch, so that batch norm and normalisation hold numbers that float16 would round."""
    train_model(tiny_settings("digits-mmc", "train.epochs=1", "model.normalize=channel"), tmp_path / "run")
    return load_model(tmp_path / "run")


def halved(model: Classifier, path: Path) -> Path:
    save_model(path, model, model.card, half=True)
    return path


def test_kernels_and_matrices_are_rounded_and_all_else_is_exact(model: Classifier, tmp_path: Path) -> None:
    path = halved(model, tmp_path / "half.safetensors")
    stored, loaded = read_tensors(path)[0], load_model(path).state_dict()
    before = model.state_dict()
    assert stored.keys() == loaded.keys() == before.keys()
    for name, tensor in before.items():
        is_kernel = name.startswith("backbone.") and tensor.ndim > 1
        assert stored[name].dtype == (torch.float16 if is_kernel else tensor.dtype), name
        assert loaded[name].dtype == tensor.dtype, name
        assert torch.equal(loaded[name], tensor.half().float() if is_kernel else tensor), name
    changed = {name for name in before if not torch.equal(before[name], loaded[name])}
    assert {"backbone.layers.0.weight", "backbone.feature.weight"} <= changed
    rounded = {name: tensor for name, tensor in before.items() if not torch.equal(tensor, tensor.to(torch.float16))}
    assert {"head.centers", "normalize.mean", "backbone.layers.1.running_var"} <= rounded.keys() - changed


def test_the_head_is_exact_even_where_it_is_trained(tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-sce", "train.epochs=1"), tmp_path / "run")
    model = load_model(tmp_path / "run")
    loaded = load_model(halved(model, tmp_path / "half.safetensors"))
    assert torch.equal(loaded.head.linear.weight, model.head.linear.weight)


def test_loading_and_writing_again_changes_nothing(model: Classifier, tmp_path: Path) -> None:
    first = halved(model, tmp_path / "first.safetensors")
    again = halved(load_model(first), tmp_path / "again.safetensors")
    assert read_metadata(again) == read_metadata(first), "with the fingerprint of the file's content"
    assert fingerprint_model(load_model(again)) == fingerprint_model(load_model(first)) != fingerprint_model(model)
    save_model(tmp_path / "wide.safetensors", load_model(first), model.card)
    assert fingerprint_model(load_model(tmp_path / "wide.safetensors")) == fingerprint_model(load_model(first))


def test_nothing_else_about_the_file_changes(model: Classifier, tmp_path: Path) -> None:
    save_model(tmp_path / "wide.safetensors", model, model.card)
    wide, half = tmp_path / "wide.safetensors", halved(model, tmp_path / "half.safetensors")
    metadata = [read_metadata(path) for path in (wide, half)]
    assert metadata[0].pop(FINGERPRINT) != metadata[1].pop(FINGERPRINT)
    assert metadata[0] == metadata[1]
    assert {tensor.dtype for tensor in read_tensors(wide)[0].values()} == {torch.float32, torch.int64}
    assert half.stat().st_size < 0.6 * wide.stat().st_size


def test_the_file_is_evaluated_by_its_path_under_a_name(model: Classifier, tmp_path: Path) -> None:
    path = halved(model, tmp_path / "run" / "half.safetensors")
    found = evaluate_model(f"mine={path}", suite="quick", limit=6)
    assert found.name == "mine"
    assert found.model_fingerprint == fingerprint_model(load_model(path)) != fingerprint_model(model)


@pytest.mark.parametrize("value", [7e4, -1e30, float("inf"), float("nan")])
def test_a_kernel_with_a_value_beyond_the_range_stays_in_float32(
    value: float, model: Classifier, tmp_path: Path
) -> None:
    with torch.no_grad():
        model.backbone.layers[0].weight[0, 0, 0, 0] = value
    path = halved(model, tmp_path / "half.safetensors")
    stored = read_tensors(path)[0]
    assert stored["backbone.layers.0.weight"].dtype == torch.float32
    assert stored["backbone.layers.3.weight"].dtype == torch.float16
    loaded = load_model(path).state_dict()["backbone.layers.0.weight"]
    assert torch.equal(loaded.nan_to_num(3.0), model.backbone.layers[0].weight.nan_to_num(3.0))


def test_a_kernel_that_would_vanish_stays_in_float32(model: Classifier, tmp_path: Path) -> None:
    with torch.no_grad():
        model.backbone.layers[0].weight *= 1e-8  # of no account before batch norm, unless all of it becomes zero
        model.backbone.layers[3].weight[0] = 1e-9  # one filter is lost, which changes this kernel by nothing
    path = halved(model, tmp_path / "half.safetensors")
    stored = read_tensors(path)[0]
    assert stored["backbone.layers.0.weight"].dtype == torch.float32
    assert stored["backbone.layers.3.weight"].dtype == torch.float16


class Tied(nn.Module):
    """Two names for one matrix, others in float64 and float16, and a table that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight
        self.fine = nn.Parameter(torch.rand(64, 8, dtype=torch.float64))
        self.coarse = nn.Parameter(torch.rand(64, 8).half())
        self.register_buffer("table", torch.rand(64, 64))

    def forward(self, images: Tensor) -> Tensor:
        features = self.second(self.first(images.flatten(1)) @ self.table)
        return (features.double() @ (self.fine + self.coarse)).float()


def test_tied_weights_stay_equal_and_other_types_and_buffers_exact(model: Classifier, tmp_path: Path) -> None:
    tied = Classifier(Tied(), MMC(max_mahalanobis_centers(3, 8)), model.normalize)
    card: ModelCard = model.card
    save_model(tmp_path / "half.safetensors", tied, card, half=True)
    loaded = load_model(tmp_path / "half.safetensors", backbone=Tied()).backbone
    assert torch.equal(loaded.first.weight, tied.backbone.first.weight.half().float())
    assert torch.equal(loaded.second.weight, loaded.first.weight)
    assert torch.equal(loaded.fine, tied.backbone.fine)
    assert loaded.coarse.dtype == torch.float16
    assert torch.equal(loaded.table, tied.backbone.table)


def test_float16_of_another_shape_or_for_a_counter_is_refused(model: Classifier, tmp_path: Path) -> None:
    path = halved(model, tmp_path / "half.safetensors")
    tensors, metadata = read_tensors(path)
    counter = "backbone.layers.1.num_batches_tracked"
    for name, wrong in (("backbone.layers.0.weight", torch.ones(2).half()), (counter, torch.tensor(1.0).half())):
        save_tensors(path, tensors | {name: wrong}, metadata)
        with pytest.raises(CheckpointError, match=f"'{name}' is torch.float"):
            load_model(path)

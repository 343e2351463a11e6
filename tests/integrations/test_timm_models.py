"""timm's own networks, built and loaded by timm itself."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import maxmahal
from maxmahal.errors import MaxmahalError
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.imports import import_function, only_named
from maxmahal.train import Settings, train_model

Library = Callable[[str], ModuleType]
NAME = "resnet10t.c3_in1k"


@pytest.fixture
def timm(library: Library) -> ModuleType:
    return library("timm")


@pytest.fixture
def cached(timm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """timm's network with weights in the cache of the Hub, as if they had been downloaded."""
    constants = pytest.importorskip("huggingface_hub").constants
    torch.manual_seed(0)
    network = timm.create_model(NAME, pretrained=False).eval()
    folder = tmp_path / "cache" / f"models--timm--{NAME}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    safetensors.torch.save_file(network.state_dict(), snapshot / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return network  # type: ignore[no-any-return]


def test_a_pretrained_model_normalises_inside(cached: torch.nn.Module) -> None:
    before = torch.random.get_rng_state()
    target = load_target(f"timm:{NAME}")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert target.name == NAME
    images = torch.rand(2, 3, 64, 64)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = cached((images - mean[:, None, None]) / std[:, None, None])
    assert not target.model.training  # type: ignore[union-attr]
    torch.testing.assert_close(target.model(images), expected)
    assert not torch.allclose(target.model(images), cached(images))


def test_a_pretrained_model_is_evaluated_by_name(cached: torch.nn.Module, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    names = np.array([f"c{number}" for number in range(1000)])
    np.savez(tmp_path / "d.npz", test_images=images, test_labels=np.array([0, 1]), class_names=names)
    (found,) = maxmahal.evaluate_models([f"timm:{NAME}"], data=tmp_path / "d.npz", suite="quick", out=tmp_path / "out")
    assert found.finished
    assert found.target == f"timm:{NAME}"


def test_a_network_is_trained_and_loaded_again_only_if_the_user_names_it(
    timm: ModuleType, tiny_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    name = "timm:resnet10t"
    settings = tiny_settings("digits-mmc", f"model.backbone={name}", "train.epochs=1")
    train_model(settings, tmp_path / "run")
    with pytest.raises(MaxmahalError, match="trust"):
        maxmahal.load(tmp_path / "run")
    model = maxmahal.load(tmp_path / "run", trusted=[name])
    assert type(model.backbone).__module__.startswith("timm.")
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def test_a_transformer_is_built_for_the_size_of_the_images(timm: ModuleType) -> None:
    with only_named("timm:vit_tiny_patch16_224"):
        network = import_function("timm:vit_tiny_patch16_224")((1, 32, 48), 7)
    assert network(torch.rand(2, 1, 32, 48)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("resnet10x", "timm has no model 'resnet10x'; did you mean"), ("resnet10t.c9", "no weights 'c9' of resnet10t; ")],
)
def test_an_unknown_name_is_one_sentence(timm: ModuleType, name: str, hint: str) -> None:
    with pytest.raises(MaxmahalError, match=hint):
        load_target(f"timm:{name}")


@pytest.mark.parametrize(("suffix", "interpolation"), [("@256-224-bicubic", "bicubic"), ("@256-224", "bilinear")])
def test_a_folder_is_prepared_as_timm_prepares_it(
    cached: torch.nn.Module, timm: ModuleType, tmp_path: Path, suffix: str, interpolation: str
) -> None:
    """Scaled, cut and normalised, of any size; then attacked at 4/255, of 1000 classes of which the folder has two."""
    draw = np.random.default_rng(0)
    expected = []
    prepare = timm.data.create_transform((3, 224, 224), interpolation=interpolation, crop_pct=224 / 256)
    for label, (height, width) in enumerate([(301, 257), (230, 500)]):
        picture = Image.fromarray(draw.integers(0, 256, (height, width, 3), dtype=np.uint8))
        path = tmp_path / f"data/{label}/0.png"
        path.parent.mkdir(parents=True)
        picture.save(path)
        expected.append(prepare(picture))
    found = maxmahal.load_dataset(f"{tmp_path}/data{suffix}", "test")
    target = load_target(f"timm:{NAME}")
    torch.testing.assert_close(target.model(found.float_images()), cached(torch.stack(expected)))
    done = maxmahal.evaluate_model(f"timm:{NAME}", f"{tmp_path}/data{suffix}", suite="quick", epsilon="4/255")
    assert done.finished
    assert (done.data, len(done.class_names), done.samples) == (f"data{suffix}", 1000, 2)

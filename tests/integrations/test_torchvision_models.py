"""torchvision's own classifiers, built and loaded by torchvision itself."""

import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from maxmahal.errors import MaxmahalError
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.imports import import_function, only_named

NAME = "squeezenet1_1"


@pytest.fixture
def models(library: Callable[[str], ModuleType]) -> ModuleType:
    return library("torchvision.models")


@pytest.fixture
def file(models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where torchvision looks for the weights that it downloaded."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    path = tmp_path / "hub" / "checkpoints" / models.get_model_weights(NAME).DEFAULT.url.rpartition("/")[2]
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("weights", ["", ".IMAGENET1K_V1"])
def test_a_pretrained_model_normalises_inside(models: ModuleType, file: Path, weights: str) -> None:
    network = models.get_model(NAME).eval()
    torch.save(network.state_dict(), file)
    before = torch.random.get_rng_state()
    target = load_target(f"torchvision:{NAME}{weights}")
    assert torch.equal(torch.random.get_rng_state(), before)
    images = torch.rand(2, 3, 64, 64)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    torch.testing.assert_close(target.model(images), network((images - mean[:, None, None]) / std[:, None, None]))
    assert not target.model.training  # type: ignore[union-attr]


class _Executed:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("import builtins; builtins.maxmahal_was_executed = True",)


def test_code_in_a_downloaded_file_does_not_run(models: ModuleType, file: Path) -> None:
    import builtins

    torch.save({**models.get_model(NAME).state_dict(), "extra": _Executed()}, file)
    with pytest.raises(MaxmahalError, match="UnpicklingError"):
        load_target(f"torchvision:{NAME}")
    assert not hasattr(builtins, "maxmahal_was_executed")
    assert pickle.loads(pickle.dumps(_Executed())) is None  # the file would have done it
    del builtins.maxmahal_was_executed  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "size"), [("resnet18", 32), ("vit_b_16", 32)])
def test_a_network_to_train_has_the_width_of_the_head(models: ModuleType, name: str, size: int) -> None:
    with only_named(f"torchvision:{name}"):
        network = import_function(f"torchvision:{name}")((3, size, size), 7)
    assert network(torch.rand(2, 3, size, size)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet19", "no classifier 'resnet19'; did you mean 'resnet18'"),
        ("fcn_resnet50", "no classifier"),
        ("resnet18.V7", "no weights 'V7' of resnet18; "),
    ],
)
def test_an_unknown_name_is_one_sentence(models: ModuleType, name: str, hint: str) -> None:
    with pytest.raises(MaxmahalError, match=hint):
        load_target(f"torchvision:{name}")


def test_grey_images_are_refused(models: ModuleType) -> None:
    with only_named("torchvision:resnet18"), pytest.raises(MaxmahalError, match="3 channels, and these have 1"):
        import_function("torchvision:resnet18")((1, 28, 28), 7)

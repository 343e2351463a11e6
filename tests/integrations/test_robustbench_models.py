"""RobustBench's own networks, loaded by RobustBench itself."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from maxmahal.errors import MaxmahalError
from maxmahal.evaluate.evaluated_model import load_target

NAME = "Rice2020Overfitting"


@pytest.fixture
def utils(library: Callable[[str], ModuleType]) -> ModuleType:
    return library("robustbench.utils")


def test_a_model_is_loaded_by_data_threat_and_name(
    utils: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = utils.BenchmarkDataset.cifar_10, utils.ThreatModel.L2
    network = utils.all_models[kind[0]][kind[1]][NAME]["model"]().eval()
    file = tmp_path / "models" / "cifar10" / "L2" / f"{NAME}.pt"
    file.parent.mkdir(parents=True)
    torch.save(network.state_dict(), file)
    target = load_target(f"robustbench:cifar10/L2/{NAME}")
    assert target.name == NAME
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(target.model(images), network(images))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (NAME, "not robustbench:DATA/THREAT/NAME; choose one of: cifar10/L2"),
        (f"cifar10/L1/{NAME}", "did you mean 'cifar10/L2'"),
        ("cifar10/L2/Rice2020Overfiting", f"did you mean '{NAME}'"),
    ],
)
def test_an_unknown_name_is_one_sentence(utils: ModuleType, name: str, hint: str) -> None:
    with pytest.raises(MaxmahalError, match=hint):
        load_target(f"robustbench:{name}")

import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from maxmahal.attacks import Linf, pgd
from maxmahal.errors import ArgumentError
from maxmahal.imports import integration

THREAT = Linf(0.1)


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request: pytest.FixtureRequest, library: Callable[[str], ModuleType]) -> ModuleType:
    library("lightning.pytorch")
    return library(request.param)


def small_module(lightning: Any) -> Any:
    class Small(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.network = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 3))

        def forward(self, images: Tensor) -> Tensor:
            return self.network(images)  # type: ignore[no-any-return]

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch: list[Tensor], _: int) -> None:
            self.log("val_accuracy", (self(batch[0]).argmax(dim=1) == batch[1]).float().mean())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.5)

    return Small()


def loader() -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(48) % 3
    images = 0.6 * torch.rand(48, 1, 4, 4, generator=generator)
    images[torch.arange(48), 0, labels] += 0.25
    return DataLoader(TensorDataset(images, labels), batch_size=16)


def fit(lightning: Any, folder: Path, callback: Any, epochs: int = 3) -> tuple[Any, Any]:
    module = small_module(lightning)
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice on workers and loggers
        trainer = lightning.Trainer(
            max_epochs=epochs, callbacks=[callback], default_root_dir=folder, enable_model_summary=False, **settings
        )
        trainer.fit(module, loader(), loader())
    return trainer, module


@pytest.mark.parametrize("batches", [1, None])
def test_the_accuracy_under_attack_is_logged(lightning: ModuleType, tmp_path: Path, batches: int | None) -> None:
    callback = integration("lightning").LogRobustAccuracy(THREAT, steps=5, batches=batches)
    trainer, module = fit(lightning, tmp_path, callback)
    images, labels = (torch.cat(parts) for parts in zip(*list(loader())[:batches], strict=True))
    expected = pgd(module.eval(), images, labels, threat=THREAT, steps=5, seed=0).accuracy
    logged = float(trainer.callback_metrics["val_robust_accuracy"])
    assert logged == pytest.approx(expected)
    assert 0 < logged < float(trainer.callback_metrics["val_accuracy"])


def test_training_is_the_same_with_and_without_it(lightning: ModuleType, tmp_path: Path) -> None:
    attacked = integration("lightning").LogRobustAccuracy(THREAT, steps=2)
    with_it, without = (fit(lightning, tmp_path, each, 2)[1] for each in (attacked, lightning.Callback()))
    for one, other in zip(with_it.parameters(), without.parameters(), strict=True):
        assert torch.equal(one, other)


def test_no_batches_are_refused(lightning: ModuleType) -> None:
    with pytest.raises(ArgumentError, match="batches must be at least 1"):
        integration("lightning").LogRobustAccuracy(THREAT, batches=0)

"""Adversarial weight perturbation, in closed form on quadratics, and as a part of a training step."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from maxmahal import MMC, Classifier, max_mahalanobis_centers, train_model
from maxmahal.train import Settings, TrainSettings
from maxmahal.train.config import CPUSettings
from maxmahal.train.methods import AdversarialTraining, Batch, Trades, TrainingMethod
from maxmahal.train.optimiser import build_optimiser, perturbed_weights
from maxmahal.train.step import WARM_UP, RecordedStep, Step

METHODS = [TrainingMethod(), AdversarialTraining(steps=2, epsilon=0.1), Trades(steps=2, epsilon=0.1, divergence="own")]


class Quadratic(nn.Module):
    """½‖W - A‖² + ½‖V‖² + ½‖b‖² with two matrices and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        self.second = nn.Parameter(torch.tensor([[0.0, 2.0]]))
        self.bias = nn.Parameter(torch.tensor([1.0, 1.0]))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self) -> Tensor:
        self.calls += 1
        center = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
        return 0.5 * sum(each.square().sum() for each in (self.first - center, self.second, self.bias))


def test_each_matrix_moves_by_a_share_of_its_norm_along_its_gradient() -> None:
    model = Quadratic()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with perturbed_weights(model, model, 0.1):
        # ‖W‖ = 5 and its gradient is diag(3, 3), of length 3√2; V's gradient is V itself.
        move = 0.1 * 5 / 2**0.5
        torch.testing.assert_close(model.first.detach(), torch.diag(torch.tensor([3.0 + move, 4.0 + move])))
        torch.testing.assert_close(model.second.detach(), torch.tensor([[0.0, 2.2]]))
        assert torch.equal(model.bias, before["bias"])
        assert model.calls == 0, "what the first pass did to buffers is undone"
        assert model() > 0.5 * (9 + 9 + 4 + 2)
    assert model.calls == 1
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])


def test_weights_come_back_after_an_error_and_without_a_gradient_they_stay() -> None:
    model = Quadratic()
    before = model.first.detach().clone()
    with pytest.raises(ZeroDivisionError), perturbed_weights(model, model, 0.1):
        raise ZeroDivisionError
    assert torch.equal(model.first, before)
    with perturbed_weights(model, lambda: 0.0 * model(), 0.1):
        assert torch.equal(model.first, before)


def small_model() -> Classifier:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return Classifier(backbone, MMC(max_mahalanobis_centers(3, 4)))


def small_batch(step: int = 0, steps: int = 1) -> Batch:
    images = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    return Batch(images, torch.arange(12) % 3, torch.arange(12), 5, step=step, steps=steps)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_step_takes_the_gradient_at_the_perturbed_weights_for_any_method(method: TrainingMethod) -> None:
    settings = TrainSettings(lr=0.01, momentum=0.0, weight_decay=0.0, awp=0.2)
    model, by_hand = small_model(), small_model()
    loss = Step(model, build_optimiser(model, settings), method, None, CPUSettings(), settings)(small_batch(), 0.01)

    batch = small_batch()
    crafted = Batch(batch.images, batch.labels, batch.sample_ids, 5, attacked=method.craft(by_hand, batch))
    weights = [parameter for parameter in by_hand.parameters() if parameter.ndim == 2]
    other = small_model_with(by_hand)
    gradients = torch.autograd.grad(
        method.loss(other, crafted), [each for each in other.parameters() if each.ndim == 2]
    )
    originals = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight += 0.2 * weight.norm() * gradient / gradient.norm()
    expected = method.loss(by_hand, crafted)
    torch.testing.assert_close(loss, expected.detach())
    expected.backward()
    with torch.no_grad():
        for weight, original in zip(weights, originals, strict=True):
            weight.copy_(original)
        for parameter in by_hand.parameters():
            parameter -= 0.01 * parameter.grad
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, by_hand.state_dict()[name], msg=name)


def small_model_with(model: Classifier) -> Classifier:
    copied = small_model()
    copied.load_state_dict(model.state_dict())
    return copied.train(model.training)


def test_it_begins_after_its_share_of_the_training() -> None:
    losses = {}
    for name, settings in (
        ("never", TrainSettings(lr=0.01)),
        ("later", TrainSettings(lr=0.01, awp=0.2, awp_start=0.5)),
        ("now", TrainSettings(lr=0.01, awp=0.2)),
    ):
        model = small_model()
        step = Step(model, build_optimiser(model, settings), TrainingMethod(), None, CPUSettings(), settings)
        losses[name] = [float(step(small_batch(number, 4), 0.01)) for number in range(4)]
    assert losses["never"][:2] == losses["later"][:2]
    assert losses["later"][2] > losses["never"][2]
    assert losses["now"][0] > losses["never"][0]


def test_a_recorded_step_is_recorded_anew_where_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the recording, because there may be no GPU."""
    recorded: list[int] = []

    class Pretended(RecordedStep):
        def _aside(self, batch: Batch) -> Tensor:
            return Step._take(self, batch)

        def _record(self, batch: Batch) -> Any:
            recorded.append(batch.step)
            return SimpleNamespace(replay=lambda new: Step._take(self, new))

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    settings = TrainSettings(lr=0.01, awp=0.2, awp_start=0.5)
    losses = []
    for kind in (Pretended, Step):
        model = small_model()
        step = kind(model, build_optimiser(model, settings), TrainingMethod(), None, CPUSettings(), settings)
        losses.append([float(step(small_batch(number, 12), 0.01)) for number in range(12)])
    assert recorded == [WARM_UP, 6 + WARM_UP]
    assert losses[0] == losses[1]


def test_a_run_with_everything_new_resumes_to_the_same_weights(
    tmp_path: Path, tiny_settings: Callable[..., Settings]
) -> None:
    settings = tiny_settings(
        "digits-at-mmc", "train.awp=0.01", "train.awp_start=0.3", "train.swa=0.5", "train.ema=0", "method.ramp=0.5",
        "method.mix=0.7", "method.joint=true", "data.cutmix=0.5", "data.augment=idbh-weak", "train.epochs=4",
        "method.distill=0.5",
    )  # fmt: skip
    train_model(settings, tmp_path / "whole")

    class Stopping:
        def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None: ...
        def step(self) -> None: ...
        def note(self, text: str) -> None: ...
        def epoch(self, metrics: dict[str, int | float]) -> None:
            if metrics["epoch"] == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "parts", reporter=Stopping())
    train_model(settings, tmp_path / "parts", resume=True)
    whole, parts = (load_file(tmp_path / name / "last.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)

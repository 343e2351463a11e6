"""The learning rate against the values the paper names, and the parts of the optimiser."""

import threading
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

from maxmahal import SCE, ArcFace, Classifier
from maxmahal.errors import SettingsError
from maxmahal.train import TrainSettings
from maxmahal.train.optimiser import WeightAverage, average_weight, build_optimiser, learning_rate


@pytest.mark.parametrize(("epoch", "rate"), [(0, 0.01), (99.99, 0.01), (100, 0.001), (149.9, 0.001), (150, 1e-4)])
def test_step_decay_is_the_papers(epoch: float, rate: float) -> None:
    settings = TrainSettings(epochs=200, lr=0.01, milestones=(0.5, 0.75), factor=0.1)
    assert learning_rate(settings, round(100 * epoch), 200 * 100) == pytest.approx(rate)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_warm_up_reaches_the_peak_and_the_end_is_zero(schedule: str) -> None:
    settings = TrainSettings(lr=0.1, schedule=schedule, warmup=0.1)  # type: ignore[arg-type]
    assert learning_rate(settings, 0, 1000) == pytest.approx(0.001)
    assert learning_rate(settings, 49, 1000) == pytest.approx(0.05)
    assert learning_rate(settings, 99, 1000) == pytest.approx(0.1)
    assert learning_rate(settings, 550, 1000) == pytest.approx(0.05)
    assert learning_rate(settings, 1000, 1000) == pytest.approx(0.0, abs=1e-12)


@given(st.integers(0, 999), st.sampled_from(["step", "cosine", "linear"]), st.floats(0, 0.5))
def test_the_rate_never_exceeds_its_peak(step: int, schedule: str, warmup: float) -> None:
    settings = TrainSettings(lr=0.3, schedule=schedule, warmup=warmup)  # type: ignore[arg-type]
    assert 0 < learning_rate(settings, step, 1000) <= 0.3 * (1 + 1e-12)


@pytest.mark.parametrize(("decay", "expected"), [("convolutions", {"0.weight"}), ("weights", {"0.weight", "3.weight"})])
def test_only_what_is_named_decays(decay: str, expected: set[str]) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    optimiser = build_optimiser(model, TrainSettings(lr=0.5, momentum=0.0, weight_decay=0.2, decay=decay))  # type: ignore[arg-type]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for name, value in model.named_parameters():
        factor = 1 - 0.5 * 0.2 if name in expected else 1.0
        torch.testing.assert_close(value.detach(), factor * before[name])
    grouped = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    assert len(grouped) == len(set(grouped)) == len(list(model.parameters()))


def test_the_class_weights_of_a_head_decay_with_the_others() -> None:
    for head in (SCE(num_classes=3, feature_dim=2), ArcFace(num_classes=3, feature_dim=2)):
        decayed = build_optimiser(head, TrainSettings(decay="weights")).param_groups[0]["params"]
        assert [tuple(parameter.shape) for parameter in decayed] == [(3, 2)]


def test_a_weight_that_two_layers_share_steps_once() -> None:
    first, second = nn.Conv2d(2, 2, 1, bias=False), nn.Conv2d(2, 2, 1, bias=False)
    second.weight = first.weight
    optimiser = build_optimiser(nn.Sequential(first, second), TrainSettings())
    assert sum(len(group["params"]) for group in optimiser.param_groups) == 1


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    ("normed", "expected"),
    [
        (nn.utils.weight_norm, {"0.weight_g", "0.weight_v"}),
        (nn.utils.spectral_norm, {"0.weight_orig"}),
        (parametrizations.weight_norm, {f"0.parametrizations.weight.original{place}" for place in (0, 1)}),
        (parametrizations.spectral_norm, {"0.parametrizations.weight.original"}),
    ],
)
def test_what_a_weight_is_computed_from_decays(normed: Callable[[nn.Module], nn.Module], expected: set[str]) -> None:
    model = nn.Sequential(normed(nn.Conv2d(1, 2, 3)), nn.BatchNorm2d(2))
    decayed, others = (group["params"] for group in build_optimiser(model, TrainSettings()).param_groups)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(parameter)] for parameter in decayed} == expected
    assert {names[id(parameter)] for parameter in others} == set(names.values()) - expected


def test_weight_average_follows_its_formula() -> None:
    norm = nn.BatchNorm1d(2)
    model = Classifier(norm, SCE(num_classes=3, feature_dim=2))
    average = WeightAverage(model, TrainSettings(ema=0.9))
    start = {name: value.clone() for name, value in norm.state_dict().items()}
    with torch.no_grad():
        norm.weight.fill_(3.0)
        norm.running_mean.fill_(5.0)
        norm.num_batches_tracked.fill_(7)
    average.update(0, 10)
    state = average.model.backbone.state_dict()
    torch.testing.assert_close(state["weight"], 0.9 * start["weight"] + 0.1 * 3.0)
    torch.testing.assert_close(state["running_mean"], torch.full((2,), 0.5))
    assert state["num_batches_tracked"] == 7
    assert norm.weight[0] == 3.0


def averaged(settings: TrainSettings, values: list[float]) -> list[float]:
    """The average after each step, of one weight that has these values after the steps."""
    model = Classifier(nn.BatchNorm1d(1), SCE(num_classes=2, feature_dim=1))
    average = WeightAverage(model, settings)
    found = []
    for step, value in enumerate(values):
        with torch.no_grad():
            model.backbone.bias.fill_(value)
        average.update(step, len(values))
        found.append(float(average.model.backbone.bias))
    return found


def test_the_average_warms_up() -> None:
    settings = TrainSettings(ema=0.5, ema_warmup=True)
    decays = [1 - average_weight(settings, step, 100) for step in (0, 1, 7, 8, 50)]
    assert decays == pytest.approx([1 / 10, 2 / 11, 8 / 17, 0.5, 0.5])
    assert averaged(settings, [1.0, 2.0]) == pytest.approx([0.9, 0.9 * 2 / 11 + 2 * 9 / 11])
    assert averaged(TrainSettings(ema=0.5), [1.0, 2.0]) == pytest.approx([0.5, 1.25])


def test_stochastic_weight_averaging_is_the_mean_of_all_weights_from_its_start() -> None:
    found = averaged(TrainSettings(swa=0.5), [5.0, 6.0, 7.0, 1.0, 2.0, 6.0])
    assert found == pytest.approx([5.0, 6.0, 7.0, 1.0, 1.5, 3.0])
    assert average_weight(TrainSettings(swa=0.55), 55, 100) == 1 / 1
    assert average_weight(TrainSettings(swa=0.55), 56, 100) == 1 / 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ema": 0.9, "swa": 0.5}, "set one of them"),
        ({"ema_warmup": True}, "needs train.ema"),
        ({"swa": 0.0}, "in \\(0, 1\\]"),
        ({"awp": 1.0}, "train.awp must lie in"),
    ],
)
def test_averages_that_exclude_each_other_are_refused(changes: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TrainSettings(**changes)  # type: ignore[arg-type]


def test_a_network_that_cannot_be_copied_cannot_be_averaged() -> None:
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), SCE(num_classes=2, feature_dim=2))
    model.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(SettingsError, match=r"cannot be copied \(.*lock.*\), so its weights cannot be averaged"):
        WeightAverage(model, TrainSettings(ema=0.9))

"""Single checks where more than a flag is to be known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from masked_models import Noise, ThroughNumpy, behind, digits, probe_of, trained
from torch import Tensor, nn

from maxmahal.attacks import Linf, Result, craft
from maxmahal.attacks.engine import run
from maxmahal.attacks.method import Method
from maxmahal.attacks.square import RandomSquares
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.diagnose.binarization import STEPS, Features, plant
from maxmahal.evaluate.diagnose.checks import CHECKS, TRANSFER_STEPS, _transferred
from maxmahal.evaluate.diagnose.probe import Probe, gives_gradients
from maxmahal.models import Classifier


@pytest.mark.parametrize("name", CHECKS)
def test_every_annotation_holds(name: str) -> None:
    assert CHECKS[name](probe_of(trained("sce"), count=12)).check == name


def test_dropout_left_in_train_mode_is_named() -> None:
    model = nn.Sequential(nn.Dropout(0.3), trained("sce")).eval()
    assert not CHECKS["randomness"](probe_of(model)).flagged
    model[0].train()
    finding = CHECKS["randomness"](probe_of(model))
    assert finding.flagged
    assert finding.adds == ("eot",)
    assert "train mode: 0." in finding.sentence


def test_batch_norm_left_in_train_mode_is_seen_by_the_company_of_a_sample() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), trained("sce")).eval()
    assert not CHECKS["randomness"](probe_of(model)).flagged
    model[0].train()
    finding = CHECKS["randomness"](probe_of(model))
    assert finding.flagged
    assert finding.numbers["differ"] == 0
    assert finding.adds == ()


def test_noise_below_the_last_digits_is_no_randomness() -> None:
    assert not CHECKS["randomness"](probe_of(behind(Noise(1e-6), trained("sce")))).flagged


def test_noise_does_not_make_honest_gradients_look_shattered() -> None:
    finding = CHECKS["gradient-direction"](probe_of(behind(Noise(0.5), trained("sce")), stochastic=True))
    assert not finding.flagged, finding.sentence


def test_a_flat_model_and_a_saturated_one_get_different_remedies() -> None:
    saturated = CHECKS["zero-gradients"](probe_of(nn.Sequential(trained("sce"), _Times(1000.0)).eval()))
    flat = CHECKS["zero-gradients"](probe_of(nn.Sequential(_Steps(), trained("sce")).eval()))
    assert saturated.adds == ("scale-free",)
    assert saturated.numbers["cross_entropy"] > 0.9
    assert saturated.numbers["margin"] == 0
    assert flat.adds == ("straight-through", "black-box")
    assert flat.numbers == {"cross_entropy": 1.0, "margin": 1.0}


@pytest.mark.parametrize(("inside", "flat"), [(0.0, 1.0), (1.0, 0.0)], ids=["in all pixels", "in black pixels"])
def test_gradients_that_are_nan_are_told_apart_from_zero_ones(inside: float, flat: float) -> None:
    finding = CHECKS["zero-gradients"](probe_of(nn.Sequential(_Rooted(inside), trained("sce")).eval()))
    zero = CHECKS["zero-gradients"](probe_of(nn.Sequential(_Steps(), trained("sce")).eval()))
    assert finding.flagged
    assert finding.title == "Gradients that are NaN or infinite"
    assert "is NaN or infinite, in some pixels at least, for 100.0 % of the images" in finding.sentence
    assert "exactly zero" not in finding.sentence
    assert (finding.remedy, finding.adds) == (zero.remedy, zero.adds)
    assert finding.numbers == {"cross_entropy": flat, "margin": flat, "not_finite": 1.0}


def test_a_few_images_without_finite_gradients_raise_no_flag() -> None:
    whole = probe_of(nn.Sequential(_Rooted(1.0, first_only=True), trained("sce")).eval())
    finding = CHECKS["zero-gradients"](whole)
    assert not finding.flagged, finding.sentence


@pytest.mark.parametrize("step", ["no derivative", "numpy without detach"])
def test_steps_that_fail_where_a_gradient_is_wanted_count_as_without_one(step: str) -> None:
    model = nn.Sequential(_Fails(step), trained("sce")).eval()
    assert not gives_gradients(model, digits("test")[0])
    assert CHECKS["zero-gradients"](probe_of(model)).flagged
    assert CHECKS["black-box-wins"](probe_of(model, count=30)).flagged


def test_other_failures_of_a_model_are_not_hidden() -> None:
    with pytest.raises(ArgumentError, match="shapes"):
        gives_gradients(nn.Sequential(nn.Flatten(), nn.Linear(3, 3)), digits("test")[0])


def test_a_substitute_breaks_a_model_that_shows_no_gradient() -> None:
    network = trained("sce")
    finding = CHECKS["black-box-wins"](probe_of(behind(ThroughNumpy(), network), others={"same": network}))
    assert finding.numbers["sources"] == ["same"]
    assert "transfer" in finding.adds
    assert finding.numbers["transfer"] > 0.2


def test_substitutes_without_gradients_are_left_out() -> None:
    network = trained("sce")
    others = {"function": lambda images: network(images), "numpy": behind(ThroughNumpy(), network)}
    assert CHECKS["black-box-wins"](probe_of(network, others=others)).numbers["substitutes"] == 0


def test_checks_share_their_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(probe_of(trained("adversarial"), count=12), threat=Linf("1/10"))
    alone = CHECKS["black-box-wins"](given)
    probe, methods = replace(given), []
    for name in ("objective-gap", "epsilon-growth", "still-falling"):
        CHECKS[name](probe)

    def counted(method: Method, *rest: Any, **options: Any) -> Result:
        methods.append(method)
        return run(method, *rest, **options)

    monkeypatch.setattr("maxmahal.evaluate.diagnose.probe.run", counted)
    assert CHECKS["black-box-wins"](probe) == alone
    assert [type(method) for method in methods] == [RandomSquares]


def test_two_samples_of_a_small_probe_are_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    for broken, flagged in ((2, False), (3, True)):
        lucky = _lucky(broken)
        monkeypatch.setattr(Probe, "random_squares", lucky)
        finding = CHECKS["black-box-wins"](probe_of(trained("adversarial"), count=20))
        assert finding.numbers["square"] == broken / 20
        assert finding.flagged == flagged


def _lucky(broken: int) -> Callable[..., Tensor]:
    return lambda probe, **_: torch.arange(len(probe.images)) < broken


def test_the_curve_of_epsilons_starts_at_zero_and_ends_at_grey() -> None:
    numbers = CHECKS["epsilon-growth"](probe_of(trained("sce"))).numbers
    assert numbers["epsilons"][0] == 0
    assert numbers["epsilons"][-1] == 0.5
    assert 0.1 in numbers["epsilons"]
    assert sum(0 < epsilon < 0.1 for epsilon in numbers["epsilons"]) >= 2
    assert numbers["epsilons"] == sorted(numbers["epsilons"])
    assert len(numbers["accuracies"]) == len(numbers["epsilons"])
    assert numbers["accuracies"][0] == float(probe_of(trained("sce")).is_right.double().mean())


def test_effort_never_raises_the_accuracy_over_starts() -> None:
    numbers = CHECKS["still-falling"](probe_of(trained("sce"), count=40)).numbers
    assert numbers["accuracy_by_restarts"] == sorted(numbers["accuracy_by_restarts"], reverse=True)
    assert len(numbers["steps"]) == len(numbers["accuracy_by_steps"])
    assert len(numbers["restarts"]) == len(numbers["accuracy_by_restarts"])


@pytest.mark.parametrize(
    ("by_steps", "by_start", "adds"),
    [(20, 0, ("steps",)), (0, 20, ("restarts",)), (20, 20, ("steps", "restarts")), (0, 0, ()), (3, 2, ())],
)
def test_what_more_effort_finds_is_asked_for(
    by_steps: int, by_start: int, adds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack that breaks so many more of 100 samples with the last doubling of its steps, and with every start."""

    def breaks(probe: Probe, objective: object, *, steps: int, start: int = 0, among: Tensor | None = None) -> Tensor:
        first, last = start * by_start, (start + 1) * by_start
        rows = torch.arange(len(probe.images))
        return ((first <= rows) & (rows < last)) | (rows >= 100 - by_steps * (steps == 100))

    monkeypatch.setattr(Probe, "auto_descent", breaks)
    finding = CHECKS["still-falling"](probe_of(trained("sce")))
    assert finding.adds == adds
    assert finding.flagged == bool(adds)
    assert all(word in finding.remedy for word in adds)


def test_a_planted_example_exists_and_no_inner_point_is_one() -> None:
    generator = torch.Generator().manual_seed(0)
    inner = torch.randn(6, 100, 5, generator=generator)
    edge = 8 * torch.randn(6, 3, 5, generator=generator)
    readouts = plant(inner, edge)
    assert bool(readouts.separates.any())
    rows = readouts.separates
    assert bool((readouts(inner)[rows] < 0).all())
    assert bool(((readouts(edge) > 0).any(dim=1))[rows].all())


def test_nothing_is_planted_among_points_that_cannot_be_told_apart() -> None:
    inner = torch.randn(4, 50, 5, generator=torch.Generator().manual_seed(0))
    assert not bool(plant(inner, inner.mean(dim=1, keepdim=True)).separates.any())


def test_what_was_found_from_one_start_is_not_looked_for_from_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked = []

    def craft_and_count(model: nn.Module, images: Tensor, *arguments: object, **options: object) -> Tensor:
        attacked.append(len(images))
        return craft(model, images, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("maxmahal.evaluate.diagnose.binarization.craft", craft_and_count)
    numbers = CHECKS["binarization"](probe_of(trained("sce"), count=40)).numbers
    assert attacked[0] == numbers["planted"]
    assert sum(attacked[1:]) < attacked[0] / 2
    assert numbers["found"] > 0.8


def test_planted_examples_and_transfer_report_their_progress() -> None:
    """So that an evaluation can stop inside of them when its time is up."""
    model, reports = trained("sce"), []
    probe = replace(probe_of(model, count=40), progress=reports.append)
    CHECKS["binarization"](probe)
    assert len(reports) > STEPS, "before each pass"
    reports.clear()
    _transferred(probe, "other", model)
    assert len(reports) >= TRANSFER_STEPS


def test_features_are_what_the_last_linear_layer_sees() -> None:
    images, _ = digits("test")
    network = trained("sce")
    assert isinstance(network, Classifier)
    expected = network.features(images[:5])
    torch.testing.assert_close(Features(network)(images[:5]), expected)
    torch.testing.assert_close(Features(nn.Sequential(nn.Identity(), network).eval())(images[:5]), expected)
    flat = nn.Sequential(nn.Flatten(), _Times(2.0)).eval()
    torch.testing.assert_close(Features(flat)(images[:5]), 2 * images[:5].flatten(1))


class _Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        return self.factor * values


class _Fails(nn.Module):
    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step

    def forward(self, images: Tensor) -> Tensor:
        if self.step == "no derivative":
            return images // 0.0625 * 0.0625
        return torch.from_numpy(images.numpy().copy())


class _Rooted(nn.Module):
    """The images as they are; at black pixels, or in all of them where ``inside`` is 0, the gradient is NaN."""

    def __init__(self, inside: float, *, first_only: bool = False) -> None:
        super().__init__()
        self.inside, self.first_only = inside, first_only

    def forward(self, images: Tensor) -> Tensor:
        rooted = images[:1] if self.first_only else images
        return images + torch.cat([0 * (self.inside * rooted).sqrt(), torch.zeros_like(images[len(rooted) :])])


class _Steps(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return (15 * images).round() / 15

"""The chains: no budget is exceeded, every run has its own start, and more is found than by one run."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from maxmahal import MMC, Classifier, max_mahalanobis_centers
from maxmahal.attacks import Engine, Linf, apgd, cross_entropy, margin
from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import ArgumentError
from maxmahal.evaluate import attack_hard, attack_within, evaluate_model
from maxmahal.evaluate import worst_case as module

THREAT = Linf(0.1)
SUITE = """
version = 1
about = "small"
epsilon = "0.1"
[[stage]]
name = "noise"
attack = "noise"
scope = "all"
counts = false
[[stage]]
name = "apgd"
attack = "apgd"
steps = 3
[[stage]]
name = "square"
attack = "square"
queries = 5
search = "precise"
"""
pytestmark = pytest.mark.usefixtures("unchecked")


class Counting(nn.Module):
    """A small network that counts the gradients it is asked for, per image."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))
        self.gradients = 0

    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad:
            self.gradients += len(images)
        logits: Tensor = self.layers(images)
        return logits


@pytest.fixture(scope="module")
def samples() -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A network trained for a moment, and digits that it gets right."""
    data = load_dataset("digits", "train")
    images, labels = data.float_images()[:600], data.labels[:600]
    torch.manual_seed(0)
    model = Counting()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    model.eval()
    right = (model(images).argmax(1) == labels).nonzero().squeeze(1)[:100]
    return model, images[right], labels[right], data.sample_ids[right]


@pytest.mark.parametrize("gradients", [1, 3, 7, 50, 199, 200, 250])
def test_no_sample_costs_more_gradients_than_allowed(gradients: int) -> None:
    """On a constant model nothing succeeds, so that every sample spends all it has."""
    model = Counting().eval()
    nn.init.zeros_(model.layers[3].weight)  # type: ignore[arg-type]
    with torch.no_grad():
        model.layers[3].bias.copy_(-torch.arange(10.0))  # type: ignore[union-attr,operator]
    images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
    found = attack_within(model, images, labels, threat=THREAT, gradients=gradients, seed=0)
    assert found.accuracy == 1
    assert 4 * (gradients - 9) < model.gradients <= 4 * gradients


def test_short_runs_in_turn_find_more_than_one_long_run(samples: tuple[nn.Module, Tensor, Tensor, Tensor]) -> None:
    model, images, labels, ids = samples
    found = attack_within(model, images, labels, threat=THREAT, gradients=48, seed=0, sample_ids=ids)
    for objective in (margin(), cross_entropy()):
        alone = apgd(model, images, labels, objective=objective, threat=THREAT, steps=48, seed=0, sample_ids=ids)
        assert found.fooled.sum() >= alone.fooled.sum()
    assert 0 < found.accuracy < 1, "neither everything nor nothing breaks, or the comparison says nothing"
    assert list(found.survivors.values()) == sorted(found.survivors.values(), reverse=True)
    with torch.no_grad():
        assert torch.equal(model(found.images).argmax(1) != labels, found.fooled)
    assert float((found.images - images).abs().max()) <= THREAT.radius + 1e-6


def test_every_run_starts_elsewhere(
    samples: tuple[nn.Module, Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def spy(*arguments: object, **settings: object) -> object:
        seeds.append(settings["seed"])
        return apgd(*arguments, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "apgd", spy)
    model, images, labels, _ = samples
    attack_within(model, images, labels, threat=Linf(0.001), gradients=200, seed=0)
    assert len(set(seeds)) == len(seeds) == 5
    attack_within(model, images, labels, threat=Linf(0.001), gradients=200, seed=1)
    assert len(set(seeds)) == 10


def test_verdicts_do_not_depend_on_the_batch_or_the_order(samples: tuple[nn.Module, Tensor, Tensor, Tensor]) -> None:
    model, images, labels, ids = samples
    whole = attack_within(model, images, labels, threat=THREAT, gradients=20, seed=0, sample_ids=ids)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    parts = attack_within(
        model,
        images[order],
        labels[order],
        threat=THREAT,
        gradients=20,
        seed=0,
        sample_ids=ids[order],
        engine=Engine(batch_size=7),
    )
    assert torch.equal(parts.fooled, whole.fooled[order])


def test_two_classes_leave_one_target() -> None:
    torch.manual_seed(0)
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), MMC(max_mahalanobis_centers(2, 4))).eval()
    images = torch.rand(8, 1, 8, 8)
    labels = model(images).argmax(1)
    found = attack_within(model, images, labels, threat=Linf(1e-6), gradients=200, seed=0)
    assert list(found.survivors)[-1] == "APGD-100, margin to the other class"
    hard = attack_hard(model, images.requires_grad_(), labels, threat=Linf(1e-6), seed=0)
    assert "APGD-100, margin to the other class" in hard.survivors
    assert not hard.images.requires_grad


@pytest.mark.parametrize("gradients", [10, 200])
def test_a_model_of_one_class_is_refused(gradients: int) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1)).eval()
    with pytest.raises(ArgumentError, match="at least two classes"):
        attack_within(model, torch.rand(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), THREAT, gradients=gradients)


def test_a_model_in_train_mode_is_refused_before_it_is_asked() -> None:
    """One image through batch norm in train mode would change its statistics."""
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 3)).train()
    before = model[0].running_mean.clone()  # type: ignore[union-attr,operator]
    images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
    for attack in (
        lambda: attack_hard(model, images, labels, threat=THREAT, seed=0),
        lambda: attack_within(model, images, labels, threat=THREAT, gradients=4, seed=0),
    ):
        with pytest.raises(ArgumentError, match="train mode"):
            attack()
    assert torch.equal(model[0].running_mean, before)  # type: ignore[arg-type]


def test_a_budget_of_nothing_is_refused(samples: tuple[nn.Module, Tensor, Tensor, Tensor]) -> None:
    model, images, labels, _ = samples
    with pytest.raises(ArgumentError, match="gradients must be a whole number of at least 1; got 0"):
        attack_within(model, images, labels, threat=THREAT, gradients=0, seed=0)


def test_the_hard_attack_is_the_suite_sample_by_sample(
    samples: tuple[nn.Module, Tensor, Tensor, Tensor], tmp_path: Path
) -> None:
    """The stages that count, on the samples that are still correct, with the seeds of an evaluation."""
    model, images, labels, ids = samples
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE)
    found = attack_hard(model, images, labels, threat=THREAT, seed=3, suite=suite, sample_ids=ids)
    pixels = (255 * images).round().to(torch.uint8)
    assert torch.equal(pixels.float() / 255, images)
    data = ImageData.from_arrays("right", pixels, labels, [str(each) for each in range(10)])
    recorded = evaluate_model(model, out=tmp_path / "out", suite=suite, data=data, seed=3)
    assert list(found.survivors) == [stage.title for stage in recorded.stages if stage.counts and stage.name != "clean"]
    assert 0 < found.accuracy < 1
    with torch.no_grad():
        assert torch.equal(model(found.images).argmax(1) != labels, found.fooled)
    ours = attack_hard(model, images, labels, threat=THREAT, seed=3, suite=suite, sample_ids=data.sample_ids)
    assert ours.accuracy == recorded.verdict.robust.value

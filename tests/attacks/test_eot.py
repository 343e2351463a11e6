"""Expectation over transformation: a stochastic model with known mean and variance."""

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Result, custom, margin, pgd, straight_through
from maxmahal.attacks.oracle import FOOLED, Samples, make_oracle
from maxmahal.attacks.spsa import spsa

PIXELS, CLASSES, COUNT, SCATTER = 48, 3, 6, 6.0
WEIGHT = torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(1))
IMAGES = 0.3 + 0.4 * torch.rand(COUNT, 3, 4, 4, generator=torch.Generator().manual_seed(0))
FIRST_LOGIT = custom(lambda outputs, labels, targets: outputs.logits[:, 0])


def mean_logits(images: Tensor) -> Tensor:
    return (images.flatten(1) - 0.5) @ WEIGHT.T


LABELS = mean_logits(IMAGES).argmax(dim=1)


class Noisy(nn.Module):
    """Every pixel of every draw is multiplied by 1 + 6ξ: the gradient's sign is little better than a coin's."""

    def forward(self, images: Tensor) -> Tensor:
        return mean_logits(0.5 + (images - 0.5) * (1 + SCATTER * torch.randn_like(images)))


def gradients(eot_samples: int, count: int = 500, chunk: int = 1000) -> Tensor:
    images, labels = torch.full((count, 3, 4, 4), 0.5), torch.zeros(count, dtype=torch.int64)
    oracle = make_oracle(Noisy(), FIRST_LOGIT, chunk, eot_samples)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        _, gradient = oracle.gradient(images, Samples(images, labels, labels, None, labels, FOOLED))
    assert oracle.passes.forward == oracle.passes.backward == oracle.passes.queries == eot_samples * count
    return gradient.flatten(1)


@pytest.mark.parametrize("eot_samples", [1, 4, 16])
def test_the_gradient_scatters_around_the_means_gradient_with_a_variance_of_one_in_k(eot_samples: int) -> None:
    scores = (gradients(eot_samples) - WEIGHT[0]) / (SCATTER * WEIGHT[0].abs())
    assert float(scores.var() * eot_samples) == pytest.approx(1, rel=0.05)
    assert abs(scores.mean()) < 4 / scores.numel() ** 0.5


def test_draws_that_do_not_fit_into_one_batch_are_still_averaged() -> None:
    scores = (gradients(16, chunk=7) - WEIGHT[0]) / (SCATTER * WEIGHT[0].abs())
    assert float(scores.var() * 16) == pytest.approx(1, rel=0.05)


def attack(eot_samples: int, model: nn.Module | None = None, **settings: object) -> Result:
    chosen = {"objective": margin(), "threat": Linf(0.25), "steps": 4, "step_size": 0.1, "seed": 0, "keep": "last"}
    return pgd(
        Noisy().eval() if model is None else model,
        IMAGES,
        LABELS,
        engine=Engine(eot_samples=eot_samples, early_exit=False),
        **(chosen | settings),
    )


def fooled_on_average(found: Result) -> int:
    return int((mean_logits(found.images).argmax(dim=1) != LABELS).sum())


def margins(found: Result) -> Tensor:
    logits = mean_logits(found.images)
    return logits.gather(1, LABELS[:, None])[:, 0] - logits.scatter(1, LABELS[:, None], -torch.inf).amax(dim=1)


def test_averaging_breaks_what_a_single_draw_does_not() -> None:
    known = pgd(
        lambda_module(mean_logits),
        IMAGES,
        LABELS,
        objective=margin(),
        threat=Linf(0.25),
        steps=4,
        step_size=0.1,
        seed=0,
    )
    averaged = attack(200)
    assert fooled_on_average(averaged) == int(known.fooled.sum()) == COUNT
    with torch.random.fork_rng():
        torch.manual_seed(0)
        single = attack(1)
    assert margins(averaged).mean() < margins(single).mean() - 5


def lambda_module(function: object) -> nn.Module:
    class Plain(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return function(images)

    return Plain().eval()


def test_passes_count_every_draw() -> None:
    found = attack(5)
    assert found.passes.backward == 5 * COUNT * 4
    assert found.passes.queries == 5 * COUNT * (1 + 4)
    assert found.passes.forward == 5 * COUNT * (1 + 4 + 1)


def test_the_callers_random_numbers_stand_still() -> None:
    before = torch.random.get_rng_state()
    attack(3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_seed_alone_decides() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        one = attack(3, random_start=False)
        torch.manual_seed(2)
        again, other = attack(3, random_start=False), attack(3, random_start=False, seed=1)
    assert torch.equal(one.images, again.images)
    assert torch.equal(one.predictions, again.predictions)
    assert not torch.equal(one.images, other.images)


def test_queries_are_averaged_too() -> None:
    settings = {"objective": margin(), "threat": Linf(0.25), "steps": 3, "evaluations": 32, "delta": 0.1}
    model = lambda_module(lambda images: mean_logits(images) + torch.randn(len(images), CLASSES))
    engine = Engine(eot_samples=8, early_exit=False)
    found = spsa(model, IMAGES, LABELS, learning_rate=0.1, seed=0, engine=engine, **settings)
    assert found.passes.queries == 8 * COUNT * (1 + 3 * 33)
    assert fooled_on_average(found) == COUNT


def dithered(images: Tensor) -> Tensor:
    """A stochastic defence that hides its gradient: eight levels, rounded up or down at random."""
    return (images * 7 + torch.rand_like(images)).floor() / 7


def test_a_random_defence_without_gradients_falls_to_both_together() -> None:
    classifier = lambda_module(mean_logits)
    found = attack(16, nn.Sequential(straight_through(dithered), classifier).eval())
    assert fooled_on_average(found) == COUNT
    assert found.passes.backward == 16 * COUNT * 4
    with pytest.raises(Exception, match=r"No gradient reaches the images"):
        attack(16, nn.Sequential(lambda_module(lambda images: dithered(images.detach())), classifier).eval())

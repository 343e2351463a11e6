"""The engine's manners: memory, progress, and leaving everything as it was found."""

from collections.abc import Callable

import pytest
import torch
from small_models import Curved, curved_classifier, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Progress, Result, cross_entropy, margin, mim, pgd
from maxmahal.errors import ArgumentError

COUNT, STEPS = 12, 4
IMAGES, IDS = uniform(1, COUNT, 1, 4, 4), torch.arange(COUNT)
MODEL = Curved(row_by_row=True).eval()
LABELS = predictions(MODEL, IMAGES)
LABELS[[2, 7]] = (LABELS[[2, 7]] + 1) % 4


def attack(model: nn.Module, **changes: object) -> Result:
    arguments: dict[str, object] = {"objective": margin(), "threat": Linf(0.05), "steps": STEPS, "step_size": 0.025}
    return pgd(model, IMAGES, LABELS, seed=0, sample_ids=IDS, **(arguments | changes))


class Cramped(nn.Module):
    """Room for a few images at a time."""

    def __init__(self, room: int, error: Callable[[], Exception]) -> None:
        super().__init__()
        self.room, self.error = room, error
        self.sizes: list[int] = []
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.sizes.append(len(images))
        if len(images) > self.room:
            raise self.error()
        return MODEL(images)


OUT_OF_MEMORY = {
    "cuda": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
    "cpu": lambda: RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 2 GiB"),
    "windows": lambda: RuntimeError("not enough memory: you tried to allocate 2 GiB"),
    "python": lambda: MemoryError(),
}


@pytest.mark.parametrize("kind", OUT_OF_MEMORY)
@pytest.mark.parametrize("room", [1, 4, 5])
@pytest.mark.parametrize("early_exit", [True, False])
def test_when_memory_runs_out_fewer_images_are_asked_about_at_a_time(kind: str, room: int, early_exit: bool) -> None:
    model, engine = Cramped(room, OUT_OF_MEMORY[kind]), Engine(early_exit=early_exit)
    attacked, roomy = attack(model, engine=engine), attack(MODEL, engine=engine)
    assert torch.equal(attacked.images, roomy.images)
    assert torch.equal(attacked.predictions, roomy.predictions)
    assert attacked.passes == roomy.passes
    # Halved until it fits, and then remembered.
    failures = [size for size in model.sizes if size > room]
    assert failures == model.sizes[: len(failures)]
    assert len(failures) == {1: 3, 4: 2, 5: 2}[room]


def test_memory_that_runs_out_on_the_way_back_is_no_different() -> None:
    class CrampedBackwards(Cramped):
        def forward(self, images: Tensor) -> Tensor:
            if images.requires_grad and len(images) > self.room:
                images = images.clone()
                images.register_hook(self._fail)
            return MODEL(images)

        def _fail(self, gradient: Tensor) -> Tensor:
            raise self.error()

    attacked = attack(CrampedBackwards(5, OUT_OF_MEMORY["cpu"]))
    assert torch.equal(attacked.images, attack(MODEL).images)


def test_draws_of_a_stochastic_model_count_as_images() -> None:
    model = Cramped(6, OUT_OF_MEMORY["cuda"])
    attacked = attack(model, engine=Engine(eot_samples=4, batch_size=8))
    assert max(model.sizes[1:]) <= 6
    assert attacked.passes.forward % 4 == 0
    assert torch.equal(attacked.fooled, attack(MODEL).fooled)


@pytest.mark.parametrize("kind", OUT_OF_MEMORY)
def test_no_memory_for_a_single_image_is_one_sentence(kind: str) -> None:
    with pytest.raises(ArgumentError, match="Memory ran out on a single image; free some, or attack a smaller model"):
        attack(Cramped(0, OUT_OF_MEMORY[kind]))


def test_other_errors_are_told_once() -> None:
    mistake = RuntimeError("mat1 and mat2 shapes cannot be multiplied (12x16 and 15x4)")
    model = Cramped(0, lambda: mistake)
    with pytest.raises(ArgumentError, match="The model cannot take") as told:
        attack(model)
    assert told.value.__cause__ is mistake
    assert model.sizes == [COUNT]

    class Later(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if not torch.equal(images, IMAGES):
                raise mistake
            return MODEL(images)

    with pytest.raises(ArgumentError, match="The model cannot take") as told:
        attack(Later().eval())
    assert told.value.__cause__ is mistake


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ({}, 1),
        ({"keep": "last"}, 1),
        ({"keep": "last", "restarts": 3}, 3),
        ({"restarts": 3, "steps": 1}, 3),
        ({"targets": "all-others"}, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("early_exit", [True, False])
def test_progress_rises_to_the_end(
    options: dict[str, object], attempts: int, batch_size: int | None, early_exit: bool
) -> None:
    reports: list[Progress] = []
    engine = Engine(early_exit=early_exit, batch_size=batch_size, progress=reports.append)
    attacked = attack(MODEL, engine=engine, **options)
    broken = [report.broken for report in reports]
    assert broken == sorted(broken)
    assert broken[-1] == attacked.success.sum()
    rounds: list[list[Progress]] = [[]]
    for report in reports:
        assert 0 < report.settled <= report.total <= COUNT
        if rounds[-1] and report.settled <= rounds[-1][-1].settled:
            rounds.append([])
        rounds[-1].append(report)
    assert len(rounds) == attempts
    for one in rounds:
        assert len({report.total for report in one}) == 1
        assert one[-1].settled == one[-1].total
    totals = [one[0].total for one in rounds]
    assert totals == sorted(totals, reverse=True)
    assert (totals[-1] < COUNT) == (early_exit and options != {"keep": "last"})


@pytest.mark.parametrize("early_exit", [True, False])
@pytest.mark.parametrize("attack_with", [pgd, mim])
def test_the_model_the_images_and_the_random_state_are_left_as_they_were(
    attack_with: Callable[..., Result], early_exit: bool
) -> None:
    images = uniform(5, 8, 1, 8, 8)
    model = curved_classifier(images)
    labels = predictions(model, images)
    frozen = model.backbone.feature.bias.requires_grad_(False)
    kept_gradient = torch.ones_like(model.backbone.feature.weight)
    model.backbone.feature.weight.grad = kept_gradient
    calls: list[int] = []
    model.backbone.register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    hooks = [(len(module._forward_hooks), len(module._backward_hooks)) for module in model.modules()]
    pixels, truth, random_state = images.clone(), labels.clone(), torch.get_rng_state()
    options = {"objective": cross_entropy(), "threat": Linf(0.02), "steps": 2, "step_size": 0.01, "seed": 0}
    attacked = attack_with(model, images, labels, engine=Engine(early_exit=early_exit), **options)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (parameter is not frozen), name
        if name != "backbone.feature.weight":
            assert parameter.grad is None, name
    assert model.backbone.feature.weight.grad is kept_gradient
    assert torch.equal(kept_gradient, torch.ones_like(kept_gradient))
    assert not any(module.training for module in model.modules())
    assert [(len(module._forward_hooks), len(module._backward_hooks)) for module in model.modules()] == hooks
    assert calls
    assert torch.equal(images, pixels)
    assert torch.equal(labels, truth)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled()
    assert not attacked.images.requires_grad
    attacked.images.zero_()
    assert torch.equal(images, pixels)  # the result is a copy even of images that nobody moved


class Noisy(nn.Module):
    """A model that draws: by the state of torch's global generator, as defences do."""

    def forward(self, images: Tensor) -> Tensor:
        return MODEL(images + 0.05 * torch.randn_like(images))


def test_a_model_that_draws_gets_random_numbers_of_its_own() -> None:
    before = torch.get_rng_state()
    attacked = attack(Noisy().eval(), engine=Engine(eot_samples=3))
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(attack(Noisy().eval(), engine=Engine(eot_samples=3)).images, attacked.images)


def test_expectations_are_means_over_draws() -> None:
    """Averaged, noise of mean zero on the logits leaves the attack on the model alone."""

    class NoisyLogits(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            signs = torch.tensor([1.0, -1.0]).repeat(len(images) // 2)  # the two draws of each image cancel
            return MODEL(images) + 100 * signs[:, None] * torch.tensor([1.0, 0.0, 0.0, 0.0])

    linear = {"objective": lambda outputs, labels, targets: outputs.logits.gather(1, labels[:, None]).squeeze(1)}
    noisy, quiet = attack(NoisyLogits().eval(), engine=Engine(eot_samples=2), **linear), attack(MODEL, **linear)
    torch.testing.assert_close(noisy.images, quiet.images)
    assert torch.equal(noisy.fooled, quiet.fooled)
    assert noisy.passes.forward == 2 * quiet.passes.forward
    assert noisy.passes.backward == 2 * quiet.passes.backward

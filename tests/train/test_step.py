"""The training step: what it changes, what it draws beforehand, and that computed faster it is the same step."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from maxmahal import MMC, Classifier, load_settings, max_mahalanobis_centers, train_model
from maxmahal.data import ImageData
from maxmahal.models.layers import Float32Linear
from maxmahal.train import Settings, new_classifier
from maxmahal.train.config import CPUSettings, CUDASettings
from maxmahal.train.device import FastBackbone, accelerate, deterministic_algorithms, lay_out
from maxmahal.train.loop import Silent, batches
from maxmahal.train.methods import METHODS, AdversarialTraining, Batch, Trades, TrainingMethod
from maxmahal.train.methods.craft import crafting
from maxmahal.train.optimiser import WeightAverage, build_optimiser
from maxmahal.train.step import Step, step_kind

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
ADVERSARIAL = ["method.name=adversarial", "method.steps=2", "method.epsilon=0.1", "method.step_size=0.05"]


def random_data(count: int, device: str = "cpu") -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (count,), generator=generator)
    return ImageData.from_arrays("random", images, labels, [str(label) for label in range(10)]).to(device)


def small_batch(seed: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(0)
    return Batch(torch.rand(12, 1, 4, 4, generator=generator), torch.arange(12) % 3, torch.arange(12), seed)


def small_model() -> Classifier:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return Classifier(backbone, MMC(max_mahalanobis_centers(3, 4)))


def settings_for(*overrides: str) -> Settings:
    return load_settings("cifar10-mmc", ["train.batch_size=16", "train.lr=0.001", "train.epochs=5", *overrides])


def steps_of(settings: Settings, device: str, count: int, ema: float = 0.5) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and the weights' average after some steps."""
    data = random_data(count * settings.train.batch_size, device)
    model = new_classifier(settings, data)
    lay_out(model, settings.on(data.device))
    average = WeightAverage(model, replace(settings.train, ema=ema))
    method = settings.method.build(METHODS)
    device_settings = settings.on(data.device)
    step = step_kind(device_settings)(
        model, build_optimiser(model, settings.train), method, average, device_settings, settings.train
    )
    model.train()
    with deterministic_algorithms(settings.on(data.device)):
        # Another rate at every step: one that was frozen into a recording would show.
        losses = [
            float(step(batch, settings.train.lr * (1 + number % 3)))
            for number, batch in enumerate(batches(data, settings, 0))
        ]
    return losses, average.model.state_dict()


def assert_same(first: Path, second: Path) -> None:
    left, right = (load_file(folder / "last.safetensors") for folder in (first, second))
    assert all(torch.equal(tensor, right[name]) for name, tensor in left.items())


def test_a_step_is_loss_gradient_and_update_by_momentum() -> None:
    model, by_hand = small_model(), small_model()
    settings = load_settings("digits-mmc", ["train.momentum=0.5", "train.weight_decay=0.0"]).train
    step = Step(model, build_optimiser(model, settings), TrainingMethod(), None, CPUSettings())
    momentum = [torch.zeros_like(parameter) for parameter in by_hand.parameters()]
    for lr in (0.01, 0.02):
        loss = step(small_batch(), lr)
        expected = by_hand.loss(small_batch().images, small_batch().labels)
        torch.testing.assert_close(loss, expected.detach())
        gradients = torch.autograd.grad(expected, list(by_hand.parameters()))
        for parameter, moving, gradient in zip(by_hand.parameters(), momentum, gradients, strict=True):
            moving.mul_(0.5).add_(gradient)
            parameter.data.sub_(lr * moving)
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_teacher_is_the_average_of_the_weights_in_eval_mode() -> None:
    class Asked(AdversarialTraining):
        def loss(self, model: Classifier, batch: Batch) -> Tensor:
            assert batch.teacher is not None
            answers.append(batch.teacher.logits)
            return super().loss(model, batch)

    answers: list[Tensor] = []
    settings = load_settings("digits-mmc", ["train.ema=0.9"]).train
    model, batch = small_model(), replace(small_batch(), steps=3)
    average = WeightAverage(model, settings)
    method = Asked(epsilon=0.1, distill=0.5)
    step = Step(model, build_optimiser(model, settings), method, average, CPUSettings(), settings)
    for number in range(3):
        expected = average.model.eval()(batch.images)
        step(replace(batch, step=number), 0.05)
        assert torch.equal(answers[-1], expected)
        assert not answers[-1].requires_grad
    assert not torch.equal(answers[0], answers[2])


@pytest.mark.parametrize("method", [AdversarialTraining(targeted=True, epsilon=0.1), Trades(epsilon=0.1)])
def test_what_is_drawn_beforehand_is_what_would_be_drawn_inside(method: Any) -> None:
    batch = small_batch()
    drawn = Batch(batch.images, batch.labels, batch.sample_ids, batch.random_seed, method.draw(batch, 3))
    assert torch.equal(method.loss(small_model(), batch), method.loss(small_model(), drawn))
    assert (drawn.draws["start"] - batch.images).abs().amax() <= 0.1 + 1e-6
    assert not torch.equal(method.draw(small_batch(6), 3)["start"], drawn.draws["start"])


def test_nothing_random_is_left_inside_the_loss() -> None:
    method, batch = AdversarialTraining(targeted=True, epsilon=0.1), small_batch()
    draws = method.draw(batch, 3)
    other_seed = Batch(batch.images, batch.labels, batch.sample_ids, 99, draws)
    other_ids = Batch(batch.images, batch.labels, batch.sample_ids + 7, 5, draws)
    losses = {method.loss(small_model(), each).item() for each in (batch, other_seed, other_ids)}
    assert len(losses) == 1


def test_crafting_asks_for_no_gradients_of_parameters_and_gives_them_back_even_after_an_error() -> None:
    model = small_model()
    frozen = next(model.parameters()).requires_grad_(False)
    inside: list[bool] = []
    with pytest.raises(ZeroDivisionError), crafting(model):
        inside.append(model.training or any(parameter.requires_grad for parameter in model.parameters()) or 1 / 0 > 0)
    assert not inside, "the division comes last, so the model was as crafting wants it"
    assert model.training
    assert [parameter is not frozen for parameter in model.parameters()] == [
        parameter.requires_grad for parameter in model.parameters()
    ]


def test_a_batch_knows_its_place_in_the_training() -> None:
    settings = settings_for("train.epochs=2")
    places = [(batch.step, batch.steps, batch.progress) for batch in batches(random_data(40), settings, 1)]
    assert places == [(2, 4, 0.75), (3, 4, 1.0)]


def test_mixed_images_have_the_labels_of_both_and_do_not_depend_on_the_batch() -> None:
    data = random_data(60)
    parts = []
    for size in (20, 30):
        settings = settings_for("data.cutmix=0.6", f"train.batch_size={size}", "data.augment=none")
        parts.append({})
        for batch in batches(data, settings, 0):
            assert batch.mixed is not None
            for place, sample in enumerate(batch.sample_ids.tolist()):
                parts[-1][sample] = (batch.images[place], batch.labels[place], *(each[place] for each in batch.mixed))
    assert len(parts[0]) == 60
    originals = dict(zip(data.sample_ids.tolist(), data.float_images(), strict=True))
    for sample, found in parts[0].items():
        assert all(torch.equal(one, two) for one, two in zip(found, parts[1][sample], strict=True))
        changed = (found[0] != originals[sample]).any(dim=0).double().mean()
        assert float(1 - found[3]) == pytest.approx(float(changed), abs=0.01)  # a pixel may be the same in both
        if 0 < found[3] < 1:
            pasted = found[0] != originals[sample]
            pairs = zip(data.float_images(), data.labels, strict=True)
            assert found[2] in [label for image, label in pairs if torch.equal(image[pasted], found[0][pasted])]
    assert 20 < sum(bool(found[3] < 1) for found in parts[0].values()) < 50


def test_the_fast_model_is_the_same_model_laid_out_otherwise() -> None:
    data, settings = random_data(4), settings_for("cpu.channels_last=true")
    plain, laid_out = new_classifier(settings, data), new_classifier(settings, data)
    lay_out(laid_out, settings.cpu)
    fast = accelerate(laid_out, settings.cpu)
    assert isinstance(fast.backbone, FastBackbone)
    assert {id(each) for each in fast.parameters()} == {id(each) for each in laid_out.parameters()}
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in fast.parameters() if each.ndim == 4)
    losses = [model.train().loss(data.float_images(), data.labels) for model in (plain, fast)]
    torch.testing.assert_close(*losses)
    gradients = [
        torch.autograd.grad(loss, list(model.parameters()))
        for loss, model in zip(losses, (plain, laid_out), strict=True)
    ]
    for expected, found in zip(*gradients, strict=True):
        assert (found - expected).norm() <= 5e-3 * expected.norm() + 1e-4


def test_without_anything_to_change_the_model_is_used_as_it_is() -> None:
    model = small_model()
    assert accelerate(model, CPUSettings()) is model


def test_features_and_loss_stay_in_float32_in_bfloat16_training() -> None:
    data, settings = random_data(4), settings_for("cpu.precision=bfloat16")
    model = new_classifier(settings, data).eval()
    fast = accelerate(model, settings.cpu)
    with torch.no_grad():
        exact, coarse = model.features(data.float_images()), fast.features(data.float_images())
    assert coarse.dtype == torch.float32
    error = float((coarse - exact).norm() / exact.norm())
    assert 1e-5 < error < 0.05


def test_the_feature_layer_ignores_autocast_but_not_its_own_precision() -> None:
    layer, values = Float32Linear(8, 4), torch.randn(3, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not torch.equal(layer(values), nn.functional.linear(values, layer.weight, layer.bias).float())
        found = layer(values.bfloat16())
    assert found.dtype == torch.float32
    assert torch.equal(found, layer(values.bfloat16().float()))
    assert layer.double()(values.double()).dtype == torch.float64


def test_a_deterministic_run_does_not_compile() -> None:
    assert CUDASettings().compiled
    assert not CUDASettings(deterministic=True).compiled
    assert not CPUSettings().compiled


def test_settings_for_a_gpu_do_not_change_a_run_on_a_cpu(tmp_path: Path) -> None:
    overrides = ["train.epochs=1", "data.limit=64", "data.test_limit=8", "train.batch_size=32"]
    for name, more in (("a", []), ("b", ["cuda.precision=float32", "cuda.graph=false"])):
        train_model(load_settings("digits-at-mmc", [*overrides, *more]), tmp_path / name, device="cpu")
    assert_same(tmp_path / "a", tmp_path / "b")


class Clock:
    """A clock that an epoch moves on by ten seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def reporter(self) -> Silent:
        clock = self

        class Ticking(Silent):
            def epoch(self, metrics: dict[str, int | float]) -> None:
                clock.now += 10.0

        return Ticking()


def test_a_run_stops_before_its_time_is_up_and_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    overrides = ["train.epochs=4", "data.limit=64", "data.test_limit=8", "train.batch_size=32"]
    settings = load_settings("digits-mmc", overrides)
    whole = train_model(settings, tmp_path / "whole", device="cpu")
    assert whole["finished"]
    stopped = train_model(settings, tmp_path / "parts", device="cpu", until=clock.now + 25, reporter=clock.reporter())
    assert stopped == {"finished": False, "epoch": 2, "epochs": 4}
    assert not (tmp_path / "parts" / "result.json").exists()
    nothing = train_model(settings, tmp_path / "parts", device="cpu", resume=True, until=clock.now)
    assert nothing["epoch"] == 2
    rest = train_model(settings, tmp_path / "parts", device="cpu", resume=True, reporter=clock.reporter())
    assert rest["finished"]
    assert_same(tmp_path / "whole", tmp_path / "parts")


@needs_cuda
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "method",
    [
        [],
        ADVERSARIAL,
        ["method.name=trades", "method.steps=2"],
        [*ADVERSARIAL, "train.awp=0.01", "train.awp_start=0.12"],  # begins after the first recording
        [*ADVERSARIAL, "method.ramp=0.3", "method.mix=0.7", "method.joint=true", "data.cutmix=0.5"],
        [*ADVERSARIAL, "method.distill=0.5", "train.ema=0.5", "train.awp=0.01", "train.awp_start=0.12"],
    ],
)
def test_a_recorded_step_is_the_step_itself(method: list[str]) -> None:
    exact = ["cuda.precision=float32", "cuda.compile=false", "cuda.deterministic=true", *method]
    plain = steps_of(settings_for(*exact, "cuda.graph=false"), "cuda", 12)
    recorded = steps_of(settings_for(*exact), "cuda", 12)
    assert plain[0] == recorded[0]
    assert all(torch.equal(plain[1][name], recorded[1][name]) for name in plain[1])


@needs_cuda
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("method", [[], ADVERSARIAL])
def test_the_engine_trains_as_the_plain_loop_does(method: list[str]) -> None:
    slow = ["cuda.precision=float32", "cuda.compile=false", "cuda.graph=false", "cuda.channels_last=false"]
    plain, fast = steps_of(settings_for(*slow, *method), "cuda", 8), steps_of(settings_for(*method), "cuda", 8)
    assert plain[0] == pytest.approx(fast[0], rel=0.02)


@needs_cuda
@pytest.mark.parametrize("augment", [[], ["data.augment=idbh-weak", "data.cutmix=0.5"]])
def test_transformed_in_blocks_images_are_the_same(augment: list[str]) -> None:
    settings, data = settings_for(*augment), random_data(64, "cuda")
    alone = [batch.images for batch in batches(data.to("cpu"), settings, 1)]
    blocks = [batch.images.cpu() for batch in batches(data, settings, 1)]
    torch.testing.assert_close(alone, blocks, rtol=0, atol=1e-5)  # a GPU divides by multiplying with the inverse


@needs_cuda
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("method", [[], [*ADVERSARIAL, "data.validation=100"]])
def test_a_deterministic_run_on_a_gpu_resumes_to_the_same_bits(tmp_path: Path, method: list[str]) -> None:
    overrides = ["train.epochs=3", "train.batch_size=64", "train.ema=0.9", "cuda.deterministic=true", *method]
    settings = load_settings("digits-mmc", overrides)
    train_model(settings, tmp_path / "whole", device="cuda")

    class Stopping(Silent):
        def epoch(self, metrics: dict[str, int | float]) -> None:
            if metrics["epoch"] == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "parts", device="cuda", reporter=Stopping())
    train_model(settings, tmp_path / "parts", device="cuda", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")

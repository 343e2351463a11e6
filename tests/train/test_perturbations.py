"""Perturbations that are kept between epochs: they move with their pixels, stay in the ball, and survive a stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from maxmahal import MMC, Classifier, Linf, load_settings, max_mahalanobis_centers, train_model
from maxmahal.data import ImageData, augmentation
from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.train import Settings
from maxmahal.train.checkpoint import read_tensors, save_tensors
from maxmahal.train.config import CPUSettings
from maxmahal.train.loop import Silent, batches
from maxmahal.train.methods import METHODS, AdversarialTraining, Batch
from maxmahal.train.optimiser import build_optimiser
from maxmahal.train.perturbations import Perturbations
from maxmahal.train.processes import Processes
from maxmahal.train.step import WARM_UP, RecordedStep, Step

Make = Callable[..., Settings]
EPSILON = 0.1
NEW = -128
LAST = ["method.start=last", "data.augment=crop-flip"]


def image_data(count: int = 24, height: int = 9, width: int = 7) -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(40, 200, (count, 2, height, width), generator=generator, dtype=torch.uint8)
    return ImageData.from_arrays("random", images, torch.arange(count) % 3, ("a", "b", "c"))


def outermost_and_random(count: int, seed: int) -> Tensor:
    drawn = torch.rand(count, 3, generator=torch.Generator().manual_seed(seed))
    drawn[0], drawn[1] = torch.tensor([0.0, 1 - 2**-24, 0.1]), torch.tensor([1 - 2**-24, 0.0, 0.9])
    return drawn


def shown(data: ImageData, drawn: Tensor) -> Tensor:
    """By hand: which pixels of each image a crop at these numbers shows, mirrored or not."""
    height, width = data.images.shape[2:]
    top, left = ((drawn[:, axis] * 9).int()[:, None] - 4 for axis in (0, 1))
    rows, columns = torch.arange(height) - top, torch.arange(width) - left
    return ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, None]


@pytest.mark.parametrize("augment", ["none", "crop", "crop-flip"])
def test_a_perturbation_moves_with_its_pixels(augment: str) -> None:
    data, order = image_data(), torch.randperm(24, generator=torch.Generator().manual_seed(2))
    kept, function = Perturbations(data, augment, EPSILON), augmentation(augment)
    first, second = outermost_and_random(24, 1), outermost_and_random(24, 3).flip(0)
    images = function(data.images[order], first)
    kept.of(order, first).keep(EPSILON * (2 * images - 1))  # at every pixel a function of its value

    known = torch.ones(24, 1, 9, 7, dtype=torch.bool) if augment == "none" else shown(data, first)
    expected = torch.where(known, 127 * (2 * data.float_images()[order] - 1), NEW)
    torch.testing.assert_close(kept.codes[order].float(), expected, atol=0.51, rtol=0)

    images, unknown = function(data.images[order], second), torch.full_like(images, 0.5)
    start = kept.of(order, second).start(images, Linf(EPSILON), unknown)
    seen = function(known.to(torch.uint8) * 255, second).bool().expand_as(images)
    assert augment == "none" or 0.2 < seen.double().mean() < 0.9
    torch.testing.assert_close(start[seen], (images + EPSILON * (2 * images - 1))[seen], atol=EPSILON / 250, rtol=0)
    assert (start[~seen] == 0.5).all()


def test_what_a_crop_cuts_off_stays_as_it_was() -> None:
    data, rows = image_data(), torch.arange(24)
    kept = Perturbations(data, "crop", EPSILON)
    middle, corner = torch.full((24, 3), 0.5), torch.zeros(24, 3)
    kept.of(rows, middle).keep(torch.full((24, 2, 9, 7), EPSILON))
    kept.of(rows[:12], corner[:12]).keep(torch.full((12, 2, 9, 7), -EPSILON))
    cut = ~shown(data, corner).expand_as(kept.codes)
    assert (kept.codes[12:] == 127).all()
    assert torch.equal(kept.codes[:12] == 127, cut[:12])
    assert torch.equal(kept.codes[:12] == -127, ~cut[:12])
    assert kept.codes.nbytes == data.images.nbytes


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_start_lies_in_the_ball_and_in_the_range_of_pixels(share: float) -> None:
    data, rows = image_data(), torch.arange(24)
    data.images[:, 0, :3], data.images[:, 0, 3:6] = 0, 255
    kept, images = Perturbations(data, "none", EPSILON), data.float_images()
    signs = torch.rand(images.shape, generator=torch.Generator().manual_seed(0)).round() * 2 - 1
    last = kept.of(rows, torch.zeros(24, 3))
    last.keep(3 * EPSILON * signs)
    ball = Linf(share * EPSILON)
    start = last.start(images, ball, images)
    assert torch.equal(start, ball.project(images, start))
    torch.testing.assert_close(start, (images + share * EPSILON * signs).clamp(0, 1))


def small_model() -> Classifier:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(126, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return Classifier(backbone, MMC(max_mahalanobis_centers(3, 4)))


def small_settings(*overrides: str) -> Settings:
    attack = ["method.epsilon=0.1", "method.steps=1", "method.step_size=0.02", "method.start=last"]
    return load_settings("digits-at-mmc", ["train.batch_size=6", "data.augment=none", *attack, *overrides])


def taken(
    kind: type[Step], settings: Settings, epochs: int = 3, device: str = "cpu"
) -> tuple[list[float], list[Batch], Perturbations]:
    """Losses and batches of some epochs, each batch with the start that was used and what was crafted from it."""
    data, model = image_data().to(device), small_model().to(device)
    kept = Perturbations(data, settings.data.augment, EPSILON)
    train = replace(settings.train, epochs=epochs)
    settings, method, used = replace(settings, train=train), settings.method.build(METHODS), []
    step = kind(model, build_optimiser(model, train), method, None, CPUSettings(), train)
    losses = []
    for epoch in range(epochs):
        for batch in batches(data, settings, epoch, perturbations=kept):
            start = method.draw(batch, 3)["start"]
            losses.append(float(step(batch, 0.01)))
            used.append(replace(batch, draws={"start": start}, attacked=step._crafted.clone()))
    return losses, used, kept


@pytest.mark.parametrize("awp", ["train.awp=0", "train.awp=0.05"])
@pytest.mark.parametrize("name", ["adversarial", "trades", "pairing"])
def test_crafting_goes_on_where_the_last_epoch_ended(name: str, awp: str) -> None:
    _, used, kept = taken(Step, small_settings(f"method.name={name}", awp))
    by_epoch: list[dict[int, tuple[Tensor, Tensor]]] = [{}, {}, {}]
    for batch in used:
        for sample, *ends in zip(batch.sample_ids.tolist(), batch.draws["start"], batch.attacked, strict=True):
            by_epoch[batch.step // 4][sample] = ends
    for sample, image in enumerate(image_data().float_images()):
        (first, *_), *_ = ends = [epoch[sample] for epoch in by_epoch]
        assert 0.09 < (first - image).abs().max() <= EPSILON + 1e-6, "a random start"
        kept_end = image + kept.codes[sample] * (EPSILON / 127)
        for (_, before), after in zip(ends, (ends[1][0], ends[2][0], kept_end), strict=True):
            torch.testing.assert_close(after, before, atol=EPSILON / 250, rtol=0)


def test_the_default_keeps_nothing() -> None:
    method = AdversarialTraining(epsilon=EPSILON)
    assert method.reused is None
    assert all(batch.last is None for batch in batches(image_data(), small_settings("method.start=random"), 0))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("awp", [[], ["train.awp=0.05", "train.awp_start=0.4"]])
def test_a_recorded_step_reads_the_start_and_gives_back_what_it_crafted(
    awp: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the graph, because there may be no GPU: it reads and writes the tensors of the recording."""
    recorded: list[int] = []

    class Graph:
        def replay(self) -> None:
            loss = Step._take(self.step, self.inputs)
            self.loss.copy_(loss)
            self.crafted.copy_(self.step._crafted)
            self.step._crafted = self.crafted

    class Pretended(RecordedStep):
        def _aside(self, batch: Batch) -> Tensor:
            return Step._take(self, batch)

        def _record(self, batch: Batch) -> Any:
            recorded.append(batch.step)
            recording = super()._record(batch)
            graph = recording.graph
            graph.step, graph.inputs, graph.loss, graph.crafted = self, recording.inputs, recording.loss, self._crafted
            return recording

    @contextmanager
    def capturing(graph: Graph) -> Iterator[None]:
        """What is recorded does not run."""
        (step,) = steps
        before = [each.clone() for each in step._original.state_dict().values()]
        momentum = {key: dict(value) for key, value in step._optimiser.state.items()}
        buffers = {key: value["momentum_buffer"].clone() for key, value in momentum.items()}
        yield
        with torch.no_grad():
            for value, old in zip(step._original.state_dict().values(), before, strict=True):
                value.copy_(old)
            for key, value in buffers.items():
                step._optimiser.state[key]["momentum_buffer"].copy_(value)

    steps: list[Step] = []
    original = Step.__init__

    def remember(self: Step, *arguments: Any) -> None:
        original(self, *arguments)
        steps[:] = [self]

    monkeypatch.setattr(Step, "__init__", remember)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capturing)
    plain, replayed = (taken(kind, small_settings(*awp, "data.augment=crop-flip")) for kind in (Step, Pretended))
    assert recorded == ([WARM_UP, 4 + WARM_UP] if awp else [WARM_UP])
    assert plain[0] == replayed[0]
    assert torch.equal(plain[2].codes, replayed[2].codes)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("awp", [[], ["train.awp=0.05", "train.awp_start=0.4"]])
def test_a_step_that_is_recorded_keeps_the_same(awp: list[str]) -> None:
    settings = small_settings(*awp, "data.augment=crop-flip")
    plain, recorded = (taken(kind, settings, device="cuda") for kind in (Step, RecordedStep))
    assert plain[0] == recorded[0]
    assert torch.equal(plain[2].codes, recorded[2].codes)


class StopAfter(Silent):
    """Stops in the middle of the epoch after these."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch(self, metrics: dict[str, int | float]) -> None:
        self.epochs -= 1

    def step(self) -> None:
        if not self.epochs:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "choices",
    [("digits-at-mmc", "method.ramp=0.5", "train.awp=0.01"), ("digits-trades-sce",), ("digits-pairing-mmc",)],
)
def test_a_stopped_run_resumes_to_the_same_bits(
    choices: tuple[str, ...], tiny_settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxmahal.train.run.SAVE_SECONDS", 0.0)
    settings = tiny_settings(*choices, *LAST, "train.epochs=4")
    train_model(settings, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "parts", reporter=StopAfter(2))
    train_model(settings, tmp_path / "parts", resume=True)
    for name in ("last", "state"):
        whole, parts = (load_file(tmp_path / run / f"{name}.safetensors") for run in ("whole", "parts"))
        assert whole.keys() == parts.keys()
        assert all(torch.equal(whole[key], parts[key]) for key in whole), name
    assert whole["perturbations"].dtype == torch.int8
    assert whole["perturbations"].shape == (96, 1, 8, 8)
    train_model(tiny_settings(*choices, "data.augment=crop-flip", "train.epochs=4"), tmp_path / "random")
    random = load_file(tmp_path / "random" / "last.safetensors")
    last = load_file(tmp_path / "whole" / "last.safetensors")
    assert not all(torch.equal(random[key], last[key]) for key in last)
    assert "perturbations" not in load_file(tmp_path / "random" / "state.safetensors")


@pytest.mark.parametrize("damage", [lambda codes: None, lambda codes: codes[:1]])
def test_a_state_without_its_perturbations_is_refused(
    damage: Callable[[Tensor], Tensor | None], tiny_settings: Make, tmp_path: Path
) -> None:
    train_model(tiny_settings("digits-at-mmc", *LAST, "train.epochs=1"), tmp_path / "run")
    state = tmp_path / "run" / "state.safetensors"
    tensors, metadata = read_tensors(state)
    codes = damage(tensors.pop("perturbations"))
    save_tensors(state, tensors if codes is None else tensors | {"perturbations": codes}, metadata)
    with pytest.raises(CheckpointError, match="damaged momentum, perturbation or random state; start a new run folder"):
        train_model(tiny_settings("digits-at-mmc", *LAST, "train.epochs=1"), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["data.augment=shift-flip"], r"only moves pixels \(none, crop, crop-flip\); got data.augment = 'shift-flip'"),
        (["data.augment=idbh-weak"], "got data.augment = 'idbh-weak'"),
        (["data.cutmix=0.5"], r"cannot follow mixed images; set data.cutmix = 0 \(now 0.5\)"),
        (["method.noise=2.0"], "method.noise must be at most 1; got 2.0"),
        (["method.start=zero"], "method.start"),
    ],
)
def test_what_cannot_be_followed_is_refused(overrides: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load_settings("digits-at-mmc", [*LAST, *overrides])


def test_several_processes_are_refused(tiny_settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def two(*_: object, **__: object) -> Iterator[Processes]:
        yield Processes(0, 2, joined=True)

    monkeypatch.setattr("maxmahal.train.run.joined", two)
    with pytest.raises(SettingsError, match="trains in one process only; start it without torchrun"):
        train_model(tiny_settings("digits-at-mmc", *LAST), tmp_path / "run")
    assert not (tmp_path / "run").exists()

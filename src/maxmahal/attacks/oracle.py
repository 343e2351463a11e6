"""The model under attack: answers questions about samples, counts them, and splits batches when memory runs out."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks.model_outputs import (
    check_answers,
    check_logits_of,
    check_unchanged,
    is_out_of_memory,
    model_errors,
    predicted_classes,
)
from maxmahal.attacks.objectives import Objective, Outputs, class_logit, model_outputs
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.prepare.cuda_graphs import Recorder
from maxmahal.attacks.result import Kind, Passes, Tally
from maxmahal.attacks.threats import Images, per_sample
from maxmahal.errors import ArgumentError

FOOLED, HIT = 1, 2


@dataclass(frozen=True)
class Samples:
    """Tensors with one row per sample, selected and joined together."""

    images: Images
    labels: Int[Tensor, " n"]
    """The true labels, by which success is judged."""
    avoided: Int[Tensor, " n"]
    """The labels that the objective moves away from: the true ones, or the model's predictions."""
    targets: Int[Tensor, " n"] | None
    ids: Int[Tensor, " n"]
    goal: int
    """``FOOLED``: any wrong class is a success; ``HIT``: the target, and nothing else."""
    rows: Int[Tensor, " n"] | None = None
    """The place of each sample among those of the run, by which its costs are counted; None if they are not."""

    def __len__(self) -> int:
        return len(self.images)

    def select(self, rows: Int[Tensor, " m"] | slice) -> "Samples":
        """Some of the samples, in this order; a slice copies nothing, and one of all returns these samples."""
        if isinstance(rows, slice) and rows.start == 0 and rows.stop == len(self):
            return self
        return replace(self, **{name: tensor[rows] for name, tensor in self._tensors().items()})

    def join(self, others: "Samples") -> "Samples":
        """These samples and then the others."""
        theirs = others._tensors()
        both: dict[str, Any] = {name: torch.cat([own, theirs[name]]) for name, own in self._tensors().items()}
        return replace(self, **both)

    def _tensors(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def ranks(self, predictions: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """How well each prediction serves the attacker: 0 right, ``FOOLED`` or ``HIT``; a label is never hit."""
        fooled = (predictions != self.labels).long()
        if self.targets is None or self.goal == FOOLED:
            return fooled
        return torch.where(predictions == self.targets, HIT * fooled, fooled)


def is_coarse(device: torch.device) -> bool:
    """Whether torch may round more coarsely than float32 there: by default its convolutions do on a GPU."""
    coarse = any(part.fp32_precision in ("tf32", "bf16") for part in _rounding_parts(device))
    return coarse or torch.is_autocast_enabled(device.type)


@contextmanager
def full_float32(device: torch.device, rounding: str = "ieee") -> Iterator[None]:
    """No rounding to fewer bits inside; with "tf32" TF32 on a GPU, for searches whose finds are confirmed without."""
    parts, cudnn = _rounding_parts(device), torch.backends.cudnn
    before = [part.fp32_precision for part in parts]
    older: bool | None = None
    # The older switch of convolutions, too: where the two differ, cudnn.flags(), which a model may use, fails.
    with suppress(RuntimeError):  # torch does not read it for a caller who has set fp32_precision alone
        older = cudnn.allow_tf32 if device.type == "cuda" else None
    try:
        if older is not None:
            cudnn.allow_tf32 = rounding == "tf32"
        for part in parts:
            part.fp32_precision = rounding if device.type == "cuda" else "ieee"
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if older is not None:
            cudnn.allow_tf32 = older
        for part, precision in zip(parts, before, strict=True):
            part.fp32_precision = precision


def _rounding_parts(device: torch.device) -> list[Any]:
    """The parts of torch whose products of float32 numbers a caller may let round to TF32 or bfloat16."""
    cudnn: Any = torch.backends.cudnn
    if device.type == "cuda":
        return [torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn]
    names = ("matmul", "conv", "rnn") if device.type == "cpu" else ()
    mkldnn: Any = torch.backends.mkldnn  # of some versions of torch without these
    return [getattr(mkldnn, name) for name in names if hasattr(mkldnn, name)]


def without_gaps(gradient: Images) -> Images:
    """Zero where a gradient is not finite: a step without information is better than a step into NaN."""
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)


def has_gaps(gradient: Images) -> Bool[Tensor, " n"]:
    """Which gradients are NaN or infinite in some pixel: zero times anything else is zero, and a sum is fast."""
    return (0 * gradient).flatten(1).sum(dim=1).isnan()


def reads_are_free(device: torch.device) -> bool:
    """Whether asking for a value does not make the program wait for the device: shortcuts that do so are worth it."""
    return device.type == "cpu"


Model = nn.Module | Prepared | Callable[[Tensor], Tensor]
"""What can be attacked: a module, a prepared module, or a function from images to logits."""
Part = TypeVar("Part")
Answer = TypeVar("Answer", "Look", Outputs)

# Smaller gradients come out larger than they are: their direction is worth more than their size.
_LEAST_SCALE = 2.0**-60
# Gradients of such sizes need no scaling: it would change no bit of them.
_COMMON_SIZES = 2.0**-10, 2.0**10


@dataclass(frozen=True)
class Look:
    """The outputs of the model and the objective for a batch."""

    logits: Float[Tensor, "n l"]
    values: Float[Tensor, " n"]

    @property
    def predictions(self) -> Int[Tensor, " n"]:
        """The class with the largest logit, or -1 if a logit is NaN or infinite."""
        return predicted_classes(self.logits)


@dataclass
class Oracle:
    """A model, an objective and a counter: ``search`` is asked during the search, ``judge`` decides."""

    model: "Model"
    search: Callable[[Tensor], Outputs]
    judge: Callable[[Tensor], Outputs]
    objective: Objective
    chunk: int
    eot_samples: int = 1
    differentiable: bool = True
    splits: bool = True
    """Whether it may take fewer rows at a time when memory runs out: not if the objective closes over the batch."""
    coarse: bool = False
    """Whether the search rounds more coarsely than the verdict: TF32, or a caller's autocast."""
    passes: Passes = field(default_factory=Passes)
    tally: Tally | None = None
    """The same sample by sample, for samples that know their rows."""
    quick: Callable[[Tensor], Outputs] | None = None
    """A faster search for attacks without gradients, if there is one."""
    recorder: Recorder | None = None
    """``differentiate`` with small batches recorded as CUDA graphs."""

    @property
    def confirms(self) -> bool:
        """Whether a success found by the search has still to be confirmed."""
        return self.coarse or self.search is not self.judge

    def gradient(self, images: Images, samples: Samples) -> tuple[Look, Images]:
        """The objective at ``images`` and its gradient there, averaged over ``eot_samples`` draws of the model."""
        if not self.differentiable:
            raise ArgumentError(
                "This attack needs gradients, and a predict function has none; "
                "use spsa or square, or pass an nn.Module."
            )

        def work(start: int, stop: int) -> tuple[Look, Tensor]:
            part = samples.select(slice(start, stop))
            batch = images[start:stop].detach(), part.avoided, part.targets
            if self.recorder is None:
                logits, values, gradient = self.differentiate(*batch, counted=part)
            else:
                logits, values, gradient = self.recorder(*batch)
                self._count("asked", part)
            self._count("backward", part)
            look = Look(logits, values)
            if reads_are_free(gradient.device) and math.isfinite(float(gradient.sum() + values.sum())):
                return look, gradient  # everything is finite if the sum is
            self._count_lost(look, part, gradient)
            return look, without_gaps(gradient)

        parts = self._in_chunks(len(images), work)
        return _join([look for look, _ in parts]), torch.cat([gradient for _, gradient in parts])

    def differentiate(
        self,
        images: Images,
        avoided: Int[Tensor, " n"],
        targets: Int[Tensor, " n"] | None,
        *,
        counted: Samples | None = None,
    ) -> tuple[Float[Tensor, "n l"], Float[Tensor, " n"], Images]:
        """Logits, objective and gradient; the forward pass counts for ``counted`` even if memory runs out later."""
        moved = images.clone().requires_grad_()
        with torch.enable_grad():
            outputs = self._outputs(self.search, moved)
            if counted is not None:
                self._count("asked", counted)
            # Cut off from the model, for the objective to be differentiated by.
            features = None if outputs.features is None else outputs.features.detach().requires_grad_()
            leaves = Outputs(outputs.logits.detach().requires_grad_(), features)
            look = self._judged(leaves, avoided, targets)
            with model_errors(self.model, images):
                gradient = _gradient_of(look.values, leaves, outputs, moved, coupled=is_training(self.model))
        return look.logits.detach(), look.values.detach(), gradient

    def look(self, images: Images, samples: Samples) -> Look:
        """The objective at ``images`` without a gradient, by a search model that is prepared for many queries."""
        return self._look_with(self.quick or self.search, images, samples, "asked")

    def verdict(self, images: Images, samples: Samples) -> Look:
        """The same by the model itself, in float32: what counts."""
        with full_float32(images.device):
            look = self._look_with(self.judge, images, samples, "judged")
        check_answers(look.predictions)
        return look

    @torch.no_grad()
    def answers(self, images: Images, samples: Samples) -> Outputs:
        """The outputs of the search model, without an objective: ``eot_samples`` rows for each image."""

        def work(start: int, stop: int) -> Outputs:
            outputs = self._outputs(self.search, images[start:stop])
            self._count("asked", samples.select(slice(start, stop)))
            return outputs

        return _join(self._in_chunks(len(images), work))

    @torch.no_grad()
    def judged(self, answers: Outputs, samples: Samples) -> Look:
        """The objective at ``answers``; the model is not asked again."""
        draws = self.eot_samples

        def work(start: int, stop: int) -> Look:
            rows = slice(start * draws, stop * draws)
            features = None if answers.features is None else answers.features[rows]
            part = samples.select(slice(start, stop))
            return self._judged(Outputs(answers.logits[rows], features), part.avoided, part.targets)

        return _join(self._in_chunks(len(samples), work))

    @torch.no_grad()
    def _look_with(self, model: Callable[[Tensor], Outputs], images: Tensor, samples: Samples, kind: Kind) -> Look:
        def work(start: int, stop: int) -> Look:
            outputs, part = self._outputs(model, images[start:stop]), samples.select(slice(start, stop))
            self._count(kind, part)
            look = self._judged(outputs, part.avoided, part.targets)
            self._count_lost(look, part)
            return look

        return _join(self._in_chunks(len(images), work))

    def _outputs(self, model: Callable[[Tensor], Outputs], images: Tensor) -> Outputs:
        """``eot_samples`` answers for each image, one after the other, of a stochastic model."""
        if self.eot_samples > 1:
            images = images.repeat_interleave(self.eot_samples, dim=0)
        with model_errors(self.model, images):
            outputs = model(images)
        check_logits_of(outputs.logits, len(images))
        return outputs

    def _count(self, kind: Kind, samples: Samples) -> None:
        """Every draw of these samples; a verdict is no query."""
        if self.tally is not None and samples.rows is not None:
            self.tally.add(kind, samples.rows, self.eot_samples)
        images = self.eot_samples * len(samples)
        self.passes.forward += images if kind in ("asked", "judged") else 0
        self.passes.queries += images if kind == "asked" else 0
        self.passes.backward += images if kind == "backward" else 0

    def _count_lost(self, look: Look, samples: Samples, gradient: Tensor | None = None) -> None:
        """Samples whose objective or gradient is not finite; only if costs are counted too."""
        if self.tally is not None and samples.rows is not None:
            lost = look.values.isnan() if gradient is None else look.values.isnan() | has_gaps(gradient)
            self.tally.lost.index_add_(0, samples.rows, lost.long())

    def _judged(self, outputs: Outputs, avoided: Tensor, targets: Tensor | None) -> Look:
        """Logits and objective of each image, as means over its answers."""
        draws = self.eot_samples
        if draws > 1:
            avoided = avoided.repeat_interleave(draws)
            targets = None if targets is None else targets.repeat_interleave(draws)
        values = self.objective(outputs, avoided, targets)
        if not isinstance(values, Tensor) or values.shape != outputs.logits.shape[:1]:
            got = f"the shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
            raise ArgumentError(
                f"The objective must return one value for each image of a batch of {len(outputs.logits)}; got {got}. "
                "Leave out the mean or sum."
            )
        if draws == 1:
            return Look(outputs.logits, values)
        return Look(self.mean_logits(outputs), values.reshape(-1, draws).mean(dim=1))

    def mean_logits(self, outputs: Outputs) -> Float[Tensor, "n l"]:
        """Of each image, over its answers."""
        logits = outputs.logits
        return logits if self.eot_samples == 1 else logits.reshape(-1, self.eot_samples, logits.shape[1]).mean(dim=1)

    def _in_chunks(self, count: int, work: Callable[[int, int], Part]) -> list[Part]:
        """``work`` on neighbouring rows, fewer at a time once memory has run out."""
        if not self.splits:
            return [work(0, count)]
        size = max(1, self.chunk // self.eot_samples)
        parts, fitting = in_chunks(count, size, work)
        self.chunk = min(self.chunk, self.eot_samples * fitting)
        return parts


def make_oracle(model: Model, objective: Objective, chunk: int, eot_samples: int) -> Oracle:
    """The oracle of a module, of a prepared module, or of a function from images to logits."""
    if isinstance(model, Prepared):
        judge = partial(model_outputs, model.original)
        return Oracle(model, model.search, judge, objective, chunk, eot_samples, quick=model.query)
    if isinstance(model, nn.Module):
        both = partial(model_outputs, model)  # one object, so that both are the same
        return Oracle(model, both, both, objective, chunk, eot_samples)
    if not callable(model):
        raise ArgumentError(f"model must be an nn.Module or a function from images to logits; got {model!r}.")
    predict = model
    asked = lambda images: Outputs(predict(images.detach()))  # noqa: E731
    return Oracle(model, asked, asked, objective, chunk, eot_samples, differentiable=False)


def default_batch_size(images: Images) -> int:
    """Enough images to keep the device busy; the oracle takes fewer at a time when memory runs out."""
    pixels = images.shape[1:].numel()
    on_gpu = images.device.type == "cuda"
    fits = (8192 if on_gpu else 128) * 3072 // max(pixels, 1)
    return max(1, min(fits, 16384 if on_gpu else 512))


def in_chunks(count: int, size: int, work: Callable[[int, int], Part]) -> tuple[list[Part], int]:
    """``work`` on neighbouring rows, ``size`` at a time, fewer once memory has run out; and how many rows fit."""
    parts: list[Part] = []
    start = 0
    while start < count:
        stop = min(start + size, count)
        try:
            parts.append(work(start, stop))
            start = stop
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if stop - start == 1:
                hint = "free some, or attack a smaller model."
                raise ArgumentError(f"Memory ran out on a single image; {hint}") from error
            size = (stop - start) // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    return parts, size


def in_batches(function: Callable[[Tensor], Tensor], images: Images) -> Tensor:
    """A row of ``function`` for each image, without gradients."""

    def rows(start: int, stop: int) -> Tensor:
        found = function(images[start:stop])
        check_logits_of(found, stop - start)
        return found

    with torch.no_grad(), model_errors(function, images):
        parts, _ = in_chunks(len(images), default_batch_size(images), rows)
        return torch.cat(parts) if parts else function(images)


def judge(model: Model, images: Images) -> Look:
    """The outputs of the model itself for images, in float32; the values have no meaning."""
    labels = torch.zeros(len(images), dtype=torch.int64, device=images.device)
    oracle = make_oracle(model, class_logit(), default_batch_size(images), eot_samples=1)
    shown = images.detach().clone()
    look = oracle.verdict(shown, Samples(images, labels, labels, None, labels, FOOLED))
    check_unchanged(shown, images)
    return look


def is_training(model: Model) -> bool:
    """Whether the samples of a batch may be coupled, as batch norm couples them in train mode."""
    return isinstance(model, nn.Module) and model.training


def check_gradients_allowed() -> None:
    """Refuse an attack by gradients inside ``torch.inference_mode()``."""
    if torch.is_inference_mode_enabled():
        raise ArgumentError("This attack needs gradients, which torch.inference_mode() forbids; call it outside.")


def _gradient_of(
    values: Float[Tensor, " n"], leaves: Outputs, outputs: Outputs, images: Images, *, coupled: bool
) -> Images:
    """Through the objective first, then, scaled near one for every sample, through the model.

    A saturated objective's gradient would round to zero on its way through the model, and numbers that small are slow.
    Scales are powers of two, so that where nothing is that small every bit stays as it was.
    """
    pairs = [
        (leaf, output)
        for leaf, output in ((leaves.logits, outputs.logits), (leaves.features, outputs.features))
        if leaf is not None and output is not None and output.requires_grad
    ]
    found: Sequence[Tensor | None] = [None] * len(pairs)
    if pairs and values.requires_grad:
        found = torch.autograd.grad(values.sum(), [leaf for leaf, _ in pairs], allow_unused=True)
    through = [(output, part) for (_, output), part in zip(pairs, found, strict=True) if part is not None]
    gradient = None
    if through:
        sizes = torch.stack([part.abs().flatten(1).amax(dim=1) for _, part in through]).amax(dim=0)
        scaled, scales = [part for _, part in through], None
        low, high = _COMMON_SIZES
        if not (reads_are_free(sizes.device) and low < float(sizes.amin()) and float(sizes.amax()) < high):
            scales = _powers_of_two(sizes.reshape(len(images), -1).amax(dim=1), coupled).to(images.dtype)
            each = scales.repeat_interleave(len(sizes) // len(images))[:, None]  # one for all answers of a sample
            scaled = [part / each.to(part.dtype) for part in scaled]
        (gradient,) = torch.autograd.grad([output for output, _ in through], images, scaled, allow_unused=True)
    if gradient is None:
        check_gradients_allowed()
        raise ArgumentError(
            "No gradient reaches the images: something between them and the objective cannot be differentiated. "
            "Wrap it in straight_through, or use spsa or square."
        )
    return gradient if scales is None else rescaled(gradient, scales)


def near_one(gradient: Float[Tensor, "n d"], *, coupled: bool) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """A gradient of features, scaled near one for every sample, and the scales; see ``_powers_of_two``."""
    scales = _powers_of_two(gradient.abs().amax(dim=1), coupled).to(gradient.dtype)
    return gradient / scales[:, None], scales


def rescaled(gradient: Images, scales: Float[Tensor, " n"]) -> Images:
    """The gradient of images in its own size, from one that was scaled near one."""
    return gradient * per_sample(scales.clamp_min(_LEAST_SCALE))


def _powers_of_two(sizes: Float[Tensor, " n"], coupled: bool) -> Float[Tensor, " n"]:
    """The largest power of two in each size, exactly; 1 where a size is zero or not finite.

    ``coupled`` samples share one: the gradient at an image is then a sum over the outputs of all of them.
    """
    sizes = sizes.detach().float().nan_to_num(0.0, 0.0, 0.0)
    if coupled:
        sizes = sizes.amax().expand_as(sizes)
    exponents = (sizes.view(torch.int32) & 0x7F800000).view(torch.float32)  # the bits of the exponent alone
    return torch.where(sizes > 0, exponents.clamp_min(torch.finfo(torch.float32).tiny), 1.0)


def _join(parts: list[Answer]) -> Answer:
    if len(parts) == 1:
        return parts[0]
    first: dict[str, Any] = vars(parts[0])
    columns: dict[str, Any] = {}
    for name in first:
        columns[name] = None if first[name] is None else torch.cat([getattr(part, name) for part in parts])
    return type(parts[0])(**columns)

"""One chunk of one stage: attack the samples, let the model itself judge the images found, record it."""

import io
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from maxmahal.attacks import Engine, Linf, Model, Nearest, Passes, Result, Threat
from maxmahal.attacks.objectives import find_objective
from maxmahal.attacks.oracle import in_batches, judge
from maxmahal.attacks.registry import ATTACKS, Attack, find_attack
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.evaluated_model import DRAWS, EvaluatedModel, mean_correct
from maxmahal.evaluate.feature_plane import Plane
from maxmahal.evaluate.suite import Stage
from maxmahal.files import write_atomically
from maxmahal.imports import call_function
from maxmahal.models import Classifier
from maxmahal.random import own_stream
from maxmahal.records.types import ChunkRecords, Columns, Rating


@dataclass(frozen=True)
class StageInput:
    """What goes into a stage: the samples of one chunk and everything that is known about them."""

    stage: Stage
    target: EvaluatedModel
    model: Model  # what the attack searches on: the prepared model, or one that passes gradients straight through
    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    threat: Threat
    seed: int
    engine: Engine
    others: Mapping[str, EvaluatedModel]  # all models of the evaluation, as sources of transfer attacks
    stochastic: bool = False
    model_seed: int = 0
    """Seeds the randomness of a stochastic model, so that a chunk gives the same result when it is repeated."""
    before: Mapping[int, tuple[int, float]] | None = None
    """By sample id, the prediction of the clean image and how often it is correct; None in the clean stage."""
    check_rounded: bool = False  # whether to re-check each adversarial image after rounding to 8 bits
    pictured: frozenset[int] = frozenset()  # ids of the samples whose images are kept for the gallery
    drawn: frozenset[int] = frozenset()  # ids of the samples whose features are drawn
    plane: Plane | None = None

    @cached_property
    def attack(self) -> Attack:
        """The stage's attack, with what is known about it."""
        return find_attack(self.stage.attack.name)

    @property
    def ball(self) -> Threat | None:
        """The threat, if the attack stays in it."""
        return self.threat if self.attack.stays_in_ball else None


@dataclass(frozen=True)
class StageOutput(ChunkRecords):
    """What comes out of a stage: the records of the chunk, and one image per sample."""

    images: Float[Tensor, "n c h w"]


def run_stage(task: StageInput) -> StageOutput:
    """Attack the samples; the model itself decides what counts as broken."""
    started = time.perf_counter()
    with own_stream(task.images.device, task.model_seed):
        found = run_attack(task)
        columns = _columns(task, found)
        points = _points(task, found.images, columns)
    passes = found.passes
    rating = Rating(time.perf_counter() - started, passes.forward, passes.backward, passes.queries)
    return StageOutput(columns, rating, _pictures(task, found.images, columns), points, found.images)


def run_attack(task: StageInput) -> Result:
    """Call the attack with what its function asks for; its options come from the suite."""
    attack, name, options = task.attack, task.stage.attack.name, dict(task.stage.attack.options)
    owner, model = task.target, task.model
    if attack.crafts_on_source:
        owner = task.others[options.pop("source")]
        model = owner.fast
    if "objective" in options:
        options["objective"] = find_objective(options["objective"])(owner.head)
    given = {
        "threat": task.threat,
        "norm": "linf" if isinstance(task.threat, Linf) else "l2",
        "seed": task.seed,
        "sample_ids": task.sample_ids.to(owner.device),
        "engine": task.engine,
    }
    call: Callable[..., Any] = partial(
        attack, **{key: value for key, value in given.items() if key in attack.parameters}, **options
    )
    batch = model, task.images.to(owner.device), task.labels.to(owner.device)
    if name in ATTACKS:
        found: Result = call(*batch)
    else:  # which may work in place
        found = _check_result(task, call_function(name, call, model, *(each.clone() for each in batch[1:])))
    if name in ATTACKS and not attack.crafts_on_source:
        return found  # judged by the model itself already
    images = found.images.to(task.images.device)
    predictions = judge(task.target.model, images).predictions
    wrong = predictions != task.labels
    if isinstance(found, Nearest):
        return replace(found, images=images, predictions=predictions, fooled=wrong, hit=found.success & wrong)
    return Result(images, predictions, wrong, None, found.passes, spent=found.spent)


def _check_result(task: StageInput, result: Any) -> Result:
    """The result of a user's own attack, with its images projected into the ball."""
    images = result.images if isinstance(result, Result) else result
    if not isinstance(images, Tensor) or images.shape != task.images.shape or images.dtype != task.images.dtype:
        got = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ArgumentError(
            f"{task.stage.attack.name} must return a Result, or images as it was given them, {task.images.dtype} of "
            f"shape {tuple(task.images.shape)}; it returned {got}."
        )
    images = images.detach().to(task.images.device)
    if lost := int((~images.isfinite().flatten(1).all(dim=1)).sum()):
        raise ArgumentError(
            f"{task.stage.attack.name} returned NaN or infinite pixels for {lost} of {len(images)} images; look for a "
            "division by 0 or a root of 0 in it."
        )
    if task.ball is not None:
        images = task.ball.project(task.images, images)
    if isinstance(result, Result):
        return replace(result, images=images)
    return Result(images, task.labels, torch.zeros_like(task.labels, dtype=torch.bool), None, Passes())


def _columns(task: StageInput, found: Result) -> Columns:
    ids = task.sample_ids.cpu().numpy()
    predictions = found.predictions.cpu().numpy()
    if task.stochastic:
        right = mean_correct(task.target.model, found.images, task.labels, DRAWS)
    else:  # a minimum-norm attack with a target breaks a sample only if it reaches the target
        right = (~found.success if isinstance(found, Nearest) else found.predictions == task.labels).float()
    right_share = right.double().cpu().numpy()
    broken = right_share < 0.5
    if task.before is None:
        clean_prediction, right_before = predictions, ~broken
    else:
        before = [task.before[int(sample)] for sample in ids]
        clean_prediction = np.array([prediction for prediction, _ in before])
        right_before = np.array([share >= 0.5 for _, share in before])
    distances = np.full(len(ids), math.nan)  # for attacks for which a distance says nothing
    if isinstance(found, Nearest):
        distances = found.distances.double().cpu().numpy()
    elif task.ball is not None:
        distances = task.threat.distances(task.images, found.images).double().cpu().numpy()
        _check_distances(task, distances[broken])
    costs = dict.fromkeys(("iterations", "forward", "backward", "queries"), np.full(len(ids), -1))
    if found.spent is not None:
        costs = {name: getattr(found.spent, name).cpu().numpy() for name in costs}
    return Columns(
        sample=ids,
        label=task.labels.cpu().numpy(),
        clean_prediction=clean_prediction,
        prediction=predictions,
        right_before=right_before,
        broken=broken,
        right_share=right_share,
        distortion=np.where(broken, distances, math.nan),
        **costs,
        broken_8bit=_broken_rounded(task, found.images, broken) if task.check_rounded else None,
    )


def _check_distances(task: StageInput, distances: Float[np.ndarray, " n"]) -> None:
    """A user's own threat must keep what it promises, or a robust accuracy would say nothing."""
    furthest, allowed = distances.max(initial=0.0), task.threat.radius
    if not furthest <= allowed * (1 + 1e-4):  # NaN too
        raise ArgumentError(
            f"{task.stage.attack.name} moved an image by {furthest:g}, and the threat allows {allowed:g}; "
            "correct its project or its distances."
        )


def _broken_rounded(task: StageInput, images: Tensor, broken: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Whether each adversarial image still breaks the model after rounding to 8 bits, which can undo an attack."""
    answers = np.full(len(broken), -1)
    rows = torch.from_numpy(broken.nonzero()[0]).to(images.device)
    if len(rows):
        rounded = round_to_bytes(task.images[rows], images[rows], task.ball)
        wrong = judge(task.target.model, rounded.float() / 255).predictions != task.labels[rows]
        answers[broken] = wrong.cpu().numpy().astype(np.int64)
    return answers


def _pictures(task: StageInput, images: Tensor, columns: Columns) -> list[tuple[int, np.ndarray, np.ndarray]]:
    chosen = np.isin(columns.sample, list(task.pictured)) & columns.broken & columns.right_before
    rows = chosen.nonzero()[0].tolist()
    clean, moved = (tensor[rows].cpu().numpy() for tensor in (task.images, images))
    return list(zip(columns.sample[rows].tolist(), clean, moved, strict=True))


def _points(task: StageInput, images: Tensor, columns: Columns) -> list[tuple[int, float, float]]:
    """The features of the clean images, and later those of each adversarial image, projected on the plane."""
    model = task.target.model
    if task.plane is None or not isinstance(model, Classifier):
        return []
    chosen = np.isin(columns.sample, list(task.drawn))
    if task.before is not None:
        chosen &= columns.broken & columns.right_before
    if not chosen.any():
        return []
    features = in_batches(model.features, images[torch.from_numpy(chosen.nonzero()[0]).to(images.device)])
    places = task.plane.project(features).tolist()
    return [(sample, x, y) for sample, (x, y) in zip(columns.sample[chosen].tolist(), places, strict=True)]


def round_to_bytes(
    clean: Float[Tensor, "n c h w"], moved: Float[Tensor, "n c h w"], threat: Threat | None
) -> UInt8[Tensor, "n c h w"]:
    """The images rounded to 8 bits without leaving the ball, if any."""
    origin = (clean * 255).round()
    change = (moved - clean) * 255
    if type(threat) is Linf:
        most = math.floor(threat.radius * 255 + 1e-6)
        change = change.round().clamp(-most, most)
    elif threat is None:
        change = change.round()
    else:
        nearest = change.round()
        inside = threat.distances(origin / 255, (origin + nearest) / 255) <= threat.radius + 1e-6
        change = torch.where(inside[:, None, None, None], nearest, change.trunc())
    return (origin + change).clamp(0, 255).to(torch.uint8)


def save_images(folder: Path, number: int, task: StageInput, output: StageOutput, within: Path) -> None:
    """The broken samples of a chunk: one .npz of float32 images, and a PNG of bytes for each; no link leads out."""
    from PIL import Image  # only if images are saved

    columns, moved = output.columns, output.images
    rows = columns.broken.nonzero()[0]
    if not len(rows):
        return
    chosen = torch.from_numpy(rows).to(moved.device)
    stream = io.BytesIO()
    facts = {name: getattr(columns, name)[rows] for name in ("sample", "label", "prediction")}
    np.savez(stream, images=moved[chosen].cpu().numpy(), **facts)
    write_atomically(folder / f"chunk-{number:05d}.npz", lambda path: path.write_bytes(stream.getvalue()), within)
    if moved.shape[1] not in (1, 3):
        return  # no PNG has two channels; the .npz has the images
    rounded = round_to_bytes(task.images[chosen], moved[chosen], task.ball).cpu().numpy()
    for image, sample in zip(rounded, columns.sample[rows].tolist(), strict=True):
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        write_atomically(folder / f"sample-{sample:06d}.png", partial(picture.save, format="PNG"), within)

"""One chunk of one stage: attack the samples, ask the model for the last word, and write down what happened."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from maxmahal.attacks import L2, Engine, Linf, Model, Progress
from maxmahal.attacks.oracle import judge
from maxmahal.data import ImageData
from maxmahal.evaluate.asking import Asked, Found, run_attack
from maxmahal.evaluate.judging import right_shares
from maxmahal.evaluate.pixels import round_to_bytes
from maxmahal.evaluate.plan import DRAWS, EOT, Planned
from maxmahal.evaluate.planes import Plane
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.evaluate.subject import Subject
from maxmahal.evaluate.suite import Suite
from maxmahal.models import Classifier
from maxmahal.random import stream_key
from maxmahal.records.store import ChunkPictures, ChunkPoints
from maxmahal.records.types import Columns, Rating


@dataclass(frozen=True)
class Work:
    """What the chunks of an evaluation share."""

    subject: Subject
    suite: Suite
    data: ImageData
    seed: int
    stochastic: bool
    others: Mapping[str, Subject]
    plane: Plane | None
    pictured: frozenset[int]
    """Ids of the samples whose images go into the gallery."""
    placed: frozenset[int]
    """Ids of the samples whose features are drawn."""
    round_images: bool
    """Whether to look again at each broken image in bytes."""
    reporter: EvaluationReporter


@dataclass(frozen=True)
class Done:
    """A chunk, ready to be recorded."""

    columns: Columns
    rating: Rating
    pictures: ChunkPictures | None
    points: ChunkPoints | None
    clean: Tensor
    images: Tensor
    """The attacked ones, for those who want to keep them."""


def run_chunk(
    work: Work,
    planned: Planned,
    number: int,
    rows: list[int],
    clean: Mapping[int, tuple[int, float]],
    search: Model,
) -> Done:
    """Attack these rows of the data on ``search``; ``clean`` says how the model took each sample before."""
    started = time.perf_counter()
    data = work.data.select(torch.tensor(rows)).to(work.subject.device)
    with _own_randomness(data.device, stream_key("chunk", work.seed, planned.stage.name, number)):
        asked = _ask(work, planned, data, search)
        found = run_attack(asked, planned.stage.attack)
        shares = _shares(work, asked, found)
        columns = _columns(asked, found, shares, clean, is_clean=planned.position == 0)
        if work.round_images and planned.position > 0:
            ball = work.suite.ball_of(planned.stage)
            columns = replace(columns, broken_8bit=_broken_in_bytes(asked, found, columns.broken, ball))
        points = _points(work, data, found, columns, is_clean=planned.position == 0)
    passes = found.passes
    rating = Rating(time.perf_counter() - started, passes.forward, passes.backward, passes.queries)
    return Done(columns, rating, _pictures(work, asked, found, columns), points, asked.images, found.images)


def _ask(work: Work, planned: Planned, data: ImageData, search: Model) -> Asked:
    stage = planned.stage
    draws = max(stage.eot, EOT) if work.stochastic else 1

    def report(progress: Progress) -> None:
        work.reporter.within(progress.settled, progress.total)

    # Just across the boundary a model that draws is right half the time: there the search must go on.
    engine = Engine(early_exit=not work.stochastic, eot_samples=draws, progress=report)
    return Asked(
        subject=work.subject,
        model=search,
        images=data.float_images(),
        labels=data.labels,
        sample_ids=data.sample_ids,
        threat=work.suite.threat_of(stage),
        seed=stream_key(work.seed, stage.name) % 2**63,
        engine=engine,
        others=work.others,
    )


def _shares(work: Work, asked: Asked, found: Found) -> Tensor:
    if work.stochastic:
        return right_shares(asked.subject.model, found.images, asked.labels, DRAWS)
    right = found.predictions == asked.labels if found.broken is None else ~found.broken
    return right.float()


def _columns(
    asked: Asked,
    found: Found,
    shares: Tensor,
    clean: Mapping[int, tuple[int, float]],
    *,
    is_clean: bool,
) -> Columns:
    ids = asked.sample_ids.cpu().numpy()
    predictions = found.predictions.cpu().numpy()
    right_share = shares.double().cpu().numpy()
    broken = right_share < 0.5
    before = [(int(said), float(share)) for said, share in zip(predictions, right_share, strict=True)]
    if not is_clean:
        before = [clean[int(sample)] for sample in ids]
    distances = np.full(len(ids), math.nan)
    if found.distances is not None:
        distances = np.where(broken, found.distances.double().cpu().numpy(), math.nan)
    unknown = np.full(len(ids), -1)
    spent = found.spent
    costs = [unknown] * 4
    if spent is not None:
        costs = [cost.cpu().numpy() for cost in (spent.iterations, spent.forward, spent.backward, spent.queries)]
    return Columns(
        sample=ids,
        label=asked.labels.cpu().numpy(),
        clean_prediction=np.array([said for said, _ in before]),
        prediction=predictions,
        right_before=np.array([share >= 0.5 for _, share in before]),
        broken=broken,
        right_share=right_share,
        distortion=distances,
        iterations=costs[0],
        forward=costs[1],
        backward=costs[2],
        queries=costs[3],
    )


def _broken_in_bytes(asked: Asked, found: Found, broken: np.ndarray, ball: Linf | L2 | None) -> np.ndarray:
    """Whether each broken image still breaks the model as bytes: rounding can undo an attack."""
    answers = np.full(len(broken), -1)
    rows = torch.from_numpy(broken.nonzero()[0]).to(asked.images.device)
    if len(rows):
        rounded = round_to_bytes(asked.images[rows], found.images[rows], ball)
        wrong = judge(asked.subject.model, rounded.float() / 255).predictions != asked.labels[rows]
        answers[broken] = wrong.cpu().numpy().astype(np.int64)
    return answers


def _pictures(work: Work, asked: Asked, found: Found, columns: Columns) -> ChunkPictures | None:
    chosen = [
        row
        for row, sample in enumerate(columns.sample.tolist())
        if sample in work.pictured and columns.broken[row] and columns.right_before[row]
    ]
    if not chosen:
        return None
    clean, moved = (tensor[chosen].cpu().numpy() for tensor in (asked.images, found.images))
    return ChunkPictures([int(columns.sample[row]) for row in chosen], clean, moved)


def _points(work: Work, data: ImageData, found: Found, columns: Columns, *, is_clean: bool) -> ChunkPoints | None:
    """Where the features of the clean images lie, and then of each image that breaks the model."""
    model = work.subject.model
    if work.plane is None or not isinstance(model, Classifier):
        return None
    wanted = np.isin(columns.sample, list(work.placed)) & (is_clean | (columns.broken & columns.right_before))
    rows = torch.from_numpy(wanted.nonzero()[0]).to(data.device)
    if not len(rows):
        return None
    with torch.no_grad():
        features = model.features(found.images[rows])
    return ChunkPoints(columns.sample[wanted], work.plane.project(features))


@contextmanager
def _own_randomness(device: torch.device, key: int) -> Iterator[None]:
    """A model that draws gets a stream of its own for each chunk, so that a chunk comes out the same when repeated."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(key % 2**63)
        yield

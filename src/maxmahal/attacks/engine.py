"""The engine under every attack: a working batch of samples that are still worth attacking.

A sample whose success the model itself has confirmed leaves the batch, and another takes its place.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import (
    check_first_values,
    check_images,
    check_logits,
    check_model,
    check_objective,
    check_seed,
    warn_about_lost,
)
from maxmahal.attacks.method import Method, State, Trial, succeeds
from maxmahal.attacks.model_outputs import check_answers, check_unchanged
from maxmahal.attacks.objectives import Objective
from maxmahal.attacks.oracle import FOOLED, HIT, Model, Oracle, Samples, default_batch_size, is_coarse, make_oracle
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.prepare.cuda_graphs import Recorder
from maxmahal.attacks.result import Nearest, Passes, Result, Tally
from maxmahal.attacks.targets import Targets, resolve_targets
from maxmahal.attacks.threats import UNIT, Bounds, Images, Threat, per_sample
from maxmahal.errors import ArgumentError, check_choice, check_count
from maxmahal.random import content_ids, own_stream, stream_key

Keep = Literal["best", "last", "nearest"]


class Ledger:
    """One entry per sample.

    ``best`` prefers success, then the smallest objective; ``last`` the same among the last iterates of the attempts;
    ``nearest`` takes only successes and prefers the smallest distance.
    """

    def __init__(
        self, samples: Samples, predictions: Int[Tensor, " n"], keep: Keep, oracle: Oracle, *, confidence: float
    ) -> None:
        self.images = samples.images.clone()
        self.predictions = predictions.clone()
        self.scores = samples.images.new_full((len(samples),), torch.inf)
        self._ranks = torch.full_like(predictions, -1)
        self._confirmed = torch.full_like(predictions, not oracle.confirms, dtype=torch.bool)
        self._samples, self._keep, self._oracle, self._confidence = samples, keep, oracle, confidence
        # What steps claim and the model has not confirmed yet: which are successes, rows, images, scores, targets.
        self._claims: list[tuple[Tensor, ...]] = []

    def confirm(self) -> None:
        """Ask the model itself about every image that only the search has judged: the model decides."""
        self._settle_claims()
        self.decide(_rows(~self._confirmed))

    def offer(
        self,
        rows: Int[Tensor, " m"],
        working: Samples,
        images: Float[Tensor, "m c h w"],
        predictions: Int[Tensor, " m"],
        scores: Float[Tensor, " m"],
        *,
        judged: bool = False,
    ) -> Bool[Tensor, " m"]:
        """Take over what is better; say which of these rows have reached the goal.

        A success found on a prepared model counts only once the original has confirmed it.
        """
        # An objective can be NaN where logits are infinite; any number is better.
        scores = scores.to(self.scores.dtype).nan_to_num(torch.inf, torch.inf, -torch.inf)
        ranks = working.ranks(predictions)
        better = self._is_better(rows, ranks, scores, working.goal)
        if self._keep == "nearest" and self._oracle.confirms and not judged:
            # Collected until they fill a batch: a minimum-norm attack does not need the verdicts at once. A verdict on
            # a few images takes as long as one on a full batch, and each of thousands of steps claims few.
            targets = () if working.targets is None else (working.targets,)
            self._claims.append((better, rows, images, scores, *targets))
            if sum(len(each[0]) for each in self._claims) >= self._oracle.chunk:
                self._settle_claims()
            return self._ranks[rows] >= working.goal
        confirmed = torch.full_like(better, judged or not self._oracle.confirms)
        if not self._oracle.confirms:
            check_answers(predictions)
        elif not judged:
            claimed = _rows(better & (ranks > 0))
            if len(claimed):
                verdict = self._oracle.verdict(images[claimed], working.select(claimed))
                predictions, scores = predictions.clone(), scores.clone()
                predictions[claimed] = verdict.predictions
                confirmed[claimed] = True
                scores[claimed] = verdict.values.to(scores.dtype)
                ranks = working.ranks(predictions)
                better = self._is_better(rows, ranks, scores, working.goal)
        self.images[rows] = torch.where(per_sample(better), images, self.images[rows])
        self.predictions[rows] = torch.where(better, predictions, self.predictions[rows])
        self.scores[rows] = torch.where(better, scores, self.scores[rows])
        self._ranks[rows] = torch.where(better, ranks, self._ranks[rows])
        self._confirmed[rows] = torch.where(better, confirmed, self._confirmed[rows])
        return self._ranks[rows] >= working.goal

    def open_rows(self) -> Int[Tensor, " m"]:
        """Samples that are worth another attempt."""
        self._settle_claims()
        return _rows(self.scores > 0 if self._keep == "nearest" else self._ranks < self._samples.goal)

    def broken(self) -> int:
        """How many samples have reached the goal."""
        self._settle_claims()
        return int((self._ranks >= self._samples.goal).sum())

    def _settle_claims(self) -> None:
        """Ask about all claims at once; each sample keeps its nearest confirmed image, the earliest of equals."""
        if not self._claims:
            return
        claims, self._claims = self._claims, []
        successes, *columns = zip(*claims, strict=True)
        chosen = _rows(torch.cat(successes))
        if not len(chosen):
            return
        rows, images, scores, *targets = (torch.cat(column)[chosen] for column in columns)
        samples = self._samples.select(rows)
        samples = replace(samples, targets=targets[0]) if targets else samples
        verdict = self._oracle.verdict(images, samples)
        predictions, ranks = verdict.predictions, samples.ranks(verdict.predictions)
        true = succeeds(samples, verdict, self._confidence) & (scores < self.scores[rows])
        nearest = self.scores.scatter_reduce(0, rows, scores.masked_fill(~true, torch.inf), "amin")
        places = torch.arange(len(rows), device=rows.device).masked_fill(~true | (scores > nearest[rows]), len(rows))
        first = torch.full_like(self.predictions, len(rows)).scatter_reduce(0, rows, places, "amin")
        taken = _rows(first < len(rows))
        place = first[taken]
        self.images[taken], self.predictions[taken] = images[place], predictions[place]
        self.scores[taken], self._ranks[taken] = scores[place], ranks[place]
        self._confirmed[taken] = True

    def decide(self, rows: Int[Tensor, " m"]) -> None:
        """The predictions of these rows count, confirmed by the model where they are the search's alone."""
        if not len(rows):
            return
        samples = self._samples.select(rows)
        if self._oracle.confirms:
            self.predictions[rows] = self._oracle.verdict(self.images[rows], samples).predictions
            self._confirmed[rows] = True
        self._ranks[rows] = samples.ranks(self.predictions[rows])
        # What a minimum-norm attack leaves undecided is the clean image.
        if self._keep == "nearest" and not self._confidence:
            self.scores[rows] = torch.where(self._ranks[rows] >= self._samples.goal, 0.0, self.scores[rows])

    def _is_better(self, rows: Tensor, ranks: Tensor, scores: Tensor, goal: int) -> Bool[Tensor, " m"]:
        if self._keep == "nearest":
            return (ranks >= goal) & (scores < self.scores[rows])
        known = self._ranks[rows]
        return (ranks > known) | ((ranks == known) & (scores < self.scores[rows]))


LabelSource = Literal["true", "predicted"]


@dataclass(frozen=True)
class Progress:
    """How far an attack has come: ``settled`` of ``total`` samples in this attempt, ``broken`` of all so far."""

    settled: int
    total: int
    broken: int
    """As counted when a sample last left: counting reads from the device."""
    share: float
    """Of the whole attack, every restart and target: samples that leave early make it jump ahead."""
    passes: Passes
    """Spent so far."""


@dataclass(frozen=True)
class Engine:
    """How samples are processed; none of it changes what a sample's search sees."""

    early_exit: bool = True
    """Whether samples leave as soon as they are broken; off, every sample takes every step."""
    batch_size: int | None = None
    """Samples in the working batch; by default as many as suit the device."""
    eot_samples: int = 1
    """Draws of a stochastic model to average over at every look (expectation over transformation)."""
    progress: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        check_count("eot_samples", self.eot_samples)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)


DEFAULT_ENGINE = Engine()
_REPORTS = 100  # of the progress in an attempt in which no sample leaves


@dataclass(frozen=True)
class Case:
    """What every attack knows about its samples."""

    images: Images
    labels: Int[Tensor, " n"]
    seed: int
    sample_ids: Int[Tensor, " n"] | None = None
    targets: Targets = None
    label_source: LabelSource = "true"


def run(
    method: Method,
    model: Model,
    case: Case,
    *,
    objective: Objective,
    engine: Engine = DEFAULT_ENGINE,
    keep: Keep = "best",
    restarts: int = 1,
    bounds: Bounds = UNIT,
    threat: Threat | None = None,
    confidence: float = 0.0,
) -> Result:
    """Work through all samples, every restart and every target; ``keep="nearest"`` returns a ``Nearest``.

    A clean image that the model gets wrong is a success at the distance 0, unless a ``confidence`` asks for more: then
    a success is an image whose objective is as far below zero.
    """
    if not isinstance(engine, Engine):
        raise ArgumentError(f"engine must be an Engine, such as Engine(batch_size=64); got {engine!r}.")
    check_choice("keep", keep, ("best", "last", "nearest"))
    check_choice("label_source", case.label_source, ("true", "predicted"))
    check_count("restarts", restarts)
    check_seed(case.seed)
    check_objective(objective)
    check_images(case.images, case.labels, case.sample_ids, bounds if threat is None else threat.bounds)
    check_model(model, case.images)
    capacity = engine.batch_size or default_batch_size(case.images)
    oracle = make_oracle(model, objective, capacity, engine.eot_samples)
    oracle.coarse = is_coarse(case.images.device)
    if isinstance(model, Prepared) and case.images.device.type == "cuda" and engine.eot_samples == 1:
        oracle.recorder = Recorder(oracle.differentiate)
    # A stochastic model draws from torch's global stream.
    seed = stream_key("eot", case.seed)
    with own_stream(case.images.device, seed) if engine.eot_samples > 1 else nullcontext():
        found = _Run(method, oracle, case, engine, keep, capacity, confidence=confidence).attack(restarts)
    return replace(found, threat=threat)


class _Run:
    def __init__(
        self,
        method: Method,
        oracle: Oracle,
        case: Case,
        engine: Engine,
        keep: Keep,
        capacity: int,
        *,
        confidence: float,
    ) -> None:
        self._method, self._oracle, self._engine, self._keep, self._capacity = method, oracle, engine, keep, capacity
        images = case.images.detach()
        ids = content_ids(images, case.labels) if case.sample_ids is None else case.sample_ids
        self._everyone = torch.arange(len(images), device=images.device)
        self._tally = oracle.tally = Tally(len(images), images.device)
        untargeted = Samples(images, case.labels, case.labels, None, ids, FOOLED, self._everyone)
        # One look at the clean images: it checks the model, and all that depends on predictions starts from it.
        shown = images.clone()
        answers = oracle.answers(shown, untargeted)
        check_unchanged(shown, images)
        clean = oracle.mean_logits(answers)
        check_logits(clean, case.labels)
        predictions = clean.argmax(dim=1)
        self._targets = resolve_targets(case.targets, clean, case.labels, ids, case.seed)
        single = self._targets is not None and self._targets.shape[1] == 1
        avoided = predictions if case.label_source == "predicted" else case.labels
        first = None if self._targets is None else self._targets[:, 0]
        self._samples = Samples(images, case.labels, avoided, first, ids, HIT if single else FOOLED, self._everyone)
        check_first_values(oracle, answers, self._samples)
        self._ledger = Ledger(self._samples, predictions, keep, oracle, confidence=confidence)
        self._settles_clean = keep != "last" and not confidence
        self._exits = engine.early_exit and keep == "best"
        self._attempts, self._broken = 1, 0
        # With several draws a verdict is a draw too: to leave the others as they are it must come at once.
        self._waits = self._exits and oracle.confirms and engine.eot_samples == 1

    def attack(self, restarts: int) -> Result:
        """Every restart with every target, on the samples that are still correct."""
        if self._settles_clean:
            # Samples that need no attack: the distance 0 for those the model confirms as broken.
            self._ledger.decide(_rows(self._samples.ranks(self._ledger.predictions) > 0))
        columns = 1 if self._targets is None else self._targets.shape[1]
        self._attempts = restarts * columns
        for attempt in range(self._attempts):
            samples = self._samples
            if self._targets is not None:
                samples = replace(samples, targets=self._targets[:, attempt % columns])
            rows = self._ledger.open_rows() if self._engine.early_exit or self._keep == "nearest" else self._everyone
            self._attack_rows(samples, rows, attempt)
        self._ledger.confirm()
        ledger, samples = self._ledger, self._samples
        fooled = ledger.predictions != samples.labels
        hit = samples.ranks(ledger.predictions) == HIT if samples.goal == HIT else None
        found, spent = (ledger.images, ledger.predictions, fooled, hit, self._oracle.passes), self._tally.spent()
        success, lost = fooled if hit is None else hit, self._tally.lost
        warn_about_lost(lost, success)
        if self._keep != "nearest":
            return Result(*found, spent=spent, lost=lost)
        return Nearest(*found, torch.where(success, ledger.scores, torch.inf), spent=spent, lost=lost)

    def _attack_rows(self, samples: Samples, queue: Tensor, attempt: int) -> None:
        """Samples leave when they are done, and others take their place."""
        total, taken, age = len(queue), 0, 0.0  # age: steps that a sample of the batch has taken, on average
        together = not self._exits and self._keep != "nearest"  # all take every step: nothing is read back
        batch, waiting = _Batch(queue[:0], samples.select(queue[:0]), State()), _Waiting()
        while len(queue) or len(batch.rows) or len(waiting):
            if len(waiting) >= self._capacity or not (len(queue) or len(batch.rows)):
                batch = batch.join(self._confirm(waiting))
                self._report(attempt, total, len(queue), len(batch.rows), age, count=True)
                continue
            room = self._capacity - len(batch.rows)
            if len(queue) and (4 * room >= self._capacity or not len(batch.rows)):
                admitted, queue = queue[:room], queue[room:]
                held = len(batch.rows) + len(waiting)
                age *= held / (held + len(admitted))
                new = samples.select(admitted)
                batch = batch.join(_Batch(admitted, new, self._method.begin(new, attempt)))
            trial = self._method.step(batch.working, batch.state, self._oracle)
            self._tally.add("iterations", batch.rows)
            if self._waits:
                batch, trial = waiting.take(batch, trial)
            success = torch.zeros_like(trial.finished)
            if self._keep != "last" and len(batch.rows):
                success = self._ledger.offer(batch.rows, batch.working, trial.images, trial.predictions, trial.scores)
            leaves = trial.finished | success if self._exits else trial.finished
            taken, age = taken + 1, age + 1
            if taken % self._method.steps if together else not bool(leaves.any()):
                if taken % max(self._method.steps // _REPORTS, 1) == 0:
                    self._report(attempt, total, len(queue), len(batch.rows) + len(waiting), age)
                continue
            self._judge_final(batch, trial.finished & ~success if self._exits else trial.finished)
            batch = batch.select(_rows(~leaves))
            self._report(attempt, total, len(queue), len(batch.rows) + len(waiting), age, count=True)

    def _confirm(self, waiting: "_Waiting") -> "_Batch":
        """Ask the model itself about the claims that wait; those that it refuses search on where they were."""
        batch, trial = waiting.clear()
        success = self._ledger.offer(batch.rows, batch.working, trial.images, trial.predictions, trial.scores)
        self._judge_final(batch, trial.finished & ~success)
        return batch.select(_rows(~(trial.finished | success)))

    def _judge_final(self, batch: "_Batch", undecided: Bool[Tensor, " m"]) -> None:
        ended = batch.select(_rows(undecided))
        final = self._method.final(ended.state) if len(ended.rows) else None
        if final is not None:
            verdict = self._oracle.verdict(final, ended.working)
            self._ledger.offer(ended.rows, ended.working, final, verdict.predictions, verdict.values, judged=True)

    def _report(self, attempt: int, total: int, queued: int, working: int, age: float, *, count: bool = False) -> None:
        if self._engine.progress is None:
            return
        if count:
            self._broken = self._ledger.broken()
        settled = total - queued - working
        done = settled + working * min(age / self._method.steps, 1.0)
        share = (attempt + done / total) / self._attempts
        self._engine.progress(Progress(settled, total, self._broken, share, replace(self._oracle.passes)))


@dataclass(frozen=True)
class _Batch:
    """Samples that take their steps together: their rows among those of the run, and the state of their search."""

    rows: Int[Tensor, " m"]
    working: Samples
    state: State

    def select(self, rows: Int[Tensor, " k"]) -> "_Batch":
        state = {name: values[rows] for name, values in self.state.items()}
        return _Batch(self.rows[rows], self.working.select(rows), state)

    def join(self, other: "_Batch") -> "_Batch":
        if not len(self.rows) or not len(other.rows):
            return self if len(self.rows) else other
        state = {name: torch.cat([self.state[name], values]) for name, values in other.state.items()}
        return _Batch(torch.cat([self.rows, other.rows]), self.working.join(other.working), state)


class _Waiting:
    """Samples whose last step claims success, out of the batch until the model itself is asked about many at once."""

    def __init__(self) -> None:
        self._parts: list[tuple[_Batch, Trial]] = []

    def __len__(self) -> int:
        return sum(len(batch.rows) for batch, _ in self._parts)

    def take(self, batch: _Batch, trial: Trial) -> tuple[_Batch, Trial]:
        """Keep the samples that claim success; the others are returned."""
        claimed = batch.working.ranks(trial.predictions) >= batch.working.goal
        if not bool(claimed.any()):
            return batch, trial
        claims, others = (
            (batch.select(rows), Trial(*(values[rows] for values in vars(trial).values())))
            for rows in (_rows(claimed), _rows(~claimed))
        )
        self._parts.append(claims)
        return others

    def clear(self) -> tuple[_Batch, Trial]:
        """All of them together."""
        parts, self._parts = self._parts, []
        columns = zip(*(vars(trial).values() for _, trial in parts), strict=True)
        return reduce(_Batch.join, (batch for batch, _ in parts)), Trial(*(torch.cat(column) for column in columns))


def _rows(which: Bool[Tensor, " m"]) -> Int[Tensor, " k"]:
    return which.nonzero().squeeze(1)

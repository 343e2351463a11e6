"""The evaluation of one model: diagnostics, then stage after stage, each chunk recorded as soon as it is done."""

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maxmahal.attacks import Engine, Model, Prepared, Progress
from maxmahal.attacks.model_outputs import model_errors
from maxmahal.attacks.registry import find_attack
from maxmahal.attacks.threats import as_ball
from maxmahal.data import ImageData
from maxmahal.evaluate.diagnose.bpda import bpda_model
from maxmahal.evaluate.diagnose.checks import CHECKS
from maxmahal.evaluate.diagnose.probe import Probe, choose_probe, gives_gradients
from maxmahal.evaluate.durations import Forecast, diagnostics_seconds, duration, probe, stage_seconds
from maxmahal.evaluate.evaluated_model import EOT, SHOWN, EvaluatedModel
from maxmahal.evaluate.feature_plane import POINTS, Plane, find_plane
from maxmahal.evaluate.fingerprints import describe_device
from maxmahal.evaluate.plan import (
    CLEAN,
    Traits,
    blocks,
    describe_stage,
    lower_shares,
    plan_stages,
    samples_of,
    split,
    why_not,
)
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.evaluate.stage import StageInput, StageOutput, run_stage, save_images
from maxmahal.evaluate.suite import Stage, Suite, title_for
from maxmahal.models import Classifier
from maxmahal.random import stream_key
from maxmahal.records.reading import read_plane
from maxmahal.records.shards import Shard, findings_of_first, warnings_of
from maxmahal.records.store import Store
from maxmahal.records.types import Finding, Identity, Rating
from maxmahal.records.verdict import NO_GRADIENTS
from maxmahal.settings import Table

PICTURES = 24  # samples whose images are kept for the gallery
AT_ONCE = {"cuda": 8}  # chunks that a device computes in the time of one
MOST_VALUES = 500 * 3 * 224 * 224  # of the images of a chunk, so that memory does not grow with the data


def chunk_size(device: torch.device, suite: Suite, image_shape: Sequence[int], *, hurried: bool = False) -> int:
    """Samples that are attacked and recorded together on that device; fewer if time may run out in between."""
    usual = suite.chunk * AT_ONCE.get(device.type, 1) if device.type in AT_ONCE or not hurried else -(-suite.chunk // 5)
    return max(1, min(usual, MOST_VALUES // math.prod(image_shape)))


class _OutOfTimeError(BaseException):
    """The next step would not be done in time; not an error of the attack in which it is raised."""


@dataclass(kw_only=True)
class PlannedEvaluation:
    """One model and a suite, before anything is attacked."""

    name: str
    stochastic: bool
    suite: Suite
    data: ImageData
    others: Mapping[str, EvaluatedModel]  # all models of the call by their names, the evaluated one among them
    transfer: bool
    seed: int
    images_folder: Path | None  # where adversarial images are saved

    @property
    def target(self) -> EvaluatedModel:
        """The model under evaluation."""
        return self.others[self.name]

    @cached_property
    def _few(self) -> ImageData:
        return self.data.first(SHOWN).to(self.target.device)

    @cached_property
    def _differentiable(self) -> bool:
        return gives_gradients(self.target.model, self._few.first(2).float_images())

    @cached_property
    def _sources(self) -> frozenset[str]:
        """The models that transfer attacks can use."""
        two = self.data.first(2)
        return frozenset(
            name
            for name, other in self.others.items()
            if gives_gradients(other.model, two.to(other.device).float_images())
        )

    @cached_property
    def _straight_through(self) -> Model | None:
        """The model with its flat steps replaced, if any step can be."""
        model, images = self.target.model, self._few.float_images()
        with model_errors(model, images):
            return bpda_model(model, images) if isinstance(model, nn.Module) else None

    def _plan(self, findings: list[Finding]) -> list[tuple[Stage, str]]:
        """Every stage, and why it does not run (empty if it does)."""
        planned = plan_stages(self.suite, findings, self.others, transfer=self.transfer)
        stages = [replace(stage, title=title_for(stage, self.data.num_classes)) for stage in planned]
        uses_sources = any(find_attack(stage.attack.name).crafts_on_source for stage in stages)
        traits = Traits(
            self.data.num_classes,
            # Costly stages are skipped only if attacks made for stochastic models replace them.
            self.stochastic and any(stage.remedy == "eot" for stage in stages),
            self._differentiable,
            bpda=any(stage.search == "straight-through" for stage in stages) and self._straight_through is not None,
            sources=self._sources if uses_sources else frozenset(),
        )
        return [(stage, why_not(stage, self.target, traits, self.others)) for stage in stages]

    def estimate(self, recorded: Collection[str] = (), block: int = 1, workers: int = 1) -> list[str]:
        """The stages with planned times, as lines; times come from a short timed attack on this device."""
        attacks = [(stage, skipped) for stage, skipped in self._plan([])[1:] if stage.name not in recorded]
        runs = [stage for stage, skipped in attacks if not skipped]
        seen = probe(self.target, self.data, self.suite.threat_of(None), gradients=self._differentiable)
        options: dict[str, Any] = {"classes": self.data.num_classes, "draws": EOT if self.stochastic else 1}
        samples, speed = len(self.data), seen.speed
        expected = stage_seconds(runs, samples, speed, correct=seen.correct, robust=seen.robust, **options)
        most = stage_seconds(runs, samples, speed, correct=seen.correct, robust=seen.correct, patient=1.0, **options)
        times = dict(zip((stage.name for stage in runs), expected, strict=True))
        checked = not self.suite.diagnose or any(name != CLEAN.name for name in recorded)
        checks = 0.0 if checked else diagnostics_seconds(samples, speed, seen.robust)
        where = f"{self.suite.norm} {self.suite.epsilon}"
        lines = [f"{self.name}: {self.suite.name} on {samples:,} sample{'s' * (samples != 1)} at {where}"]
        lines += [f"  already recorded: {'; '.join(recorded)}"] if recorded else []
        lines += [f"  diagnostics: about {duration(checks)}"] if checks else []
        for stage, skipped in attacks:
            known = times.get(stage.name)
            told = "time not known" if known is None else f"about {duration(known)}"
            lines.append(f"  {stage.title}: {f'skipped. {skipped}' if skipped else told}")
        costs = [f"{1000 * speed.gradient:.2g} ms per gradient"] * bool(speed.gradient)
        costs.append(f"{1000 * speed.query:.2g} ms per query")
        highest = sum(filter(None, most)) + bool(checks) * diagnostics_seconds(samples, speed, seen.correct)
        total = duration(checks + sum(filter(None, expected)))
        several = ""
        if workers > 1:
            parts = [len(blocks(stage, samples, block)) for stage in runs]
            shares = (math.ceil(count / workers) / count for count in parts)
            seconds = sum(share * (known or 0.0) for share, known in zip(shares, expected, strict=True))
            several = f" ({duration(checks + seconds)} on {workers} workers, with chunks of {block})"
        lines.append(
            f"In all about {total}{several}, and at most about {duration(highest)} if no attack breaks a sample; "
            "attacks that warnings call for are not included."
        )
        lines.append(
            f"Measured on {describe_device(self.target.device)} with {seen.images} image{'s' * (seen.images != 1)}: "
            f"{', '.join(costs)}; a short attack left {seen.robust:.0%} correct, of {seen.correct:.0%} before it."
        )
        return lines

    @cached_property
    def _ids(self) -> list[int]:
        return self.data.sample_ids.tolist()

    @cached_property
    def _pictured(self) -> frozenset[int]:
        rows = choose_probe(len(self.data), seed=0)[:PICTURES]
        return frozenset(self._ids[row] for row in rows.tolist())

    def probe(self, progress: Callable[[Progress], None] | None = None) -> Probe:
        """What the diagnostics are told; ``progress`` is called during their attacks."""
        data = self.data.select(choose_probe(len(self.data), seed=0)).to(self.target.device)
        return Probe(
            model=self.target.model,
            images=data.float_images(),
            labels=data.labels,
            sample_ids=data.sample_ids,
            threat=as_ball(self.suite.threat_of(None), "The checks for false robustness"),
            seed=self.seed,
            stochastic=self.stochastic,
            others={name: other.model for name, other in self.others.items() if name != self.target.name},
            progress=progress,
        )

    def compute(
        self,
        stage: Stage,
        number: int,
        rows: list[int],
        before: Mapping[int, tuple[int, float]] | None,
        plane: Plane | None,
        progress: Callable[[Progress], None] | None = None,
    ) -> StageOutput:
        """One chunk: depends on nothing but its arguments, so that it can be computed anywhere.

        ``before`` are the clean predictions of its samples, None in the clean stage.
        """
        data = self.data.select(torch.tensor(rows)).to(self.target.device)
        # Just across the boundary a stochastic model is right half the time: the search must go on there.
        eot = max(stage.eot, EOT) if self.stochastic else 1
        fast = self.target.fast
        search = fast.precise() if stage.search == "precise" and isinstance(fast, Prepared) else fast
        if stage.search == "straight-through" and self._straight_through is not None:
            search = self._straight_through
        task = StageInput(
            stage=stage,
            target=self.target,
            model=search,
            images=data.float_images(),
            labels=data.labels,
            sample_ids=data.sample_ids,
            threat=self.suite.threat_of(stage),
            seed=stream_key(self.seed, stage.name) % 2**63,
            engine=Engine(early_exit=not self.stochastic, eot_samples=eot, progress=progress),
            others=self.others,
            stochastic=self.stochastic,
            model_seed=stream_key("chunk", self.seed, stage.name, number),
            before=before,
            check_rounded=self.images_folder is not None and before is not None,
            pictured=self._pictured,
            drawn=frozenset(self._ids[:POINTS]),
            plane=plane,
        )
        output = run_stage(task)
        if self.images_folder is not None and before is not None:
            ball = re.sub(r"[:/]", "-", f"{self.suite.norm}-{self.suite.epsilon}")
            evaluated = f"{self.suite.name}-{ball}-seed-{self.seed}-of-{len(self.data)}"
            folder = self.images_folder / self.target.name / evaluated / stage.name
            save_images(folder, number, task, output, self.images_folder.parent)
        return output


@dataclass(kw_only=True)
class EvaluationRun(PlannedEvaluation):
    """One evaluation, or one shard of it, while it runs; ``number`` is its number in the records."""

    store: Store
    number: int
    identity: Identity
    reporter: EvaluationReporter
    until: float | None = None
    shard: Shard | None = None

    def __post_init__(self) -> None:
        self._forecast = Forecast(len(self.data), self.data.num_classes, EOT if self.stochastic else 1)

    def run(self) -> None:
        """Compute everything that is still missing, as far as time allows."""
        self.reporter.begin(self.target.name, len(self.data))
        done = self.store.finished_stages(self.number)
        if known := len(self.store.findings(self.number)):
            done.insert(1, "diagnostics" if known == len(CHECKS) else f"{known} of {len(CHECKS)} diagnostics")
        if done:
            self.reporter.note(f"  already recorded: {'; '.join(done)}")
        try:
            plan, first = self._plan([]), 1
            self._run_stages(plan[:1])
            # Warnings add attacks at the end, so later shards run the suite while the first one looks for warnings.
            # What a stochastic model skips depends on them.
            if self.shard is not None and self.shard.index and not self.stochastic:
                self._run_stages(plan, first)
                first = len(plan)
            self._run_stages(self._plan(self._diagnose() if self.suite.diagnose else []), first)
        except _OutOfTimeError as stop:
            ahead = "; ".join(stage.title for stage in self._forecast.ahead())
            left = f" Left to do: {ahead}." if ahead else ""  # nothing is planned yet
            self.reporter.note(
                f"Out of time: {self.target.name} is not finished; the same call continues it.{left}{stop}"
            )
        else:
            self.store.finish(self.number)

    @cached_property
    def _body(self) -> Table:
        """The description of the evaluation when it began, perhaps on another device: chunks are known by numbers."""
        return self.store.body(self.number)

    @cached_property
    def _plane(self) -> Plane | None:
        model = self.target.model
        if not isinstance(model, Classifier):
            return None
        some = self.data.first(POINTS).to(self.target.device)
        with model_errors(model, images := some.float_images()):
            plane = find_plane(model, images, some.labels)
        return Plane(*read_plane(self.store.keep_plane(self.number, plane.to_bytes())))

    def _diagnose(self) -> list[Finding]:
        """The results of all checks; those already recorded, by the first shard too, are not repeated."""
        if self.shard is not None and self.shard.index:
            found = findings_of_first(self.store.path.parent, self.shard, self.identity, self._body["same"])
            if len(found) == len(CHECKS) and warnings_of(found) != warnings_of(self.store.findings(self.number)):
                self.store.adopt(self.number, found)
        known = {finding.check for finding in self.store.findings(self.number)}
        missing = {name: position for position, name in enumerate(CHECKS) if name not in known}
        if missing:
            self.reporter.stage("diagnostics", len(missing), 0)
            for name, finding in self._findings(missing):
                self.store.add_finding(self.number, missing[name], finding)
                self.reporter.finding(finding)
        return self.store.findings(self.number)

    def _findings(self, missing: Mapping[str, int]) -> Iterator[tuple[str, Finding]]:
        probe = self.probe(lambda _: self._check_time(0.0))
        for name, position in missing.items():
            self._check_time(0.0)
            # Before it starts, because some checks take minutes.
            self.reporter.note(f"  diagnostics, {position + 1} of {len(CHECKS)}: {CHECKS[name].title}")
            yield name, CHECKS[name](probe)

    def _run_stages(self, plan: list[tuple[Stage, str]], first: int = 0) -> None:
        """Record the plan and run its stages in turn, from the first one on."""
        for position, (stage, skipped) in enumerate(plan):
            body = describe_stage(stage, self.suite, self.seed)
            self.store.plan(self.number, position, stage.name, body, skipped)
            if skipped == NO_GRADIENTS and position >= first:  # other reasons belong to ordinary models
                self.reporter.note(f"  {stage.title}: skipped. {skipped}")
        self._forecast.plan([stage for stage, skipped in plan[1:] if not skipped])
        runs = [(position, stage) for position, (stage, skipped) in enumerate(plan) if not skipped]
        self._run_all([(position, stage) for position, stage in runs if position >= first])

    def _run_all(self, stages: Sequence[tuple[int, Stage]]) -> None:
        for position, stage in stages:
            self._run_stage(position, stage)

    def _run_stage(self, position: int, stage: Stage) -> None:
        # Only what earlier stages did: this stage may be half done, and its plan must not depend on that.
        shares = self.store.worst_shares(self.number, before=position)
        missing, recorded = self._missing(position, stage, shares)
        planned = recorded + sum(map(len, missing.values()))
        if recorded and position and self.images_folder is not None and not self.images_folder.exists():
            self.reporter.note(f"{recorded} samples were attacked without --save-images; their images are not saved.")
        self.reporter.stage(stage.title, planned, recorded)
        self._forecast.begin(stage, planned - recorded, sum(shares.values()) / max(len(shares), 1))
        self.reporter.within(0.0, self._forecast.outlook())
        before = self.store.clean_predictions(self.number) if position else None
        shares = self.store.worst_shares(self.number)  # asked once: it reads all records
        latest = 0.0  # seconds that the last chunk took; the first of all is slow, because it compiles
        for number, rows in missing.items():
            # An attack that does not report its progress cannot be stopped in between.
            blind = "engine" not in find_attack(stage.attack.name).parameters
            self._check_time(latest or (self._forecast.seconds(len(rows)) if blind else 0.0))
            started = time.monotonic()
            output = self.compute(stage, number, rows, before, self._plane, self._watch(rows))
            self.store.add_chunk(self.number, position, number, output, describe_device(self.target.device))
            self._forecast.learn(len(output.columns), output.rating)
            if stage.counts:
                lower_shares(shares, output.columns)
            self.reporter.chunk(len(output.columns), sum(shares.values()) / max(len(shares), 1))
            latest = time.monotonic() - started

    def _missing(self, position: int, stage: Stage, shares: Mapping[int, float]) -> tuple[dict[int, list[int]], int]:
        """The rows of each chunk that is still to be computed, and how many samples are recorded."""
        samples = partial(samples_of, stage, shares=shares, ids=self._ids)
        if size := self._body.get("block"):
            parts = blocks(stage, len(self.data), size)
            numbers = [number for number in range(len(parts)) if self.shard is None or self.shard.has(number)]
            ours, count = {number: samples(parts[number]) for number in numbers}, len(parts)
        else:
            (everything,) = blocks(stage, len(self.data), len(self.data))
            ours = dict(enumerate(split(samples(everything), self._body.get("chunk", self.suite.chunk))))
            count = len(ours)
        self.store.size(self.number, position, sum(map(len, ours.values())), count)
        done = self.store.done_chunks(self.number, position)
        left = {number: rows for number, rows in ours.items() if number not in done}
        if empty := [number for number, rows in left.items() if not rows]:
            self.store.add_empty_chunks(self.number, position, empty, describe_device(self.target.device))
        recorded = sum(len(rows) for number, rows in ours.items() if number in done)
        return {number: rows for number, rows in left.items() if rows}, recorded

    def _watch(self, rows: Sequence[int]) -> Callable[[Progress], None]:
        """Reports the progress of a chunk, and stops it when time is up."""
        started = time.monotonic()

        def report(progress: Progress) -> None:
            passes = progress.passes
            spent = Rating(time.monotonic() - started, passes.forward, passes.backward, passes.queries)
            if self.until is not None and time.monotonic() >= self.until:
                whole = duration(self._forecast.seconds(len(rows), spent))
                raise _OutOfTimeError(f" The next {len(rows)} samples need about {whole} and were not finished.")
            done = progress.share * len(rows)
            self.reporter.within(done, self._forecast.outlook(done, spent))

        # An attack of the user's runs in a block in which nothing may be imported; the report is not a part of it.
        context = copy_context()
        return lambda found: context.run(report, found)

    def _check_time(self, seconds: float) -> None:
        if self.until is not None and time.monotonic() + seconds >= self.until:
            raise _OutOfTimeError

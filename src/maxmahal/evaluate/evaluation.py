"""The evaluation of one model: diagnostics, then stage after stage, each chunk recorded as soon as it is done."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from maxmahal.attacks import Engine, Model, Prepared, Progress
from maxmahal.attacks.answers import model_errors
from maxmahal.attacks.registry import find_attack
from maxmahal.data import ImageData
from maxmahal.evaluate.diagnose import CHECKS, Probe, bpda_model, choose_probe, gives_gradients
from maxmahal.evaluate.environment import describe_device
from maxmahal.evaluate.evaluated_model import SHOWN, EvaluatedModel
from maxmahal.evaluate.feature_plane import POINTS, Plane, find_plane
from maxmahal.evaluate.locks import ChunkLocks
from maxmahal.evaluate.pixels import save_chunk
from maxmahal.evaluate.plan import Traits, describe_stage, plan_stages, samples_of, split, why_not
from maxmahal.evaluate.predictions import EOT
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.evaluate.stage import StageInput, run_stage
from maxmahal.evaluate.suite import Stage, Suite, title_for
from maxmahal.models import Classifier
from maxmahal.random import stream_key
from maxmahal.records.store import Store
from maxmahal.records.types import Finding

PICTURES = 24  # samples whose images are kept for the gallery
POLL = 0.2  # seconds between checks of a chunk that another process computes
AT_ONCE = {"cuda": 8}  # chunks that a device computes in the time of one


def chunk_size(device: torch.device, suite: Suite) -> int:
    """Samples that are attacked and recorded together on that device."""
    return suite.chunk * AT_ONCE.get(device.type, 1)


class _OutOfTimeError(Exception):
    """The next step would not be done in time."""


class EvaluationRun:
    """One evaluation while it runs; ``number`` is its number in the records."""

    def __init__(
        self,
        store: Store,
        locks: ChunkLocks,
        number: int,
        target: EvaluatedModel,
        suite: Suite,
        data: ImageData,
        *,
        seed: int,
        stochastic: bool,
        others: Mapping[str, EvaluatedModel],
        transfer: bool,
        images_folder: Path | None,
        reporter: EvaluationReporter,
        until: float | None = None,
    ) -> None:
        self._store, self._locks, self._number = store, locks, number
        self._target, self._suite, self._data = target, suite, data
        self._seed, self._stochastic = seed, stochastic
        self._others, self._transfer, self._images_folder, self._reporter = others, transfer, images_folder, reporter
        self._ids = data.sample_ids.tolist()
        self._until = math.inf if until is None else until

    def run(self) -> None:
        """Compute everything that is still missing, as far as time allows."""
        self._reporter.begin(self._target.name, len(self._data))
        self._report_recorded()
        try:
            ((clean, _), *_) = self._plan([])
            self._record_plan([(clean, "")])
            self._run_stage(0, clean)
            plan = self._plan(self._diagnose() if self._suite.diagnose else [])
            self._record_plan(plan)
            for position, (stage, skipped) in enumerate(plan):
                if position and not skipped:
                    self._run_stage(position, stage)
        except _OutOfTimeError:
            self._reporter.note(f"Out of time: {self._target.name} is not finished; the same call continues it.")
        else:
            self._store.finish(self._number)

    def _report_recorded(self) -> None:
        done = self._store.finished_stages(self._number)
        known = len(self._store.findings(self._number))
        if known:
            done.insert(1, "diagnostics" if known == len(CHECKS) else f"{known} of {len(CHECKS)} diagnostics")
        if done:
            self._reporter.note(f"  already recorded: {'; '.join(done)}")

    @cached_property
    def _chunk_size(self) -> int:
        """As when the evaluation began, perhaps on another device: chunks are known by their numbers."""
        return int(self._store.body(self._number).get("chunk", self._suite.chunk))

    @cached_property
    def _few(self) -> ImageData:
        return self._data.first(SHOWN).to(self._target.device)

    @cached_property
    def _differentiable(self) -> bool:
        return gives_gradients(self._target.model, self._few.first(2).float_images())

    @cached_property
    def _sources(self) -> frozenset[str]:
        """The models that transfer attacks can use."""
        two = self._data.first(2)
        return frozenset(
            name
            for name, other in self._others.items()
            if gives_gradients(other.model, two.to(other.device).float_images())
        )

    @cached_property
    def _straight_through(self) -> Model | None:
        """The model with its flat steps replaced, if any step can be."""
        model, images = self._target.model, self._few.float_images()
        with model_errors(model, images):
            return bpda_model(model, images) if isinstance(model, nn.Module) else None

    @cached_property
    def _plane(self) -> Plane | None:
        model = self._target.model
        if not isinstance(model, Classifier):
            return None
        some = self._data.first(POINTS).to(self._target.device)
        with model_errors(model, images := some.float_images()):
            plane = find_plane(model, images, some.labels)
        return Plane.from_bytes(self._store.keep_plane(self._number, plane.to_bytes()))

    @cached_property
    def _pictured(self) -> frozenset[int]:
        rows = choose_probe(len(self._data), seed=0)[:PICTURES]
        return frozenset(self._ids[row] for row in rows.tolist())

    def _plan(self, findings: list[Finding]) -> list[tuple[Stage, str]]:
        """Every stage, and why it does not run (empty if it does)."""
        planned = plan_stages(self._suite, findings, self._others, transfer=self._transfer)
        stages = [replace(stage, title=title_for(stage, self._data.num_classes)) for stage in planned]
        uses_sources = any(find_attack(stage.attack.name).crafts_on_source for stage in stages)
        traits = Traits(
            self._data.num_classes,
            # Costly stages are skipped only if attacks made for stochastic models replace them.
            self._stochastic and any(stage.remedy == "eot" for stage in stages),
            self._differentiable,
            bpda=any(stage.search == "straight-through" for stage in stages) and self._straight_through is not None,
            sources=self._sources if uses_sources else frozenset(),
        )
        return [(stage, why_not(stage, self._target, traits, self._others)) for stage in stages]

    def _record_plan(self, plan: list[tuple[Stage, str]]) -> None:
        for position, (stage, skipped) in enumerate(plan):
            body = describe_stage(stage, self._suite, self._seed)
            self._store.plan(self._number, position, stage.name, body, skipped)

    def _diagnose(self) -> list[Finding]:
        """The results of all checks; those already recorded are not repeated."""
        known = {finding.check for finding in self._store.findings(self._number)}
        if known < set(CHECKS):
            self._reporter.stage("diagnostics", len(CHECKS) - len(known), 0)
        for position, (name, check) in enumerate(CHECKS.items()):
            if name not in known:
                self._check_time(0.0)
                # Before it starts, because some checks take minutes.
                self._reporter.note(f"  diagnostics, {position + 1} of {len(CHECKS)}: {check.title}")
                finding = check(self._probe)
                self._store.add_finding(self._number, position, finding)
                self._reporter.finding(finding)
        return self._store.findings(self._number)

    @cached_property
    def _probe(self) -> Probe:
        data = self._data.select(choose_probe(len(self._data), seed=0)).to(self._target.device)
        return Probe(
            model=self._target.model,
            images=data.float_images(),
            labels=data.labels,
            sample_ids=data.sample_ids,
            threat=self._suite.threat_of(None),
            seed=self._seed,
            stochastic=self._stochastic,
            others={name: other.model for name, other in self._others.items() if name != self._target.name},
        )

    def _run_stage(self, position: int, stage: Stage) -> None:
        # Only what earlier stages did: this stage may be half done, and its plan must not depend on that.
        shares = self._store.worst_shares(self._number, before=position)
        rows = samples_of(stage, len(self._data), shares, self._ids)
        chunks = dict(enumerate(split(rows, self._chunk_size)))
        self._store.size(self._number, position, len(rows), len(chunks))
        done = self._store.done_chunks(self._number, position)
        recorded = sum(len(rows) for number, rows in chunks.items() if number in done)
        if recorded and position and self._images_folder is not None and not self._images_folder.exists():
            self._reporter.note(f"{recorded} samples were attacked without --save-images; their images are not saved.")
        self._reporter.stage(stage.title, len(rows), recorded)
        latest = 0.0  # seconds that the last chunk took; the first of all is slow, because it compiles
        while missing := [number for number in chunks if number not in done]:
            before = len(done)
            for number in missing:
                self._check_time(latest)
                started = time.monotonic()
                if self._run_chunk(position, stage, number, chunks[number]):
                    latest = time.monotonic() - started
                done = self._store.done_chunks(self._number, position)
            if len(done) == before:
                time.sleep(POLL)  # another process computes what is left

    def _run_chunk(self, position: int, stage: Stage, number: int, rows: list[int]) -> bool:
        """False if another process computes it or has done so."""
        with self._locks.lock(self._number, position, number) as ours:
            if not ours or number in self._store.done_chunks(self._number, position):
                return False
            task = self._input(position, stage, number, rows)
            output = run_stage(task)
            if self._images_folder is not None and position:
                ball = f"{self._suite.norm}-{self._suite.epsilon.replace('/', '-')}"
                evaluated = f"{self._suite.name}-{ball}-seed-{self._seed}-of-{len(self._data)}"
                folder = self._images_folder / self._target.name / evaluated / stage.name
                save_chunk(
                    folder, number, task.images, output.images, output.columns, task.ball, self._images_folder.parent
                )
            device = describe_device(self._target.device)
            self._store.add_chunk(
                self._number, position, number, output.columns, output.rating, device, output.pictures, output.points
            )
        shares = self._store.worst_shares(self._number)
        self._reporter.chunk(len(rows), sum(shares.values()) / max(len(shares), 1))
        return True

    def _input(self, position: int, stage: Stage, number: int, rows: list[int]) -> StageInput:
        data = self._data.select(torch.tensor(rows)).to(self._target.device)

        def report(progress: Progress) -> None:
            self._reporter.within(progress.settled, progress.total)

        # Just across the boundary a stochastic model is right half the time: the search must go on there.
        eot = max(stage.eot, EOT) if self._stochastic else 1
        return StageInput(
            stage=stage,
            target=self._target,
            model=self._search_model(stage),
            images=data.float_images(),
            labels=data.labels,
            sample_ids=data.sample_ids,
            threat=self._suite.threat_of(stage),
            seed=stream_key(self._seed, stage.name) % 2**63,
            engine=Engine(early_exit=not self._stochastic, eot_samples=eot, progress=report),
            others=self._others,
            stochastic=self._stochastic,
            model_seed=stream_key("chunk", self._seed, stage.name, number),
            before=self._store.clean_predictions(self._number) if position else None,
            check_rounded=self._images_folder is not None and position > 0,
            pictured=self._pictured,
            drawn=frozenset(self._ids[:POINTS]),
            plane=self._plane,
        )

    def _check_time(self, seconds: float) -> None:
        if time.monotonic() + seconds >= self._until:
            raise _OutOfTimeError

    def _search_model(self, stage: Stage) -> Model:
        if stage.search == "straight-through" and self._straight_through is not None:
            return self._straight_through
        fast = self._target.fast
        return fast.precise() if stage.search == "precise" and isinstance(fast, Prepared) else fast

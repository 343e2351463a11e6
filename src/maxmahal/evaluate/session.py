"""The evaluation of one model: its stages in turn, each chunk recorded as soon as it is done."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from maxmahal.attacks import Model, Prepared
from maxmahal.attacks.registry import find_attack
from maxmahal.data import ImageData
from maxmahal.evaluate.chunk import Work, run_chunk
from maxmahal.evaluate.claims import Claims
from maxmahal.evaluate.diagnose import CHECKS, TITLES, Probe, choose_probe
from maxmahal.evaluate.diagnose.probe import gives_gradients
from maxmahal.evaluate.diagnose.revive import revive
from maxmahal.evaluate.environment import describe_device
from maxmahal.evaluate.judging import draws_lots
from maxmahal.evaluate.pixels import save_chunk
from maxmahal.evaluate.plan import Planned, Traits, describe_stage, plan_stages, samples_of, split, why_not
from maxmahal.evaluate.planes import POINTS, Plane, find_plane
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.evaluate.subject import Subject
from maxmahal.evaluate.suite import Suite, title_for
from maxmahal.models import Classifier
from maxmahal.records.store import Store
from maxmahal.records.types import Finding

PICTURES = 24  # samples whose images are kept for the gallery
POLL = 0.2  # seconds between looks at a chunk that another process is computing
AT_ONCE = {"cuda": 8}  # chunks that a device takes in the time of one


def chunk_on(device: torch.device, suite: Suite) -> int:
    """Samples that are attacked and recorded together there: what a kill can cost is time, not samples."""
    return suite.chunk * AT_ONCE.get(device.type, 1)


LOOKED_AT = 64  # images that tell whether a model draws, or passes gradients


class _OutOfTimeError(Exception):
    """What comes next would not be done in time."""


class Session:
    """Everything about one evaluation while it runs; ``number`` is its own in the records."""

    def __init__(
        self,
        store: Store,
        claims: Claims,
        number: int,
        subject: Subject,
        suite: Suite,
        data: ImageData,
        *,
        seed: int,
        others: Mapping[str, Subject],
        crafted: bool,
        images_folder: Path | None,
        reporter: EvaluationReporter,
        until: float | None = None,
    ) -> None:
        self._store, self._claims, self._number = store, claims, number
        self._subject, self._suite, self._data, self._seed = subject, suite, data, seed
        self._others, self._crafted, self._images_folder, self._reporter = others, crafted, images_folder, reporter
        self._ids = data.sample_ids.tolist()
        self._until = math.inf if until is None else until

    def finish(self) -> bool:
        """Whatever is still missing, as far as time allows; whether that was all."""
        try:
            self._finish()
        except _OutOfTimeError:
            self._reporter.note(f"Out of time: {self._subject.name} is not finished; the same call goes on.")
            return False
        return True

    def _finish(self) -> None:
        self._reporter.begin(self._subject.name, len(self._data))
        self._tell_what_is_done()
        clean = self._plan([])[0]
        self._record_plan([clean])
        self._run_stage(clean)
        findings = self._diagnose() if self._suite.diagnose else []
        plan = self._plan(findings)
        self._record_plan(plan)
        for planned in plan[1:]:
            self._run_stage(planned)
        self._store.finish(self._number)

    def _tell_what_is_done(self) -> None:
        done = self._store.finished_stages(self._number)
        known = len(self._store.findings(self._number))
        if known:
            done.insert(1, "diagnostics" if known == len(CHECKS) else f"{known} of {len(CHECKS)} diagnostics")
        if done:
            self._reporter.note(f"  recorded before, and not done again: {'; '.join(done)}")

    @cached_property
    def _chunk(self) -> int:
        """As the evaluation was begun with, perhaps on another device: chunks are known by their numbers."""
        return int(self._store.body(self._number).get("chunk", self._suite.chunk))

    @cached_property
    def _few(self) -> ImageData:
        return self._data.first(LOOKED_AT).to(self._subject.device)

    @cached_property
    def _stochastic(self) -> bool:
        return draws_lots(self._subject.model, self._few.float_images())

    @cached_property
    def _differentiable(self) -> bool:
        return gives_gradients(self._subject.model, self._few.first(2).float_images())

    @cached_property
    def _sources(self) -> frozenset[str]:
        """The models that can be crafted on."""
        two = self._data.first(2)
        return frozenset(
            name
            for name, other in self._others.items()
            if gives_gradients(other.model, two.to(other.device).float_images())
        )

    @cached_property
    def _stand_in(self) -> Model | None:
        model = self._subject.model
        return revive(model, self._few.float_images()) if isinstance(model, nn.Module) else None

    @cached_property
    def _work(self) -> Work:
        order = choose_probe(len(self._data), seed=0).tolist()
        return Work(
            subject=self._subject,
            suite=self._suite,
            data=self._data,
            seed=self._seed,
            stochastic=self._stochastic,
            others=self._others,
            plane=self._plane(),
            pictured=frozenset(self._ids[row] for row in order[:PICTURES]),
            placed=frozenset(self._ids[:POINTS]),
            round_images=self._images_folder is not None,
            reporter=self._reporter,
        )

    def _plane(self) -> Plane | None:
        model = self._subject.model
        if not isinstance(model, Classifier):
            return None
        some = self._data.first(POINTS).to(self._subject.device)
        plane = find_plane(model, some.float_images(), some.labels)
        return Plane.from_bytes(self._store.keep_plane(self._number, plane.to_bytes()))

    def _plan(self, findings: list[Finding]) -> list[Planned]:
        everything = plan_stages(self._suite, findings, self._others, crafted=self._crafted)
        stages = [replace(stage, title=title_for(stage, self._data.num_classes)) for stage in everything]
        crafts = any(find_attack(stage.attack.name).crafts_on_source for stage in stages)
        asks_to_revive = any(stage.search == "straight-through" for stage in stages)
        traits = Traits(
            self._data.num_classes,
            # Costly stages are left out only where attacks made for models that draw are there in their stead.
            self._stochastic and any(stage.remedy == "eot" for stage in stages),
            self._differentiable,
            revivable=asks_to_revive and self._stand_in is not None,
            sources=self._sources if crafts else frozenset(),
        )
        return [
            Planned(position, stage, why_not(stage, self._subject, traits, self._others))
            for position, stage in enumerate(stages)
        ]

    def _record_plan(self, plan: list[Planned]) -> None:
        for planned in plan:
            body = describe_stage(planned, self._suite, self._seed)
            self._store.plan(self._number, planned.position, planned.stage.name, body, planned.skipped)

    def _diagnose(self) -> list[Finding]:
        """The answers of all checks; those that are recorded already stand."""
        known = {finding.check for finding in self._store.findings(self._number)}
        if known < set(CHECKS):
            self._reporter.stage("diagnostics", len(CHECKS) - len(known), 0)
        for position, (name, check) in enumerate(CHECKS.items()):
            if name not in known:
                self._check_time(0.0)
                # Before it starts, for some take minutes and none has anything to say in between.
                self._reporter.note(f"  diagnostics, {position + 1} of {len(CHECKS)}: {TITLES[name]}")
                finding = check(self._probe)
                self._store.add_finding(self._number, position, finding)
                self._reporter.finding(finding)
        return self._store.findings(self._number)

    @cached_property
    def _probe(self) -> Probe:
        rows = choose_probe(len(self._data), seed=0)
        data = self._data.select(rows).to(self._subject.device)
        others = {name: other.model for name, other in self._others.items() if name != self._subject.name}
        return Probe(
            model=self._subject.model,
            images=data.float_images(),
            labels=data.labels,
            sample_ids=data.sample_ids,
            threat=self._suite.threat_of(None),
            seed=self._seed,
            stochastic=self._stochastic,
            others=others,
        )

    def _run_stage(self, planned: Planned) -> None:
        if planned.skipped:
            return
        # Only what earlier stages did: this one may be half done, and its plan must not depend on that.
        shares = self._store.worst_shares(self._number, before=planned.position)
        rows = samples_of(planned.stage, len(self._data), shares, self._ids)
        chunks = dict(enumerate(split(rows, self._chunk)))
        self._store.size(self._number, planned.position, len(rows), len(chunks))
        done = self._store.done_chunks(self._number, planned.position)
        recorded = sum(len(rows) for number, rows in chunks.items() if number in done)
        if recorded and planned.position and self._images_folder is not None and not self._images_folder.exists():
            self._reporter.note(f"{recorded} samples were attacked before images were asked for; theirs are not kept.")
        self._reporter.stage(planned.stage.title, len(rows), recorded)
        latest = 0.0  # seconds that a chunk of this stage took; the first one of all is slow, for it compiles
        while missing := [number for number in chunks if number not in done]:
            before = len(done)
            for number in missing:
                self._check_time(latest)
                started = time.monotonic()
                if self._run_chunk(planned, number, chunks[number]):
                    latest = time.monotonic() - started
                done = self._store.done_chunks(self._number, planned.position)
            if len(done) == before:
                time.sleep(POLL)  # another process is computing what is left

    def _run_chunk(self, planned: Planned, number: int, rows: list[int]) -> bool:
        """Whether it was ours to compute."""
        with self._claims.claim(self._number, planned.position, number) as ours:
            if not ours or number in self._store.done_chunks(self._number, planned.position):
                return False
            before = self._store.clean_predictions(self._number)
            done = run_chunk(self._work, planned, number, rows, before, self._search_model(planned))
            if self._images_folder is not None and planned.position > 0:
                within = f"{self._suite.norm}-{self._suite.epsilon.replace('/', '-')}"
                evaluated = f"{self._suite.name}-{within}-seed-{self._seed}-of-{len(self._data)}"
                folder = self._images_folder / self._subject.name / evaluated / planned.stage.name
                ball = self._suite.ball_of(planned.stage)
                save_chunk(folder, number, done.clean, done.images, done.columns, ball, self._images_folder.parent)
            self._store.add_chunk(
                self._number,
                planned.position,
                number,
                done.columns,
                done.rating,
                describe_device(self._subject.device),
                done.pictures,
                done.points,
            )
        self._reporter.chunk(len(rows), self._robust())
        return True

    def _check_time(self, seconds: float) -> None:
        if time.monotonic() + seconds >= self._until:
            raise _OutOfTimeError

    def _search_model(self, planned: Planned) -> Model:
        if planned.stage.search == "straight-through" and self._stand_in is not None:
            return self._stand_in
        fast = self._subject.fast
        return fast.precise() if planned.stage.search == "precise" and isinstance(fast, Prepared) else fast

    def _robust(self) -> float:
        """The worst case so far, over the samples that were looked at."""
        shares = self._store.worst_shares(self._number)
        return sum(shares.values()) / max(len(shares), 1)

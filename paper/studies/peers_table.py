"""Robust accuracy on the digits: our attacks and those of other libraries (peers) at equal budgets.

    python -m paper.studies.peers_table

A peer that breaks more samples than ours shows a bug of ours. Each row is one kind of attack with a budget per sample.
It compares the peers with two attacks of ours: the same kind with the same steps, starts and queries and three seeds,
because single runs differ by several samples; and the best use of that budget. Every image that a peer returns is
projected and classified by the model itself.
"""

import argparse
import json
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor

from maxmahal import Classifier
from maxmahal.attacks import Linf, Objective, Result, apgd, cross_entropy, dlr, fmn, margin, mim, pgd, spsa, square
from maxmahal.data import ImageData
from maxmahal.evaluate import WorstCase, attack_hard, attack_within
from paper import ROOT
from paper.studies.digits import RUNS, digits_model, digits_test, save_record

sys.path.insert(0, str(ROOT / "benchmarks"))
from peers import NOT_INSTALLED, Peer, adaptive_peers, autoattack_peer, mim_peers, pgd_peers, spsa_peers

EPSILON, STEPS, STEP, QUERIES, RESTARTS = 0.15, 50, 0.015, 1000, 5
SPSA_STEPS, SPSA_PAIRS, SPSA_RATE = 20, 64, 0.03
THREAT = Linf(EPSILON)
PATH: dict[str, Any] = {"threat": THREAT, "steps": STEPS, "step_size": STEP}
PROGRESS = RUNS / "peers_table.jsonl"
SEEDS = (0, 1, 2)
TITLES = ("SCE", "MMC, scale 1", "AT (SCE)", "AT (MMC)")
PEER_BATCH = 50  # several peers average the loss over a batch; with a large one their gradients vanish in float32


@dataclass(frozen=True)
class Samples:
    """The input of every attack."""

    model: Classifier
    images: Tensor
    labels: Tensor
    ids: Tensor
    seed: int = 0

    def ours(self, attack: Callable[..., Result | WorstCase], **settings: Any) -> Tensor:
        """Which samples one of our attacks fooled."""
        return attack(self.model, self.images, self.labels, sample_ids=self.ids, seed=self.seed, **settings).fooled

    def pgd(self, objective: Objective, restarts: int = 1) -> Tensor:
        """Which samples PGD fooled."""
        return self.ours(pgd, objective=objective, restarts=restarts, **PATH)

    def apgd(self, objective: Objective, targets: str | None = None) -> Tensor:
        """Which samples APGD fooled."""
        return self.ours(apgd, objective=objective, threat=THREAT, steps=STEPS, targets=targets)

    def square(self, queries: int) -> Tensor:
        """Which samples Square fooled."""
        return self.ours(square, threat=THREAT, queries=queries)

    def spsa(self) -> Tensor:
        """Which samples SPSA fooled."""
        options = {"steps": SPSA_STEPS, "evaluations": 2 * SPSA_PAIRS, "learning_rate": SPSA_RATE}
        return self.ours(spsa, objective=margin(), threat=THREAT, **options)

    def fmn(self, targets: str | None) -> Tensor:
        """Which samples have an adversarial image inside the threat, by the minimum-norm attack."""
        settings: dict[str, Any] = {"norm": "linf", "steps": STEPS, "targets": targets, "sample_ids": self.ids}
        return fmn(self.model, self.images, self.labels, **settings).distances <= EPSILON


Ours = Callable[[Samples], Tensor]
BUDGETS: dict[str, Ours] = {
    f"{STEPS} gradients": lambda s: s.ours(attack_within, threat=THREAT, gradients=STEPS),
    f"{RESTARTS * STEPS} gradients": lambda s: s.ours(attack_within, threat=THREAT, gradients=RESTARTS * STEPS),
    f"{9 * STEPS} gradients": lambda s: s.ours(attack_within, threat=THREAT, gradients=9 * STEPS),
    f"{QUERIES} queries": lambda s: s.square(QUERIES),
    f"{2 * SPSA_STEPS * SPSA_PAIRS} queries": lambda s: s.square(2 * SPSA_STEPS * SPSA_PAIRS),
    "the standard suite's": lambda s: s.ours(attack_hard, threat=THREAT),
}
ONE, SEVERAL, NINE, FEW_QUERIES, MORE_QUERIES, ALL = BUDGETS


@dataclass(frozen=True)
class Group:
    """One kind of attack: its budget per sample, ours with its seeds, and the peers'."""

    name: str
    budget: str
    ours: Ours
    peers: list[Peer]
    seeds: tuple[int, ...] = SEEDS


def groups() -> list[Group]:
    """Everything that is compared."""
    every = adaptive_peers(EPSILON, STEPS, STEP, seed=0, restarts=RESTARTS, queries=QUERIES)
    plain = [peer for peer in pgd_peers(EPSILON, STEPS, STEP, seed=0) if not peer.attack.startswith("APGD")]

    def named(*words: str) -> list[Peer]:
        return [peer for peer in every if peer.attack in words]

    best = f"best of {RESTARTS}"
    several_on_margin = named(f"LinfPGD margin, {best}", f"PGD margin, {best}", f"pgd_linf dl, {best}")
    apgd_on_dlr = named("APGD dlr", "AutoPGD dlr", "apgd dlr", "APGD-DLR")
    targeted = named("APGDT", "apgd_targeted dlr", "APGD-T")
    mims = mim_peers(EPSILON, STEPS, STEP, 1.0, seed=0)
    spsas = spsa_peers(EPSILON, SPSA_STEPS, SPSA_RATE, 0.01, SPSA_PAIRS, seed=0)
    return [
        Group("PGD, cross-entropy", ONE, lambda s: s.pgd(cross_entropy()), plain),
        Group("PGD, margin", ONE, lambda s: s.pgd(margin()), named("LinfPGD margin", "PGD margin", "pgd_linf dl")),
        Group("PGD, DLR", ONE, lambda s: s.pgd(dlr()), named("pgd_linf dlr")),
        Group("MIM, cross-entropy", ONE, lambda s: s.ours(mim, objective=cross_entropy(), **PATH), mims, seeds=(0,)),
        Group("APGD, cross-entropy", ONE, lambda s: s.apgd(cross_entropy()),
              named("APGD ce", "AutoPGD ce", "apgd ce", "APGD-CE")),
        Group("APGD, DLR", ONE, lambda s: s.apgd(dlr()), apgd_on_dlr),
        Group("minimum norm", ONE, lambda s: s.fmn(None), named("LInfFMN", "LinfDeepFool"), seeds=(0,)),
        Group(f"PGD, cross-entropy, {best}", SEVERAL, lambda s: s.pgd(cross_entropy(), RESTARTS),
              named(f"pgd_linf ce, {best}")),
        Group(f"PGD, margin, {best}", SEVERAL, lambda s: s.pgd(margin(), RESTARTS), several_on_margin),
        Group("APGD, nine targets", NINE, lambda s: s.apgd(margin(), "top-9"), targeted),
        Group("minimum norm, nine targets", NINE, lambda s: s.fmn("top-9"),
              named("FAB multi-targeted", "fab targeted", "FAB-T"), seeds=(0,)),
        Group("Square", FEW_QUERIES, lambda s: s.square(QUERIES), named("Square")),
        Group("SPSA, margin", MORE_QUERIES, Samples.spsa, spsas, seeds=(0,)),
        Group("the strongest of all", ALL, BUDGETS[ALL], [autoattack_peer(EPSILON, "Linf", seed=0)], seeds=(0,)),
    ]  # fmt: skip


def fooled_by(peer: Peer, samples: Samples) -> Tensor:
    """Which samples a peer broke: its images are projected and classified by the model; clean errors count too."""
    batches = zip(*(torch.split(part, PEER_BATCH) for part in (samples.images, samples.labels)), strict=True)
    moved = torch.cat([peer.run(samples.model, images, labels) for images, labels in batches])
    with torch.no_grad():
        clean: Tensor = samples.model(samples.images).argmax(dim=1) != samples.labels
        attacked: Tensor = samples.model(THREAT.project(samples.images, moved)).argmax(dim=1) != samples.labels
    return clean | attacked


def compare(title: str, attack: str, count: int) -> dict[str, Any]:
    """One row: samples still correct under the same kind of attack, under ours at its budget, and under each peer's."""
    data: ImageData = digits_test()
    samples = Samples(digits_model(title), data.float_images()[:count], data.labels[:count], data.sample_ids[:count])
    group = next(group for group in groups() if group.name == attack)
    ours = int((~BUDGETS[group.budget](samples)).sum())
    same_kind = [int((~group.ours(replace(samples, seed=seed))).sum()) for seed in group.seeds]
    peers = {
        f"{peer.library} {peer.attack}": int((~fooled_by(peer, samples)).sum())
        for peer in group.peers
        if peer.version != NOT_INSTALLED
    }
    return {
        "model": title,
        "attack": group.name,
        "budget": group.budget,
        "images": count,
        "ours": ours,
        "same_kind": same_kind,
        "peers": peers,
        "peer_lower_by": ours - min(peers.values()),
        "torch": torch.__version__,
    }


def rows_so_far(count: int) -> list[dict[str, Any]]:
    """Rows that an earlier run measured on as many images."""
    lines = PROGRESS.read_text(encoding="utf-8").splitlines() if PROGRESS.exists() else []
    return [row for row in map(json.loads, lines) if row["images"] == count]


def main() -> None:
    """Attack every model in every way, one process per row; an interrupted run is resumed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--restart", action="store_true", help=f"delete {PROGRESS.relative_to(ROOT)} first")
    options = parser.parse_args()
    for title in TITLES:
        digits_model(title)
    if options.restart:
        PROGRESS.unlink(missing_ok=True)
    rows = rows_so_far(options.images)
    order = [(title, group.name) for group in groups() for title in TITLES]
    done_before = {(row["model"], row["attack"]) for row in rows}
    missing = [task for task in reversed(order) if task not in done_before]  # the longest start first
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for done in as_completed([pool.submit(compare, *task, options.images) for task in missing]):
            rows.append(done.result())
            print({name: rows[-1][name] for name in ("model", "attack", "ours", "same_kind", "peers")}, flush=True)
            with PROGRESS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    content = {
        "images": options.images,
        "threat": str(THREAT),
        "versions": {peer.library: peer.version for group in groups() for peer in group.peers},
        "largest_lead_of_a_peer": max(row["peer_lower_by"] for row in rows),
        "rows": sorted(rows, key=lambda row: (TITLES.index(row["model"]), order.index((row["model"], row["attack"])))),
    }
    if options.images == len(digits_test()):
        print("saved", save_record("peers_table", content).name)


if __name__ == "__main__":
    main()

"""Robust accuracy on the digits: our attacks beside every peer's at an equal budget.

    python studies/peers_table.py

A robust accuracy is a claim, and a peer that finds more than ours has found a bug of ours: each row sets one of our
attacks beside the peers' attacks of its kind, with the same steps, starts and queries, on the same 500 images. Every
image a peer returns is projected and judged by the model itself.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from digits import ROOT, digits_model, digits_test, save_record
from maxmahal import Classifier
from maxmahal.attacks import Attacked, Linf, Objective, apgd, cross_entropy, dlr, fmn, margin, mim, pgd, spsa, square
from maxmahal.data import ImageData
from maxmahal.evaluate import Effort, attack_hard

sys.path.insert(0, str(ROOT / "benchmarks"))
from peers import NOT_INSTALLED, Peer, adaptive_peers, autoattack_peer, mim_peers, pgd_peers, spsa_peers

EPSILON, STEPS, STEP, QUERIES, RESTARTS = 0.15, 50, 0.015, 1000, 5
SPSA_STEPS, SPSA_PAIRS, SPSA_RATE = 20, 64, 0.03
THREAT = Linf(EPSILON)
TITLES = ("SCE", "MMC, scale 1", "AT (SCE)", "AT (MMC)")
PEER_BATCH = 50  # several peers average the loss over a batch, and vanish in float32 when it is large


@dataclass(frozen=True)
class Samples:
    """What every attack is given."""

    model: Classifier
    images: Tensor
    labels: Tensor
    ids: Tensor

    def ours(self, attack: Callable[..., Attacked], **settings: Any) -> Tensor:
        """Which samples one of our attacks fooled."""
        return attack(self.model, self.images, self.labels, sample_ids=self.ids, seed=0, **settings).fooled

    def pgd(self, objective: Objective, restarts: int = 1) -> Tensor:
        """Which samples PGD fooled."""
        return self.ours(pgd, objective=objective, threat=THREAT, steps=STEPS, step_size=STEP, restarts=restarts)

    def apgd(self, objective: Objective, targets: str | None = None) -> Tensor:
        """Which samples APGD fooled."""
        return self.ours(apgd, objective=objective, threat=THREAT, steps=STEPS, targets=targets)

    def fmn(self, targets: str | None) -> Tensor:
        """Which samples have an adversarial image inside the threat, by the minimum-norm attack."""
        found = fmn(
            self.model, self.images, self.labels, norm="linf", steps=STEPS, targets=targets, sample_ids=self.ids
        )
        return found.distances <= EPSILON


@dataclass(frozen=True)
class Group:
    """One kind of attack: ours, and the peers' of the same kind and budget."""

    name: str
    ours: Callable[[Samples], Tensor]
    peers: list[Peer]


def groups() -> list[Group]:
    """Everything that is compared."""
    every = adaptive_peers(EPSILON, STEPS, STEP, seed=0, restarts=RESTARTS, queries=QUERIES)
    plain = [peer for peer in pgd_peers(EPSILON, STEPS, STEP, seed=0) if not peer.attack.startswith("APGD")]

    def named(*words: str) -> list[Peer]:
        return [peer for peer in every if peer.attack in words]

    best = f"best of {RESTARTS}"
    spsa_peer = spsa_peers(EPSILON, SPSA_STEPS, SPSA_RATE, 0.01, SPSA_PAIRS, seed=0)
    return [
        Group(f"PGD-{STEPS}, cross-entropy", lambda s: s.pgd(cross_entropy()), plain),
        Group(f"PGD-{STEPS}, margin", lambda s: s.pgd(margin()), named("LinfPGD margin", "PGD margin", "pgd_linf dl")),
        Group(f"PGD-{STEPS}, DLR", lambda s: s.pgd(dlr()), named("pgd_linf dlr")),
        Group(
            f"PGD-{STEPS}, cross-entropy, {best}",
            lambda s: s.pgd(cross_entropy(), RESTARTS),
            named(f"pgd_linf ce, {best}"),
        ),
        Group(
            f"PGD-{STEPS}, margin, {best}",
            lambda s: s.pgd(margin(), RESTARTS),
            named(f"LinfPGD margin, {best}", f"PGD margin, {best}", f"pgd_linf dl, {best}"),
        ),
        Group(
            f"APGD-{STEPS}, cross-entropy",
            lambda s: s.apgd(cross_entropy()),
            named("APGD ce", "AutoPGD ce", "apgd ce", "APGD-CE"),
        ),
        Group(
            f"APGD-{STEPS}, DLR", lambda s: s.apgd(dlr()), named("APGD dlr", "AutoPGD dlr", "apgd dlr", "APGD-DLR")
        ),
        Group(
            f"APGD-{STEPS}, 9 targets",
            lambda s: s.apgd(margin(), "top-9"),
            named("APGDT", "apgd_targeted dlr", "APGD-T"),
        ),
        Group(
            f"MIM-{STEPS}, cross-entropy",
            lambda s: s.ours(mim, objective=cross_entropy(), threat=THREAT, steps=STEPS, step_size=STEP),
            mim_peers(EPSILON, STEPS, STEP, 1.0, seed=0),
        ),
        Group(f"minimum norm, {STEPS} steps", lambda s: s.fmn(None), named("LInfFMN", "LinfDeepFool")),
        Group(
            f"minimum norm, 9 targets x {STEPS} steps",
            lambda s: s.fmn("top-9"),
            named("FAB multi-targeted", "fab targeted", "FAB-T"),
        ),
        Group(f"Square, {QUERIES} queries", lambda s: s.ours(square, threat=THREAT, queries=QUERIES), named("Square")),
        Group(
            f"SPSA, {SPSA_STEPS} x {2 * SPSA_PAIRS} evaluations",
            lambda s: s.ours(
                spsa, objective=margin(), threat=THREAT, steps=SPSA_STEPS, evaluations=2 * SPSA_PAIRS,
                learning_rate=SPSA_RATE,
            ),
            spsa_peer,
        ),
        Group(
            "everything: our chain, their standard suite",
            lambda s: attack_hard(
                s.model, s.images, s.labels, threat=THREAT, seed=0, effort=Effort(100, 1, 5000), sample_ids=s.ids
            ).fooled,
            [autoattack_peer(EPSILON, "Linf", seed=0)],
        ),
    ]  # fmt: skip


def fooled_by(peer: Peer, samples: Samples) -> Tensor:
    """Which samples a peer broke: its images projected and judged by the model, clean errors counting as broken."""
    moved = torch.cat(
        [
            peer.run(samples.model, images, labels)
            for images, labels in zip(
                *(torch.split(part, PEER_BATCH) for part in (samples.images, samples.labels)), strict=True
            )
        ]
    )
    with torch.no_grad():
        clean: Tensor = samples.model(samples.images).argmax(dim=1) != samples.labels
        attacked: Tensor = samples.model(THREAT.project(samples.images, moved)).argmax(dim=1) != samples.labels
    return clean | attacked


def compare(title: str, group: Group, samples: Samples) -> dict[str, Any]:
    """One row: accuracies, and how many more samples the best peer broke than ours."""
    started = time.perf_counter()
    left = int((~group.ours(samples)).sum())
    seconds = {"maxmahal": time.perf_counter() - started}
    peers = {}
    for peer in group.peers:
        if peer.version == NOT_INSTALLED:
            continue
        name = f"{peer.library} {peer.attack}"
        started = time.perf_counter()
        peers[name] = int((~fooled_by(peer, samples)).sum())
        seconds[name] = time.perf_counter() - started
    lead = left - min(peers.values())
    print(f"{title:>13} | {group.name}: ours {left}, peers {peers}, the best peer is {lead} samples lower", flush=True)
    return {
        "model": title,
        "group": group.name,
        "ours": left,
        "peers": peers,
        "peer_lower_by": lead,
        "seconds": seconds,
    }


def main() -> None:
    """Attack every model in every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="groups whose name contains this")
    parser.add_argument("--models", nargs="*", default=TITLES)
    parser.add_argument("--images", type=int, default=500)
    options = parser.parse_args()
    data: ImageData = digits_test()
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for title in options.models:
        count = options.images
        samples = Samples(
            digits_model(title), data.float_images()[:count], data.labels[:count], data.sample_ids[:count]
        )
        for group in groups():
            if options.only is None or options.only in group.name:
                rows.append(compare(title, group, samples))
                versions |= {peer.library: peer.version for peer in group.peers}
    content = {
        "images": options.images,
        "threat": str(THREAT),
        "versions": versions,
        "largest_lead_of_a_peer": max(row["peer_lower_by"] for row in rows),
        "rows": rows,
    }
    if options.only is None and options.images == len(data):
        print("saved", save_record("peers_table", content).name)


if __name__ == "__main__":
    main()

"""Ours as a user would call it beside five other libraries: seconds and what is left of the model, in one run.

    python benchmarks/attack_peers.py [--device cuda] [--images 256]

Everything is on: broken samples leave the batch, the search runs on the prepared model, and every success is confirmed
by the model itself in float32. Peers get the batch size, of a few, at which they are fastest. A peer counts as correct
where its accuracy (or distortion) is not worse than ours by more than noise; the fastest is taken over all of them.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attack_models import EPSILON, Subject, small_subject, subject
from maxmahal.attacks import L2, Linf, Model, Nearest, carlini_wagner, cross_entropy, pgd, prepare
from peers import NOT_INSTALLED, Peer, carlini_peers, pgd_peers
from timing import median_ratio, save, seconds, take_turns

THREAT = Linf(EPSILON)


def distortion(target: Subject, moved: Tensor) -> tuple[float, float]:
    """Mean L2 distance over the successes, a clean image that is wrong already counting as 0, and their share."""
    with torch.no_grad():
        wrong_before = target.model(target.images).argmax(dim=1) != target.labels
        wrong = (target.model(moved).argmax(dim=1) != target.labels) | wrong_before
    distances = torch.where(wrong_before, 0.0, L2(1.0).distances(target.images, moved))
    return float(distances[wrong].mean()), float(wrong.double().mean())


def best_batch(peer: Peer, target: Subject, sizes: list[int], device: torch.device) -> int:
    """The batch size at which a peer is fastest."""
    return (
        sizes[0]
        if len(sizes) == 1
        else min(sizes, key=lambda size: seconds(lambda: target.attacked_by(peer, size), device))
    )


def compare(
    name: str,
    target: Subject,
    ours: Callable[[], Any],
    peers: list[Peer],
    score: Callable[[Any], dict[str, float]],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Everybody in turn; our seconds over each peer's."""
    device = torch.device(options.device)
    sizes = sorted({min(size, len(target.images)) for size in options.peer_batches})
    batch = {peer.library: best_batch(peer, target, sizes, device) for peer in peers}
    work: dict[str, Callable[[], Any]] = {"maxmahal": ours}
    work |= {peer.library: partial(target.attacked_by, peer, batch[peer.library]) for peer in peers}
    scores = {who: score(run()) for who, run in work.items()}
    times = take_turns(work, options.rounds, device, warm_up=False)
    rows: list[dict[str, Any]] = [
        {
            "library": who,
            "version": next((peer.version for peer in peers if peer.library == who), None),
            "attack": next((peer.attack for peer in peers if peer.library == who), name),
            "batch_size": batch.get(who),
            "seconds": statistics.median(times[who]),
            "ours_is_faster_by": 1 / median_ratio(times["maxmahal"], times[who]),
            **scores[who],
        }
        for who in work
    ]
    for row in sorted(rows, key=lambda row: row["seconds"]):
        found = ", ".join(f"{key} {row[key]:.4g}" for key in scores["maxmahal"])
        print(f"{name:>24} {row['library']:>14}: {row['seconds']:8.2f} s, {found}, x{row['ours_is_faster_by']:.2f}")
    return {"case": name, "model": target.name, "images": len(target.images), "rows": rows}


def pgd_case(target: Subject, model: Model, steps: int, options: argparse.Namespace) -> dict[str, Any]:
    """Cross-entropy PGD with the same steps for everybody."""
    step_size = max(2.5 * EPSILON / steps, EPSILON / 10)

    def ours() -> Tensor:
        return pgd(
            model,
            target.images,
            target.labels,
            objective=cross_entropy(),
            threat=THREAT,
            steps=steps,
            step_size=step_size,
            seed=0,
        ).images

    peers = installed(pgd_peers(EPSILON, steps, step_size, seed=0), options)
    return compare(
        f"PGD-{steps}", target, ours, peers, lambda moved: {"accuracy": target.accuracy(moved, THREAT)}, options
    )


def carlini_case(target: Subject, model: Model, steps: int, search: int, options: argparse.Namespace) -> dict[str, Any]:
    """Carlini and Wagner with the same steps, constants and learning rate."""

    def ours() -> Nearest:
        return carlini_wagner(
            model, target.images, target.labels, steps=steps, search_steps=search, learning_rate=0.01, initial_c=0.1
        )

    def score(found: Nearest | Tensor) -> dict[str, float]:
        mean, share = distortion(target, found.images if isinstance(found, Nearest) else found)
        return {"mean_distortion": mean, "success_rate": share}

    peers = installed(carlini_peers(steps, search, 0.01, 0.1), options)
    # torchattacks searches for no constant, which is another attack; ART's line search takes many minutes.
    peers = [peer for peer in peers if peer.library not in ("torchattacks", "ART")]
    return compare(f"C&W {search}x{steps}", target, ours, peers, score, options)


def installed(peers: list[Peer], options: argparse.Namespace) -> list[Peer]:
    """Those that this environment has, and that were asked for."""
    return [peer for peer in peers if peer.version != NOT_INSTALLED and peer.library not in options.without]


# Which models each case attacks: one that is hard to break, and one that is not.
CASES = {
    "pgd10": ("at-mmc",),
    "pgd10-small": ("digits-sce", "digits-at-mmc"),
    "pgd50": ("sce",),
    "carlini": ("sce", "at-mmc"),
}


def measure(case: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One case on one model, with the time for its preparation."""
    counts = {"pgd50": options.long_images, "carlini": options.carlini_images}
    find = small_subject if case == "pgd10-small" else subject
    target = find(name).first(counts.get(case, options.images)).to(torch.device(options.device))
    started = time.perf_counter()
    model = prepare(target.model)
    preparing = {"prepare_seconds": time.perf_counter() - started, "prepare_notes": list(model.notes)}
    if case == "carlini":
        return carlini_case(target, model, 100, 5, options) | preparing
    return pgd_case(target, model, 50 if case == "pgd50" else 10, options) | preparing


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--long-images", type=int, default=128, help="for PGD-50")
    parser.add_argument("--carlini-images", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    options = parser.parse_args()
    for case in options.cases:
        measured = [measure(case, name, options) for name in CASES[case]]
        path = save(f"attack_peers_{case}", torch.device(options.device), {"epsilon": EPSILON, "cases": measured})
        print("saved", path.name, flush=True)


if __name__ == "__main__":
    main()

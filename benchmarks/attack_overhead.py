"""What the engine costs beyond the passes it counts: each attack against a bare loop of as many passes.

    python benchmarks/attack_overhead.py [--device cuda]

The active set and ``prepare`` are off: this is the price of the engine itself.
"""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import torch

from attack_models import EPSILON, Subject, subject
from maxmahal.attacks import Engine, Linf, Passes, Result, carlini_wagner, margin, mim, model_outputs, pgd, spsa
from timing import median_ratio, save, take_turns

ENGINE = Engine(early_exit=False)
THREAT = Linf(EPSILON)
STEP = 2.5 * EPSILON / 10
BATCH = 64


def attacks(target: Subject) -> dict[str, Callable[[], Result]]:
    """Each attack as a call without arguments."""
    model, images, labels = target.model, target.images, target.labels
    return {
        "PGD-10": lambda: pgd(
            model, images, labels, objective=margin(), threat=THREAT, steps=10, step_size=STEP, seed=0, engine=ENGINE
        ),
        "MIM-10": lambda: mim(
            model, images, labels, objective=margin(), threat=THREAT, steps=10, step_size=STEP, engine=ENGINE
        ),
        "C&W 3x50": lambda: carlini_wagner(model, images, labels, steps=50, search_steps=3, engine=ENGINE),
        "SPSA 2x128": lambda: spsa(
            model, images, labels, objective=margin(), threat=THREAT, steps=2, evaluations=128, seed=0, engine=ENGINE
        ),
    }


def bare(target: Subject, passes: Passes) -> None:
    """The same number of passes, and nothing else."""
    objective = margin()
    count = len(target.images)
    for _ in range(round(passes.backward / count)):
        moved = target.images.clone().requires_grad_()
        values = objective(model_outputs(target.model, moved), target.labels, None)
        torch.autograd.grad(values.sum(), moved)
    with torch.no_grad():
        for _ in range(round((passes.forward - passes.backward) / count)):
            objective(model_outputs(target.model, target.images), target.labels, None)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=4, help="five times as many for the short attacks")
    options = parser.parse_args()
    device = torch.device(options.device)
    target = subject("at-mmc").first(BATCH).to(device)
    rows = []
    for name, attack in attacks(target).items():
        passes = attack().passes
        rounds = options.rounds * (5 if passes.forward < 1000 else 1)
        times = take_turns({"ours": attack, "bare": partial(bare, target, passes)}, rounds, device)
        ratio = median_ratio(times["ours"], times["bare"])
        rows.append({"attack": name, "passes": asdict(passes), "over_bare_passes": ratio, "seconds": times})
        print(f"{name}: {ratio:.3f} of its passes ({passes.forward} forward, {passes.backward} backward)")
    print("saved", save("attack_overhead", device, {"batch_size": BATCH, "model": "resnet20", "rows": rows}).name)


if __name__ == "__main__":
    main()

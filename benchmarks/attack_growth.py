"""How the time of PGD grows with samples, steps, classes and restarts: the exponent of a fitted power.

    python benchmarks/attack_growth.py

The sample set, the steps and the restarts should cost in proportion (an exponent near 1, less where a fixed part still
shows); the number of classes almost nothing.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.stats import linregress

from maxmahal import MMC, Classifier, max_mahalanobis_centers
from maxmahal.attacks import Engine, Linf, Result, margin, pgd
from maxmahal.models import SmallCNN
from timing import save, take_turns

SAMPLES, STEPS, CLASSES, RESTARTS = 256, 10, 10, 1


def attack(samples: int = SAMPLES, steps: int = STEPS, classes: int = CLASSES, restarts: int = RESTARTS) -> Any:
    """One attack on a random network, with nothing to break early so that every sample costs the same."""
    torch.manual_seed(0)
    features = 1024
    head = MMC(max_mahalanobis_centers(classes, features))
    model = Classifier(SmallCNN(image_size=(16, 16), feature_dim=features), head).eval()
    images = torch.rand(samples, 1, 16, 16)
    with torch.no_grad():
        labels = model(images).argmax(dim=1)

    def run() -> Result:
        return pgd(
            model,
            images,
            labels,
            objective=margin(),
            threat=Linf(0.1),
            steps=steps,
            step_size=0.01,
            seed=0,
            restarts=restarts,
            engine=Engine(early_exit=False, batch_size=64),
        )

    return run


SWEEPS: dict[str, tuple[list[int], Callable[[int], Any]]] = {
    "samples": ([64, 128, 256, 512, 1024], lambda value: attack(samples=value)),
    "steps": ([5, 10, 20, 40, 80], lambda value: attack(steps=value)),
    "classes": ([10, 30, 100, 300, 1000], lambda value: attack(classes=value)),
    "restarts": ([1, 2, 4, 8, 16], lambda value: attack(restarts=value)),
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = torch.device("cpu")
    rows = []
    for sweep, (values, make) in SWEEPS.items():
        times = take_turns({str(value): make(value) for value in values}, options.rounds, device)
        best = [min(times[str(value)]) for value in values]
        exponent = float(linregress(np.log(values), np.log(best)).slope)
        rows.append({"sweep": sweep, "values": values, "seconds": best, "exponent": exponent})
        print(f"{sweep}: exponent {rows[-1]['exponent']:.2f} ({best[0]:.2f} s to {best[-1]:.2f} s)")
    print("saved", save("attack_growth", device, {"rows": rows}).name)


if __name__ == "__main__":
    main()

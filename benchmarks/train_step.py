"""The cost of a training step with MMC over one with SCE: same network, same batch, interleaved in one run.

    python benchmarks/train_step.py [--device cuda]

The paper claims little extra computation. Steps of both heads alternate and each pair gives one ratio, so that drift of
the machine cancels; the median over pairs is reported with its spread, and saved as JSON.
"""

import argparse
import json
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import maxmahal
from maxmahal import MMC, SCE, Classifier, Head, max_mahalanobis_centers
from maxmahal.models import BACKBONES

RESULTS = Path(__file__).resolve().parent / "results"
NUM_CLASSES = 10
FEATURE_DIM = 256


class Step:
    """One model with its optimiser, ready to take a step."""

    def __init__(self, backbone: str, head: Head, batch_size: int, device: torch.device) -> None:
        torch.manual_seed(0)
        self.model = Classifier(BACKBONES[backbone]((3, 32, 32), FEATURE_DIM), head).to(device).train()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)
        self.images = torch.rand(batch_size, 3, 32, 32, device=device)
        self.labels = torch.randint(NUM_CLASSES, (batch_size,), device=device)

    def seconds(self) -> float:
        """The time of one step: forward, backward, update."""
        _wait(self.images.device)
        started = time.perf_counter()
        loss = self.model.loss(self.images, self.labels)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        _wait(self.images.device)
        return time.perf_counter() - started


def compare(backbone: str, batch_size: int, pairs: int, device: torch.device) -> dict[str, object]:
    """Medians of both steps and of their ratio."""
    mmc = Step(backbone, MMC(max_mahalanobis_centers(NUM_CLASSES, FEATURE_DIM)), batch_size, device)
    sce = Step(backbone, SCE(num_classes=NUM_CLASSES, feature_dim=FEATURE_DIM), batch_size, device)
    for step in (mmc, sce) * 3:
        step.seconds()
    times = []
    for pair in range(pairs):
        # The second one finds warm caches, so the order changes every time.
        first, second = (mmc, sce) if pair % 2 else (sce, mmc)
        measured = {id(first): first.seconds(), id(second): second.seconds()}
        times.append((measured[id(mmc)], measured[id(sce)]))
    ratios = [mine / theirs for mine, theirs in times]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "backbone": backbone,
        "batch_size": batch_size,
        "pairs": pairs,
        "mmc_ms": 1e3 * statistics.median(mine for mine, _ in times),
        "sce_ms": 1e3 * statistics.median(theirs for _, theirs in times),
        "mmc_over_sce": middle,
        "low_quartile": low,
        "high_quartile": high,
    }


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()
    device = torch.device(options.device)
    rows = [compare("resnet32", batch_size, options.pairs, device) for batch_size in (50, 128)]
    for row in rows:
        print(
            f"{row['backbone']} batch {row['batch_size']}: MMC {row['mmc_ms']:.1f} ms, SCE {row['sce_ms']:.1f} ms, "
            f"MMC/SCE {row['mmc_over_sce']:.3f} (quartiles {row['low_quartile']:.3f} to {row['high_quartile']:.3f})"
        )
    record = {
        "benchmark": "training step, MMC over SCE",
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python benchmarks/train_step.py --device {options.device} --pairs {options.pairs}",
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "maxmahal": maxmahal.__version__,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"train_step_{device.type}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"saved {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else f"saved {path}")


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()

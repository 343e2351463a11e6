"""How centers, loss and head grow with the number of classes, beside SCE's and ArcFace's heads.

    python benchmarks/many_classes.py [--device cuda] [--no-quality]

MMC's training objective touches the true class's center and no other, so neither its time nor its memory may grow with
the classes; a softmax head computes, and updates, something for every class. All heads and numbers of classes take
turns; so does the whole MMC step (network, loss, gradients, update) over the numbers of classes. Prediction looks at
every class with any head. ``--no-quality`` is a quick look at the times, which saves nothing. ``peak_mb`` is what one
call holds at most beyond ``held_mb``, and that is what lies in memory between calls: centers, or weights and their
momentum.
"""

import argparse
import math
import os
import statistics
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from many_classes_figure import draw, exponents
from many_classes_measures import largest_cosine, least_cosine, peak_bytes
from maxmahal import MMC, SCE, ArcFace, Classifier, Head, max_mahalanobis_centers
from maxmahal.centers import random_centers
from maxmahal.centers.quadratic_codes import widest_quadratic_code
from timing import RESULTS, median_ratio, save, seconds, take_turns

SIZES = (10, 100, 1_000, 3_000, 10_000, 30_000, 100_000)
DIM = 512
MB = 1e6
LEAST_SECONDS = 0.01  # of one turn: quicker work is repeated within it
MAKING_ROUNDS = 5
LABEL_SETS = 64  # other labels at every call, so that a few rows of the centers do not wait in the cache


class Trained:
    """A head with its optimiser, ready to train on features that want gradients, and to predict."""

    def __init__(self, head: Head, batch_size: int, device: torch.device) -> None:
        self.head = head.to(device)
        weights = list(head.parameters())
        self.optimiser = torch.optim.SGD(weights, lr=1e-3, momentum=0.9) if weights else None
        self.features = torch.randn(batch_size, head.feature_dim, device=device, requires_grad=True)
        self.labels = label_sets(head.num_classes, batch_size, device)

    def train(self) -> None:
        """Loss, gradients, and the update of what the head trains."""
        self.head(self.features, next(self.labels)).backward()
        if self.optimiser is not None:
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        self.features.grad = None

    def predict(self) -> Tensor:
        """The predicted classes."""
        with torch.no_grad():
            return self.head.logits(self.features).argmax(dim=1)

    def held_bytes(self) -> int:
        """The memory that is used between calls."""
        slots = [] if self.optimiser is None else self.optimiser.state.values()
        momentum = [each for slot in slots for each in slot.values() if isinstance(each, Tensor)]
        kept = [*self.head.parameters(), *self.head.buffers(), *momentum]
        return sum(each.numel() * each.element_size() for each in kept)


def label_sets(num_classes: int, batch_size: int, device: torch.device) -> Iterator[Tensor]:
    """Random labels without end."""
    draws = torch.Generator().manual_seed(0)
    return cycle(torch.randint(num_classes, (LABEL_SETS, batch_size), generator=draws).to(device))


def whole_step(num_classes: int, batch_size: int, device: torch.device) -> Callable[[], None]:
    """A small network trained with MMC: images in, weights updated."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
    model = Classifier(network, MMC(max_mahalanobis_centers(num_classes, DIM))).to(device).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    images = torch.rand(batch_size, 3, 32, 32, device=device)
    labels = label_sets(num_classes, batch_size, device)

    def step() -> None:
        loss = model.loss(images, next(labels))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def repeated(work: Callable[[], object], device: torch.device) -> tuple[Callable[[], None], int]:
    """The work as often as fills a turn, and how often that is."""
    work()
    times = min(100, math.ceil(LEAST_SECONDS / seconds(work, device)))

    def several() -> None:
        for _ in range(times):
            work()

    return several, times


def measure_centers(num_classes: int, device: torch.device) -> dict[str, Any]:
    """Making the centers, which happens once."""

    def make() -> Tensor:
        return max_mahalanobis_centers(num_classes, DIM, device=device)

    taken = take_turns({"centers": make}, MAKING_ROUNDS, device)["centers"]
    row = {"what": "centers", "num_classes": num_classes, "ms": 1e3 * statistics.median(taken)}
    return {**row, "peak_mb": peak_bytes(make, device) / MB}


def measure_heads(batch_size: int, rounds: int, device: torch.device) -> list[dict[str, Any]]:
    """One row for each piece of work and number of classes; all of them take turns."""
    heads: dict[tuple[str, int], Trained] = {}
    for size in SIZES:
        heads["mmc", size] = Trained(MMC(max_mahalanobis_centers(size, DIM)), batch_size, device)
        heads["sce", size] = Trained(SCE(num_classes=size, feature_dim=DIM), batch_size, device)
        heads["arcface", size] = Trained(ArcFace(num_classes=size, feature_dim=DIM), batch_size, device)
    work: dict[tuple[str, int], Callable[[], object]] = {}
    for (name, size), head in heads.items():
        work[f"{name}_{'step' if head.optimiser else 'loss'}", size] = head.train
        work[f"{name}_logits", size] = head.predict
    several = {key: repeated(each, device) for key, each in work.items()}
    turns = {f"{what} {size}": each for (what, size), (each, _) in several.items()}
    times = take_turns(turns, rounds, device)
    rows = []
    for (what, size), each in work.items():
        once = statistics.median(times[f"{what} {size}"]) / several[what, size][1]
        row = {"what": what, "num_classes": size, "ms": 1e3 * once, "peak_mb": peak_bytes(each, device) / MB}
        if not what.endswith("_logits"):
            row["held_mb"] = heads[what.split("_")[0], size].held_bytes() / MB
        rows.append(row)
    return rows


def measure_steps(batch_size: int, rounds: int, device: torch.device) -> dict[str, Any]:
    """The whole MMC step at every number of classes, in turns, over the one with fewest."""
    steps = {str(size): whole_step(size, batch_size, device) for size in SIZES}
    times = take_turns(steps, rounds, device)
    base, largest = times[str(SIZES[0])], times[str(SIZES[-1])]
    low, middle, high = statistics.quantiles([a / b for a, b in zip(largest, base, strict=True)], n=4)
    over = {size: median_ratio(each, base) for size, each in times.items()}
    ms = {size: 1e3 * statistics.median(each) for size, each in times.items()}
    ratio = {"ratio": middle, "low_quartile": low, "high_quartile": high}
    return {"network": "3072-512-512, ReLU", "rounds": rounds, "ms": ms, "over_fewest": over, **ratio}


def made_by(num_classes: int) -> str:
    """Which construction ``max_mahalanobis_centers`` takes at these sizes, none of which needs a search."""
    if num_classes <= DIM + 1:
        return "simplex"
    return "orthogonal simplices" if num_classes <= 2 * DIM else str(widest_quadratic_code(num_classes, DIM))


def measure_quality(num_classes: int, device: torch.device) -> dict[str, Any]:
    """How far the centers are spread, beside random ones and what no code can beat."""
    cosine = largest_cosine(max_mahalanobis_centers(num_classes, DIM, device=device))
    by_chance = largest_cosine(random_centers(num_classes, DIM, seed=0).to(device))
    bound = least_cosine(num_classes, DIM)
    row: dict[str, Any] = {"num_classes": num_classes, "made_by": made_by(num_classes)}
    for name, value in (("", cosine), ("random_", by_chance), ("bound_", bound)):
        row[f"{name}largest_cosine"] = value
        row[f"{name}smallest_angle"] = None if value is None else math.degrees(math.acos(max(-1.0, min(1.0, value))))
    return row


def tell(record: dict[str, Any]) -> None:
    """The rows as lines."""
    for row in record["rows"]:
        held = f", {row['held_mb']:.3f} MB held" if "held_mb" in row else ""
        print(f"{row['what']}, {row['num_classes']:,} classes: {row['ms']:.3f} ms, {row['peak_mb']:.3f} MB{held}")
    for fit in record["exponents"]:
        print(f"{fit['what']}, {fit['of']}: exponent {fit['exponent']:.3f} ± {fit['standard_error']:.3f}")
    step = record["step"]
    spread = f"{step['low_quartile']:.3f} to {step['high_quartile']:.3f}"
    print(f"MMC step, {SIZES[-1]:,} over {SIZES[0]} classes: {step['ratio']:.3f} (quartiles {spread})")
    for row in record["quality"]:
        angles = ", ".join(f"{row[f'{name}smallest_angle'] or math.nan:.2f}" for name in ("", "random_", "bound_"))
        print(f"{row['num_classes']:,} classes, smallest angle of ours, random ones, at best: {angles} degrees")


def main() -> None:
    """Measure, print, draw and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--step-rounds", type=int, default=200)
    parser.add_argument("--quality", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    device = torch.device(options.device)
    step = measure_steps(options.batch_size, options.step_rounds, device)
    torch.manual_seed(0)
    rows = [measure_centers(size, device) for size in SIZES]
    rows += measure_heads(options.batch_size, options.rounds, device)
    content = {
        "command": f"python benchmarks/many_classes.py --device {options.device} --batch-size {options.batch_size} "
        f"--rounds {options.rounds} --step-rounds {options.step_rounds}",
        "load": os.getloadavg()[0],  # others at work on the same machine make times longer, and ratios noisier
        "cores": os.cpu_count(),
        "dim": DIM,
        "batch_size": options.batch_size,
        "rows": rows,
        "exponents": exponents(rows),
        "step": step,
        "quality": [measure_quality(size, device) for size in SIZES] if options.quality else [],
    }
    tell(content)
    if not options.quality:
        print("not saved: the record has how far the centers are spread, which was left out")
        return
    path = save("many_classes", device, content)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} CPU thread(s)"
    picture = Path(RESULTS / f"many_classes{'' if device.type == 'cpu' else '_' + device.type}.svg")
    picture.write_text(draw({**content, "device": name}), encoding="utf-8")
    print("saved", path.name, "and", picture.name)


if __name__ == "__main__":
    main()

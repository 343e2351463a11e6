"""Evaluations at ImageNet's size: images/s, seconds per stage, peak memory of the host and of the GPU.

    python benchmarks/imagenet_size.py --device cuda [--runs quick:folder:500 quick:tar:5000 strict:folder:200 …]

Images are made, in a folder and in tars, and read as streams. The network has the size of ResNet-50 and random weights;
the class depends on the brightness, so that about 60 % of the images are robust at 4/255: a network that every step
breaks would cost nothing. Each run has its own process, because peaks are of a process. A later call adds its runs.
"""

import argparse
import json
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from maxmahal import evaluate_model
from timing import RESULTS, save

RUNS = [f"quick:{kind}:{count}" for count in (500, 5000) for kind in ("folder", "tar")]
RUNS += ["strict:folder:200", "autoattack:folder:200"]
SHADES, CLASSES, SHARD = 10, 1000, 1000
CENTERS = torch.linspace(0.14, 0.86, SHADES)  # 20/255 apart, so that 4/255 breaks two of five images


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, and a way around."""

    def __init__(self, width: int, inner: int, stride: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, side, step in ((width, inner, 1, 1), (inner, inner, 3, stride), (inner, 4 * inner, 1, 1)):
            conv = nn.Conv2d(before, after, side, step, side // 2, bias=False)
            layers += [conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        around = [nn.Conv2d(width, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner)]
        self.around = nn.Sequential(*around[: 0 if width == 4 * inner else 2])

    def forward(self, x: Tensor) -> Tensor:
        """Both ways."""
        return torch.relu(self.body(x) + self.around(x))


class Brightness(nn.Module):
    """ResNet-50's layers, or a small part of them; its logits are small beside those of the brightness."""

    def __init__(self, *, small: bool = False) -> None:
        super().__init__()
        depths, widths = ((1, 1), (8, 16)) if small else ((3, 4, 6, 3), (64, 128, 256, 512))
        stem = nn.Conv2d(3, widths[0], 7, 8 if small else 2, 3, bias=False)
        layers: list[nn.Module] = [stem, nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        width = widths[0]
        for stage, (depth, inner) in enumerate(zip(depths, widths, strict=True)):
            for block in range(depth):
                layers.append(Bottleneck(width, inner, 2 if stage and not block else 1))
                width = 4 * inner
        self.network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))
        self.centers = nn.Buffer(CENTERS)

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        distances = images.float().mean(dim=(1, 2, 3))[:, None] - self.centers
        shades = 50 - 1000 * distances.square()
        return 0.1 * torch.tanh(self.network(images)) + nn.functional.pad(shades, (0, CLASSES - SHADES))


def make_images(root: Path, count: int, side: int) -> None:
    """JPEGs like photographs in size, in class folders and in tars; the brightness is spread over each class."""

    def make(number: int) -> None:
        rng = np.random.default_rng(number)
        shade = number % SHADES
        coarse = rng.normal(0, 0.08, (14, 14, 3)) + rng.uniform(-0.04, 0.04) + float(CENTERS[shade])
        pixels = Image.fromarray((coarse.clip(0, 1) * 255).astype(np.uint8)).resize((side, side))
        noisy = np.asarray(pixels).astype(float) + rng.normal(0, 6, (side, side, 3))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(root / f"folder/c{shade:03d}/{number:06d}.jpg")

    for name in ("tar", *(f"folder/c{label:03d}" for label in range(CLASSES))):
        (root / name).mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, range(count)))
    files = [f"c{number % SHADES:03d}/{number:06d}.jpg" for number in range(count)]
    (root / "folder/all.txt").write_text("\n".join(files))  # in the order of the tars, not sorted by class
    for start in range(0, count, SHARD):
        with tarfile.open(root / f"tar/{start // SHARD:05d}.tar", "w") as tar:
            for number in range(start, min(start + SHARD, count)):
                (shade := root / "shade").write_text(str(number % SHADES))
                tar.add(root / "folder" / files[number], f"{number:06d}.jpg")
                tar.add(shade, f"{number:06d}.cls")


def run_one(run: str, data: Path, device: str, small: bool) -> dict[str, Any]:
    """One evaluation in this process."""
    suite, kind, count = run.split(":")
    torch.manual_seed(0)
    model = Brightness(small=small).eval().to(device)
    source = {"folder": f"{data}/folder@all.txt", "tar": f"{data}/tar"}[kind]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        found = evaluate_model(model, source, suite=suite, epsilon="4/255", limit=int(count), out=out)
    seconds = time.perf_counter() - began
    ran = [stage for stage in found.stages if not stage.skipped]
    stages = [{"title": stage.title, "samples": stage.planned} | asdict(stage.rating) for stage in ran]
    peak = torch.cuda.max_memory_reserved() / 2**30 if device == "cuda" else 0.0
    return {
        "run": run, "images": found.samples, "seconds": seconds, "images_per_second": found.samples / seconds,
        "host_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "gpu_gib": peak,
        "clean": found.verdict.clean.value, "robust": found.verdict.robust.value, "stages": stages,
    }  # fmt: skip


def main() -> None:
    """Make the images, then start a process for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", default=RUNS, help="SUITE:folder or tar:IMAGES")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--small", action="store_true", help="a small network, to try this on a CPU")
    parser.add_argument("--name", default="imagenet_size", help="of the JSON in benchmarks/results")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run_one(given.runs[0], given.one, given.device, given.small)))
        return
    path = RESULTS / f"{given.name}_{given.device}.json"
    done = json.loads(path.read_text())["runs"] if path.exists() else []
    with tempfile.TemporaryDirectory() as data:
        make_images(Path(data), max(int(run.split(":")[2]) for run in given.runs), given.side)
        for run in given.runs:
            command = [sys.executable, __file__, "--one", data, "--device", given.device, "--runs", run]
            answer = subprocess.run(command + ["--small"] * given.small, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(answer.stdout.splitlines()[-1])
            done = [each for each in done if each["run"] != run] + [found]
            save(given.name, torch.device(given.device), {"side": given.side, "small": given.small, "runs": done})
            print({key: value for key, value in found.items() if key != "stages"}, flush=True)


if __name__ == "__main__":
    main()

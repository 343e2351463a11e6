"""How fast a training step is on this device: the engine as presets use it beside the plain float32 loop.

    python benchmarks/train_engine.py --device cuda [--processes 3] [--only standard|adversarial|pgd]

Contestants take turns in one run, each a stretch of whole training (augmentation, crafting, update) on random bytes in
CIFAR's shape. The bandwidth limit counts what a step must move even if all arithmetic were free: see ``bytes_moved``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maxmahal.attacks import Linf, cross_entropy, pgd, prepare
from maxmahal.data import ImageData
from maxmahal.models import BACKBONES
from maxmahal.train import Settings, load_settings, new_classifier
from maxmahal.train.device import deterministic_algorithms, lay_out
from maxmahal.train.loop import Silent, train_epoch
from maxmahal.train.methods import METHODS
from maxmahal.train.optimiser import build_optimiser
from maxmahal.train.step import step_kind
from timing import median_ratio, save

PEAK_BYTES = {"NVIDIA H200": 4.8e12}  # a second, as the maker states it
PLAIN = ["cuda.precision=float32", "cuda.channels_last=false", "cuda.compile=false", "cuda.graph=false"]
ADVERSARIAL = ["method.name=adversarial", "method.steps=10"]


def random_data(count: int, device: torch.device) -> ImageData:
    """Bytes in CIFAR's shape."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.randint(10, (count,), generator=generator)
    return ImageData.from_arrays("random", images, labels, [str(label) for label in range(10)]).to(device)


@dataclass
class Contestant:
    """A training that can be asked for one more stretch."""

    name: str
    overrides: list[str]
    steps: int = 40

    def prepare(self, device: torch.device) -> None:
        """Build everything and compile."""
        self.settings: Settings = load_settings("cifar10-mmc", self.overrides)
        self.data = random_data(self.steps * self.settings.train.batch_size, device)
        self.model = new_classifier(self.settings, self.data)
        lay_out(self.model, self.settings.on(device))
        optimiser = build_optimiser(self.model, self.settings.train)
        method = self.settings.method.build(METHODS)
        self.step = step_kind(self.settings.on(device))(
            self.model, optimiser, method, None, self.settings.on(device), self.settings.train
        )
        self.epoch = 0
        started = time.perf_counter()
        self.stretch()
        self.first_seconds = time.perf_counter() - started

    def stretch(self) -> float:
        """Seconds of the next stretch."""
        with deterministic_algorithms(self.settings.on(self.data.device)):
            summary = train_epoch(self.model, self.step, self.data, self.settings, self.epoch, Silent())
        self.epoch += 1
        return summary["seconds"]

    @property
    def images(self) -> int:
        """In a stretch."""
        return self.steps * self.settings.train.batch_size


def sized(batch_size: int, *overrides: str) -> list[str]:
    """Settings for a batch size, at a rate that stays finite on random images."""
    return [f"train.batch_size={batch_size}", "train.lr=0.001", "train.epochs=1000", *overrides]


def contestants(only: str, tiny: bool) -> list[Contestant]:
    """Who runs."""
    if tiny:
        return [Contestant("plain, batch 8", sized(8, *PLAIN), 2), Contestant("engine, batch 8", sized(8), 2)]
    standard = [
        *(Contestant(f"plain, batch {size}", sized(size, *PLAIN), 40) for size in (128, 512)),
        *(Contestant(f"engine, batch {size}", sized(size), 100) for size in (128, 256, 512)),
        Contestant("engine, batch 512, SCE", sized(512, "loss.name=sce"), 100),
        Contestant("engine, batch 512, float32", sized(512, "cuda.precision=float32"), 50),
    ]
    adversarial = [
        *(Contestant(f"plain PGD-10, batch {size}", sized(size, *ADVERSARIAL, *PLAIN), 6) for size in (256, 512)),
        *(Contestant(f"engine PGD-10, batch {size}", sized(size, *ADVERSARIAL), 12) for size in (256, 512)),
    ]
    return {"standard": standard, "adversarial": adversarial, "all": standard + adversarial, "pgd": []}[only]


def bytes_moved(backbone: nn.Module) -> float:
    """Bytes that one image's share of a bfloat16 step must read and write, weights left out.

    A convolution reads its input in both passes and writes its gradient; its output is written, read for the batch
    statistics and to be normalised, written again; backwards, its gradient and itself are read for the sums and once
    more for the result, which is written and read by both gradients of the convolution.
    """
    moved = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG001
        nonlocal moved
        moved += 3 * inputs[0].numel() + 11 * output.numel()

    hooks = [module.register_forward_hook(count) for module in backbone.modules() if isinstance(module, nn.Conv2d)]
    with torch.no_grad():
        backbone(torch.zeros(1, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    return 2.0 * moved


def measure_pgd(device: torch.device, images: int) -> dict[str, float]:
    """PGD-50 on a fresh network that never breaks, so that every image takes every step."""
    data = random_data(images, device)
    model = new_classifier(load_settings("cifar10-sce"), data).eval()
    labels = model(data.first(2).float_images()).argmax(dim=1)[:1].expand(len(data))

    def attack() -> float:
        torch.cuda.synchronize() if device.type == "cuda" else None
        started = time.perf_counter()
        pgd(
            fast, data.float_images(), labels, objective=cross_entropy(), threat=Linf(1e-6), steps=50, step_size=1e-7,
            seed=0,
        )  # fmt: skip
        torch.cuda.synchronize() if device.type == "cuda" else None
        return time.perf_counter() - started

    fast = prepare(model)
    first = attack()
    return {"images": images, "first_seconds": first, "seconds": statistics.median(attack() for _ in range(3))}


def in_processes(count: int, seconds: float) -> list[dict[str, Any]]:
    """The same training in several processes at once; each tells its rate while all were running."""
    start_at = time.time() + 75
    command = [sys.executable, __file__, "--device", "cuda", "--alone", str(start_at), str(seconds)]
    rows = []
    for name, overrides in (
        ("standard, batch 256", sized(256)),
        ("PGD-10, batch 256", sized(256, *ADVERSARIAL)),
    ):
        command[5] = str(time.time() + 45)
        workers = [subprocess.Popen([*command, *overrides], stdout=subprocess.PIPE, text=True) for _ in range(count)]
        rates = [json.loads(worker.communicate()[0].splitlines()[-1]) for worker in workers]
        rows.append({"name": name, "processes": count, "images_per_second": sum(rates), "each": rates})
        print(f"{name}, {count} processes: {sum(rates):.0f} images/s", flush=True)
    return rows


def alone(start_at: float, seconds: float, overrides: list[str]) -> None:
    """One of several: wait for the common start, train for so long, tell the rate."""
    one = Contestant("alone", overrides, 50 if "method.name=adversarial" not in overrides else 5)
    one.prepare(torch.device("cuda"))
    if time.time() > start_at:
        print(f"late by {time.time() - start_at:.0f} s", file=sys.stderr)
    time.sleep(max(0.0, start_at - time.time()))
    started, images = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        one.stretch()
        images += one.images
    print(json.dumps(images / (time.perf_counter() - started)))


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="all", choices=["all", "standard", "adversarial", "pgd"])
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--alone", nargs="+")
    options = parser.parse_args()
    device = torch.device(options.device)
    if options.alone:
        alone(float(options.alone[0]), float(options.alone[1]), options.alone[2:])
        return
    content: dict[str, Any] = {"command": " ".join(["python benchmarks/train_engine.py", *sys.argv[1:]]), "rows": []}
    everyone = contestants(options.only, options.tiny)
    for one in everyone:
        one.prepare(device)
        print(f"{one.name}: first stretch {one.first_seconds:.1f} s", flush=True)
    times: dict[str, list[float]] = {one.name: [] for one in everyone}
    for _ in range(options.rounds):
        for one in everyone:
            times[one.name].append(one.stretch() / one.images)
    limit = PEAK_BYTES.get(torch.cuda.get_device_name() if device.type == "cuda" else "", 0.0)
    limit /= bytes_moved(BACKBONES["resnet32"]((3, 32, 32), 256))
    for one in everyone:
        rate = 1 / statistics.median(times[one.name])
        row = {"name": one.name, "images_per_second": rate, "first_stretch_seconds": one.first_seconds}
        plain = one.name.replace("engine", "plain")
        if plain != one.name and plain in times:
            row["times_faster_than_plain"] = median_ratio(times[plain], times[one.name])
        if limit and "PGD" not in one.name:
            row["share_of_bandwidth_limit"] = rate / limit
        content["rows"].append(row)
        print(json.dumps(row), flush=True)
    if "engine, batch 512, SCE" in times:
        content["mmc_over_sce"] = median_ratio(times["engine, batch 512"], times["engine, batch 512, SCE"])
        print("MMC over SCE:", content["mmc_over_sce"])
    if limit:
        content["bandwidth_limit_images_per_second"] = limit
    if options.only in ("all", "pgd"):
        content["pgd50"] = measure_pgd(device, 16 if options.tiny else 10_000)
        print("PGD-50:", content["pgd50"], flush=True)
    if options.processes:
        content["processes"] = in_processes(options.processes, 10.0)
    print("saved", save("train_engine" if options.only == "all" else f"train_engine_{options.only}", device, content))


if __name__ == "__main__":
    main()

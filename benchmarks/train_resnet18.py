"""How fast the engine trains a ResNet-18: images/s, share of the tensor cores' limit, and where the time goes.

    python benchmarks/train_resnet18.py --device cuda [--only engine|plain] [--rounds 5] [--rows NAME …]

Contestants take turns in one run, as in train_engine.py. The limit is a large bfloat16 matrix product, timed in the
same run; the arithmetic of a step is that of its convolutions and linear layers. The profile tells the share of each
kind of kernel in the GPU's time. With --rows a call measures these rows alone, and keeps the others of the file.
"""

import argparse
import json
import statistics
import sys
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import timing
from maxmahal.models import BACKBONES
from timing import median_ratio, save, seconds
from train_engine import PLAIN, Contestant, sized

NETWORK = ["model.backbone=resnet18", "data.augment=crop-flip", "method.name=adversarial", "method.step_size=3/255"]
STANDARD = [*NETWORK[:2], "method.name=standard"]
# More passes per image than PGD's: one of clean images for crafting, and training on clean images, which takes three.
TRADES = ["loss.name=sce", "method.name=trades", "method.weight=6", "method.divergence=own"]
CLEAN = ["method.mix=0.7", "method.joint=true"]
# Parts of the names of kernels, by kind; the first that fits counts.
KINDS = {
    "our convolutions": ("_convolve", "_sum_over_pixels"),
    "compiled elementwise and sums": ("triton_",),
    "vendor's convolutions": ("conv", "cudnn", "xmma", "cutlass", "implicit", "dgrad", "wgrad", "nhwc", "nchw"),
    "matrix products": ("gemm", "gemv", "cublas", "splitk"),
    "optimiser": ("multi_tensor", "fusedoptimizer", "fused_sgd", "foreach"),
    "copies": ("memcpy", "memset", "copy"),
}


class Trained(Contestant):
    """A contestant that knows its arithmetic: so many forward passes per image, a backward pass is one or two more."""

    def __init__(self, name: str, overrides: list[str], steps: int, passes: int) -> None:
        super().__init__(name, overrides, steps)
        self.passes = passes


def pgd(name: str, batch: int, steps: int, *overrides: str, count: int = 20, more: int = 0) -> Trained:
    """Crafting takes a forward pass and a gradient of images per step; training one more, with that of weights."""
    settings = sized(batch, *NETWORK, f"method.steps={steps}", *overrides)
    return Trained(f"{name}, batch {batch}", settings, count, 2 * steps + 3 + more)


def contestants(only: str) -> list[Trained]:
    """Who runs."""
    engine = [
        Trained("engine standard, batch 256", sized(256, *STANDARD), 60, 3),
        pgd("engine PGD-5", 256, 5),
        pgd("engine PGD-10", 256, 10),
        pgd("engine PGD-5 with AWP", 256, 5, "train.awp=0.005", more=3),
        pgd("engine N-FGSM", 256, 1, "method.noise=2", "method.step_size=8/255", count=40),
        pgd("engine PGD-5", 512, 5),
        pgd("engine PGD-10", 512, 10, count=10),
        pgd("engine TRADES-5", 256, 5, *TRADES, more=4),
        pgd("engine PGD-5 with clean images", 256, 5, *CLEAN, more=3),
    ]
    plain = [
        Trained("plain standard, batch 256", sized(256, *STANDARD, *PLAIN), 10, 3),
        pgd("plain PGD-5", 256, 5, *PLAIN, count=5),
        pgd("plain PGD-10", 256, 10, *PLAIN, count=4),
        pgd("plain PGD-5 with AWP", 256, 5, "train.awp=0.005", *PLAIN, count=4, more=3),
    ]
    tiny = [
        Trained("plain standard, batch 4", sized(4, *STANDARD, *PLAIN), 1, 3),
        Trained("engine standard, batch 4", sized(4, *STANDARD), 1, 3),
        pgd("engine PGD-1 with AWP", 4, 1, "train.awp=0.005", count=1, more=3),
        pgd("engine TRADES-1", 4, 1, *TRADES, count=1, more=4),
        pgd("engine PGD-1 with clean images", 4, 1, *CLEAN, count=1, more=3),
    ]
    return {"all": plain + engine, "engine": engine, "plain": plain, "tiny": tiny}[only]


def forward_operations(backbone: nn.Module) -> float:
    """Floating-point operations of one image's forward pass: two per product of a convolution or linear layer."""
    count = 0

    def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG001
        nonlocal count
        weight: Tensor = module.weight  # type: ignore[assignment]
        count += 2 * output[0].numel() * weight[0].numel()

    layers = [module for module in backbone.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(add) for layer in layers]
    with torch.no_grad():
        backbone.eval()(torch.zeros(1, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    return float(count)


def matrix_product_limit(device: torch.device, size: int) -> float:
    """Operations per second of a square matrix product in bfloat16, the best of several."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = [seconds(lambda: left @ right, device) for _ in range(10)]
    return 2 * size**3 / min(times)


def kernel_kind(name: str) -> str:
    """The kind of a kernel by its name."""
    lower = name.lower()
    return next((kind for kind, parts in KINDS.items() if any(part in lower for part in parts)), "other")


def profile_stretch(one: Trained, device: torch.device) -> dict[str, Any]:
    """The share of each kind of kernel in the time of all kernels, and the kernels that take longest."""
    activities = [ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU]
    with profile(activities=activities, acc_events=True) as profiler:  # torch 2.11 warns without it
        wall = one.stretch()
    on_gpu = device.type == "cuda"
    times: Counter[str] = Counter()
    for event in profiler.key_averages():
        times[event.key] += event.self_device_time_total if on_gpu else event.self_cpu_time_total
    total = sum(times.values()) or 1.0
    kinds: Counter[str] = Counter()
    for name, spent in times.items():
        kinds[kernel_kind(name)] += spent
    return {
        "name": one.name,
        "kernel_seconds_per_wall_second": total / 1e6 / wall,
        "shares": {kind: spent / total for kind, spent in kinds.most_common()},
        "longest": [{"kernel": name[:120], "share": spent / total} for name, spent in times.most_common(15)],
    }


def rows_of(everyone: list[Trained], times: dict[str, list[float]], operations: float, limit: float) -> list[Any]:
    """What was measured of each contestant."""
    rows = []
    for one in everyone:
        rate = 1 / statistics.median(times[one.name])
        row: dict[str, Any] = {"name": one.name, "images_per_second": rate, "setup_seconds": one.first_seconds}
        row["gigaflop_per_image"] = one.passes * operations / 1e9
        row["share_of_matrix_product"] = rate * one.passes * operations / limit
        for other in everyone:
            if other is not one and other.name in (
                one.name.replace("engine", "plain"),
                one.name.replace(*_candidate(one)),
            ):
                row[f"times_faster_than {other.name}"] = median_ratio(times[other.name], times[one.name])
        rows.append(row)
    return rows


def _candidate(one: Trained) -> tuple[str, str]:
    """What to cut out of a candidate's name to get the contestant that it is compared with."""
    between = one.name.split(", ")[1:-1]
    return (f", {between[0]}", "") if between else (", ", ", ")


def chosen(only: str, rows: list[str]) -> list[Trained]:
    """Who runs: all of a group, or its named rows."""
    known = {one.name: one for one in contestants(only)}
    if unknown := [name for name in rows if name not in known]:
        raise SystemExit(f"--only {only} has no row {unknown[0]!r}; it has: {'; '.join(known)}.")
    return [one for name, one in known.items() if not rows or name in rows]


def joined(earlier: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """What an earlier call saved, with what was measured now in the place of rows of the same names."""
    now = {each["name"] for part in ("rows", "failed") for each in content[part]}
    kept = {
        part: [each for each in earlier.get(part, []) if each["name"] not in now]
        for part in ("rows", "failed", "profiles")
    }
    commands = [*filter(None, [earlier.get("command")]), content["command"]]
    return {**content, **{part: kept[part] + content[part] for part in kept}, "command": "; ".join(commands)}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="all", choices=["all", "engine", "plain", "tiny"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", nargs="+", default=[], help="measure these rows alone, and keep the others")
    options = parser.parse_args()
    device = torch.device(options.device)
    name = "train_resnet18" if options.only == "all" else f"train_resnet18_{options.only}"
    path = timing.RESULTS / f"{name}_{device.type}.json"
    earlier = json.loads(path.read_text(encoding="utf-8")) if options.rows and path.exists() else {}
    # Shares of rows in one file are of one matrix product.
    limit = 1e12 * earlier.get("matrix_product_teraflops", 0.0)
    limit = limit or matrix_product_limit(device, 8192 if device.type == "cuda" else 128)
    operations = forward_operations(BACKBONES["resnet18"]((3, 32, 32), 256))
    everyone, failed = [], []
    for one in chosen(options.only, options.rows):
        try:
            one.prepare(device)
        except Exception as error:  # a candidate that fails must not cost the others
            failed.append({"name": one.name, "error": f"{type(error).__name__}: {str(error)[:300]}"})
            print(f"{one.name} failed: {failed[-1]['error']}", flush=True)
            continue
        everyone.append(one)
        print(f"{one.name}: first stretch {one.first_seconds:.1f} s", flush=True)
    times: dict[str, list[float]] = {one.name: [] for one in everyone}
    for _ in range(options.rounds):
        for one in everyone:
            times[one.name].append(one.stretch() / one.images)
    rows = rows_of(everyone, times, operations, limit)
    for row in rows:
        print(f"{row['name']}: {row['images_per_second']:.0f} images/s, "
              f"{row['share_of_matrix_product']:.1%} of the matrix product", flush=True)  # fmt: skip
    profiles = [profile_stretch(one, device) for one in everyone if "engine" in one.name]
    for each in profiles:
        shares = ", ".join(f"{kind} {share:.0%}" for kind, share in each["shares"].items())
        print(f"{each['name']}: {shares}", flush=True)
    content = {
        "command": " ".join(["python benchmarks/train_resnet18.py", *sys.argv[1:]]),
        "matrix_product_teraflops": limit / 1e12,
        "forward_gigaflop": operations / 1e9,
        "rows": rows,
        "failed": failed,
        "profiles": profiles,
    }
    save(name, device, joined(earlier, content))
    print(json.dumps({"saved": path.name, "rows": len(rows), "failed": len(failed)}))


if __name__ == "__main__":
    main()

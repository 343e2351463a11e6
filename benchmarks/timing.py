"""Fair timing: contestants take turns in one run, so that drift of the machine cancels in the ratios."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import maxmahal

RESULTS = Path(__file__).resolve().parent / "results"


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """The time of one call."""
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def take_turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int, device: torch.device, warm_up: bool = True
) -> dict[str, list[float]]:
    """Seconds of each contestant in each round; the order rotates, because the second one finds warm caches."""
    names = list(contestants)
    if warm_up:
        for name in names:
            contestants[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            times[name].append(seconds(contestants[name], device))
    return times


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of ours over theirs."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def save(name: str, device: torch.device, content: dict[str, Any]) -> Path:
    """One JSON file with what is needed to read the numbers later."""
    record = {
        "benchmark": name,
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "maxmahal": maxmahal.__version__,
        **content,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}_{device.type}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()

"""What the many-classes benchmark measures with: the peak of memory, the spread of the centers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

BLOCK = 4096  # rows whose cosines are looked at together: 64 MiB in float32


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """The most memory that one call holds at once, beyond what was held before it.

    On a GPU the allocator counts; on the CPU the profiler lists what torch's allocator gave out and took back.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    # Keeping events across cycles changes nothing in one cycle, but spares torch 2.11 a warning about it.
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True, acc_events=True) as profile:
        work()
    results: Any = profile.profiler
    changes = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    held, peak = 0, 0
    for change in sorted(changes, key=lambda event: int(event.start_ns())):
        held += change.nbytes()
        peak = max(peak, held)
    return peak


def largest_cosine(centers: Tensor) -> float:
    """The largest cosine of two centers, in float32 and over one half of all pairs: quick enough for 100,000."""
    directions = normalize(centers.float(), dim=1)
    largest = -1.0
    for start in range(0, len(directions), BLOCK):
        rows = directions[start : start + BLOCK]
        for other in range(start, len(directions), BLOCK):
            cosines = rows @ directions[other : other + BLOCK].T
            if other == start:
                cosines.fill_diagonal_(-1.0)
            largest = max(largest, float(cosines.max()))
    return largest


def least_cosine(num_points: int, dim: int) -> float | None:
    """A cosine that no code can stay below: the simplex's, Rankin's 0, or Levenshtein's third bound.

    The last says that codes of largest cosine s have at most dim·(1 − s)(2 + (dim + 1)s) / (1 − dim·s²) points, for s
    up to the one at which this is dim·(dim + 3)/2; None where there are more points than that.
    """
    if num_points <= dim + 1:
        return -1 / (num_points - 1)
    if num_points <= 2 * dim:
        return 0.0
    low, high = 0.0, (math.sqrt(dim + 3) - 1) / (dim + 2)
    if 2 * num_points > dim * (dim + 3):
        return None
    for _ in range(100):
        middle = (low + high) / 2
        most = dim * (1 - middle) * (2 + (dim + 1) * middle) / (1 - dim * middle**2)
        low, high = (middle, high) if most < num_points else (low, middle)
    return low

"""How long centers take to make, and how close they come to what is known.

python benchmarks/centers.py
"""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import maxmahal
from maxmahal import max_mahalanobis_centers
from maxmahal.centers import center_statistics

RESULTS = Path(__file__).resolve().parent / "results"
CASES = ((10, 256), (1000, 1024), (10, 2), (14, 3), (100, 64), (1000, 64))


def main() -> None:
    """Measure, print and save."""
    rows = []
    for num_classes, dim in CASES:
        started = time.perf_counter()
        centers = max_mahalanobis_centers(num_classes, dim)
        seconds = time.perf_counter() - started
        statistics = center_statistics(centers)
        best = -1 / (num_classes - 1) if num_classes <= dim + 1 else 0.0 if num_classes <= 2 * dim else None
        excess = None if best is None else statistics.largest_cosine - best
        row = {"num_classes": num_classes, "dim": dim, "seconds": seconds, "smallest_angle": statistics.smallest_angle}
        rows.append({**row, "cosine_above_optimum": excess})
        known = "" if excess is None else f", largest cosine {excess:.1e} above the optimum"
        print(f"{num_classes} x {dim}: {seconds:.3f} s, smallest angle {statistics.smallest_angle:.3f} degrees{known}")
    record = {
        "benchmark": "time to make centers",
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/centers.py",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "maxmahal": maxmahal.__version__,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "centers.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

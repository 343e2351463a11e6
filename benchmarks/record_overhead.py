"""What keeping records costs: an evaluation with them over the same attacks without, in one run.

python benchmarks/record_overhead.py
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from maxmahal import attacks
from maxmahal.attacks import Linf, margin, prepare
from maxmahal.data import ImageData, load_dataset
from maxmahal.evaluate import Suite, evaluate_model
from maxmahal.evaluate.suite import stage_from_table
from maxmahal.random import stream_key
from maxmahal.train import load_model, load_settings, train_model

RESULTS = Path(__file__).parent / "results"
EPSILON, STEPS, CHUNK = "0.15", 100, 250


def recorded(model: torch.nn.Module, data: ImageData, objective: str) -> float:
    """Seconds of an evaluation of two stages, every sample in every stage, on disk chunk by chunk."""
    stages = [
        {"name": name, "attack": "pgd", "objective": objective, "steps": STEPS, "scope": "all", "keep": "last"}
        for name in ("first", "second")
    ]
    suite = Suite(
        "bench",
        1,
        "two stages",
        tuple(stage_from_table(stage) for stage in stages),
        epsilon=EPSILON,
        chunk=CHUNK,
    )
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        evaluate_model(model, out=folder, suite=suite, data=data)
        return time.perf_counter() - started


def bare(model: torch.nn.Module, data: ImageData) -> float:
    """Seconds of the same attacks called by hand, a chunk at a time, their results thrown away."""
    started = time.perf_counter()
    fast = prepare(model)
    for name in ("first", "second"):
        for start in range(0, len(data), CHUNK):
            part = data.select(torch.arange(start, min(start + CHUNK, len(data))))
            attacks.pgd(
                fast,
                part.float_images(),
                part.labels,
                objective=margin(),
                threat=Linf(EPSILON),
                steps=STEPS,
                step_size=0.05 * Linf(EPSILON).radius,
                seed=stream_key(0, name) % 2**63,
                sample_ids=part.sample_ids,
                keep="last",
            )
    return time.perf_counter() - started


def main() -> None:
    """Take turns, and compare medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train_model(load_settings("digits-sce", ["train.epochs=2"]), folder)
        model = load_model(folder)
    data = load_dataset("digits", "test").first(options.images)
    recorded(model, data, "margin"), bare(model, data)
    times = [(recorded(model, data, "margin"), bare(model, data)) for _ in range(options.rounds)]
    ratios = [with_records / without for with_records, without in times]
    result = {
        "what": f"evaluation over bare attacks: 2 x PGD-{STEPS}, {len(data)} digits, chunks of {CHUNK}",
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "seconds_with": statistics.median(first for first, _ in times),
        "seconds_without": statistics.median(second for _, second in times),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "record_overhead_cpu.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

"""What several processes change: the losses of a training under torchrun, and the time of an evaluation on Ray.

    python benchmarks/several_processes.py

Losses of 50 steps of digits-mmc by 1, 2 and 4 processes are compared with those of one process without torchrun. The
evaluation has chunks of about 10 s; it runs in one process with a thread per core, in a shard per core, and on Ray with
a worker per core. The start of each counts.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from maxmahal import load, pgd
from maxmahal.data import load_dataset
from maxmahal.train import load_settings, new_classifier
from maxmahal.train.loop import batches, steps_per_epoch
from maxmahal.train.methods import METHODS
from maxmahal.train.optimiser import build_optimiser, learning_rate
from maxmahal.train.processes import is_first, joined
from maxmahal.train.step import step_kind
from timing import save, seconds, take_turns

STEPS, EARLY, PROCESSES = 50, 10, (1, 2, 4)
MODEL, CHUNK, CHUNKS, CHUNK_SECONDS = "cifar10-at-mmc", 64, 32, 10.0
SUITE = """
name = "chunks"
version = 1
about = "one attack, whole on every sample"
epsilon = "1/255"
chunk = {chunk}
diagnose = false

[[stage]]
name = "pgd"
attack = "pgd"
steps = {steps}
scope = "all"
keep = "last"
"""


def losses(dtype: torch.dtype) -> list[float]:
    """Of the steps of this process, or of the processes that torchrun started with it."""
    settings, data = load_settings("digits-mmc"), load_dataset("digits", "train")
    model = new_classifier(settings, data).to(dtype).train()
    method, optimiser = settings.method.build(METHODS), build_optimiser(model, settings.train)
    epochs = -(-STEPS // steps_per_epoch(data, settings.train.batch_size))
    found = []
    with joined(torch.device("cpu"), settings.train.batch_size, resume=False) as processes:
        step = step_kind(settings.cpu)(model, optimiser, method, None, settings.cpu, settings.train, processes)
        for epoch in range(epochs):
            for batch in batches(data, settings, epoch, processes):
                lr = learning_rate(settings.train, batch.step, batch.steps)
                found.append(float(step(replace(batch, images=batch.images.to(dtype)), lr)))
    return found[:STEPS]


def losses_of(processes: int | None, dtype: str, folder: Path, threads: int = 1) -> list[float]:
    """The losses of some processes under torchrun, or of one without."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes else []
    out = folder / f"{processes}-{dtype}-{threads}.json"
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run([sys.executable, *torchrun, __file__, "--losses", dtype, str(out)], env=environment, check=True)
    found: list[float] = json.loads(out.read_text())
    return found


def difference(one: list[float], other: list[float]) -> float:
    """The largest relative one."""
    return max(abs(a - b) / abs(b) for a, b in zip(one, other, strict=True))


def compare_losses(folder: Path) -> list[dict[str, Any]]:
    """A row for each number of processes; the last one is one process with another number of threads."""
    alone = {dtype: losses_of(None, dtype, folder) for dtype in ("float32", "float64")}
    rows = []
    for processes, threads in (*((each, 1) for each in PROCESSES), (None, 2)):
        found = {dtype: losses_of(processes, dtype, folder, threads) for dtype in alone}
        rows.append(
            {
                "processes": processes,
                "threads": threads,
                "float32_early": difference(found["float32"][:EARLY], alone["float32"][:EARLY]),
                **{dtype: difference(found[dtype], alone[dtype]) for dtype in alone},
            }
        )
    return rows


def make_case(folder: Path, chunks: int) -> int:
    """Images that the model classifies correctly, and a suite of one attack; returns its steps."""
    images = torch.rand(chunks * CHUNK, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    pixels = (nn.functional.interpolate(images, size=(32, 32), mode="bilinear") * 255).to(torch.uint8)
    model = load(MODEL)
    with torch.no_grad():
        labels = torch.cat([model(part.float() / 255).argmax(dim=1) for part in torch.split(pixels, 256)])
    np.savez(folder / "images.npz", test_images=pixels.numpy(), test_labels=labels.numpy())
    torch.set_num_threads(1)
    first = pixels[:CHUNK].float() / 255, labels[:CHUNK]
    attack = partial(pgd, model, *first, "1/255", keep="last")  # every sample takes every step
    few, many = (seconds(partial(attack, steps=steps), torch.device("cpu")) for steps in (2, 12))
    steps = round(10 * CHUNK_SECONDS / (many - few))
    (folder / "suite.toml").write_text(SUITE.format(chunk=CHUNK, steps=steps))
    return steps


def evaluate(folder: Path, out: str, threads: int, *options: str) -> subprocess.Popen[bytes]:
    """Start the command line."""
    command = ["-m", "maxmahal", "evaluate", f"zoo:{MODEL}", "--data", "images.npz", "--suite", "suite.toml", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command += ["--device", "cpu", "--out", out, *options]
    return subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def time_evaluation(folder: Path, chunks: int, rounds: int) -> dict[str, Any]:
    """One process, shards and Ray in turns, on the same cores."""
    cores, steps, turn = len(os.sched_getaffinity(0)), make_case(folder, chunks), itertools.count()
    ways: dict[str, list[tuple[str, ...]]] = {
        "one process": [()],
        "shards": [("--shard", f"{number + 1}/{cores}") for number in range(cores)],
        "Ray": [("--on", "ray")],
    }

    def run(way: str) -> None:
        out = f"out{next(turn)}"
        started = [evaluate(folder, out, 1 if options else cores, *options) for options in ways[way]]
        statuses = [each.wait() for each in started]
        if any(statuses):
            raise SystemExit(f"{way} failed: {statuses}")

    times = take_turns({way: partial(run, way) for way in ways}, rounds, torch.device("cpu"), warm_up=False)
    return {"cores": cores, "chunks": chunks, "chunk_seconds": CHUNK_SECONDS, "steps": steps, "seconds": times}


def main() -> None:
    """Both, and their JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="of the evaluation")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--losses", nargs=2, metavar=("DTYPE", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.losses:
        found = losses(getattr(torch, given.losses[0]))
        if is_first():
            Path(given.losses[1]).write_text(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as place:
        content: dict[str, Any] = {"steps": STEPS, "early": EARLY, "losses": compare_losses(Path(place))}
        content["evaluation"] = time_evaluation(Path(place), given.chunks, given.rounds)
    save("several_processes", torch.device("cpu"), content)
    print(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()

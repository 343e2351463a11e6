"""PGD-10 on a GPU against a model that is hard to break: ours beside the peers, and beside the model's own ceiling.

    python benchmarks/attack_gpu.py --run runs/cifar10-at-un-mmc --data test.npz --epsilon 8/255

Everybody attacks in the batch size at which they are fastest. The ceiling is the
rate of bare forward and backward passes, of the model as it is and of the prepared one. Compiling is timed by itself.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attack_models import Subject, subject_from
from maxmahal.attacks import (
    Engine,
    Linf,
    Model,
    Outputs,
    Result,
    cross_entropy,
    model_outputs,
    parse_epsilon,
    pgd,
    prepare,
)
from peers import NOT_INSTALLED, pgd_peers
from timing import median_ratio, save, take_turns

STEPS = 10


def passes_per_second(ask: Callable[[Tensor], Outputs], target: Subject, batch_size: int) -> float:
    """Bare forward and backward passes, in images a second."""
    objective = cross_entropy()
    images, labels = target.images[:batch_size], target.labels[:batch_size]

    def once() -> None:
        moved = images.clone().requires_grad_()
        torch.autograd.grad(objective(ask(moved), labels, None).sum(), moved)

    times = take_turns({"bare": once}, 12, images.device)
    return len(images) / statistics.median(times["bare"][2:])


def attack(target: Subject, model: Model, threat: Linf, engine: Engine) -> Result:
    """Ours, with cross-entropy as the peers have it."""
    return pgd(
        model,
        target.images,
        target.labels,
        objective=cross_entropy(),
        threat=threat,
        steps=STEPS,
        step_size=threat.radius / 4,
        seed=0,
        engine=engine,
    )


def moved_by_ours(target: Subject, model: Model, threat: Linf, engine: Engine) -> Tensor:
    """The images alone, as peers return them."""
    return attack(target, model, threat, engine).images


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epsilon", default="8/255")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--only-right", action="store_true", help="leave out what the model gets wrong anyway")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device, threat = torch.device(options.device), Linf(options.epsilon)
    target = subject_from(options.run, options.data, only_right=options.only_right, device=device).first(options.images)
    fast = prepare(target.model, compile=True)
    started = time.perf_counter()
    attack(target, fast, threat, Engine())
    compiling = time.perf_counter() - started
    print(f"first attack, compiling included: {compiling:.1f} s; {fast.notes}", flush=True)
    ours: dict[str, tuple[Model, Engine]] = {"as it is": (target.model, Engine())}
    ours["prepared, not compiled"] = (prepare(target.model, compile=False), Engine())
    ours |= {f"prepared, batch {size}": (fast, Engine(batch_size=size)) for size in options.batches}
    peers = pgd_peers(parse_epsilon(options.epsilon), STEPS, threat.radius / 4, seed=0)
    peers = [peer for peer in peers if peer.version != NOT_INSTALLED]
    work: dict[str, Callable[[], Any]] = {}
    for name, (model, engine) in ours.items():
        work[f"maxmahal, {name}"] = partial(moved_by_ours, target, model, threat, engine)
    for peer in peers:
        for size in options.batches:
            work[f"{peer.library} {peer.attack}, batch {size}"] = partial(target.attacked_by, peer, size)
    left = {name: target.accuracy(run(), threat) for name, run in work.items()}
    times = take_turns(work, options.rounds, device, warm_up=False)
    ceilings = {
        f"{name}, batch {size}": passes_per_second(ask, target, size)
        for size in options.batches
        for name, ask in (
            ("the model", lambda images: model_outputs(target.model, images)),
            ("prepared", fast.search),
        )
    }
    best = min((name for name in work if name.startswith("maxmahal")), key=lambda name: statistics.median(times[name]))
    rows = []
    for name in sorted(work, key=lambda name: statistics.median(times[name])):
        taken = statistics.median(times[name])
        rows.append(
            {
                "who": name,
                "seconds": taken,
                "images_per_second": len(target.images) / taken,
                "accuracy": left[name],
                "slower_than_our_best": median_ratio(times[name], times[best]),
            }
        )
        print(f"{name:>50}: {taken:.3f} s, left {left[name]:.4f}, x{rows[-1]['slower_than_our_best']:.2f}", flush=True)
    passes = vars(attack(target, fast, threat, Engine()).passes)
    print("ceilings, images/s:", {name: round(rate) for name, rate in ceilings.items()})
    content = {
        "images": len(target.images),
        "run": options.run.name,
        "epsilon": options.epsilon,
        "steps": STEPS,
        "rows": rows,
        "ceilings": ceilings,
        "passes": passes,
        "only_right": options.only_right,
        "first_attack_seconds": compiling,
    }
    print("saved", save("attack_pgd10_right" if options.only_right else "attack_pgd10", device, content).name)


if __name__ == "__main__":
    main()

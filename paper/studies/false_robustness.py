"""Models with masked gradients must be flagged and ordinary ones not; and strict compared with AutoAttack.

    python -m paper.studies.false_robustness [--jobs 4]

Every evaluation goes into runs/studies/false-robustness and is resumed there; several processes share the work.
"""

import argparse
import importlib
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch

from maxmahal.evaluate import Evaluation, evaluate_model, give_verdict, read_evaluations
from paper import ROOT
from paper.studies.digits import RUNS, digits_model, digits_test, save_record, trained

EPSILON = "0.15"
FOLDER = RUNS / "false-robustness"
# Seeds that no threshold was chosen on.
ORDINARY = {
    **{f"SCE, seed {seed}": ("digits-sce", seed) for seed in (10, 11, 12, 13)},
    **{f"center loss, seed {seed}": ("digits-center", seed) for seed in (10, 11, 12)},
    **{f"AT (SCE), seed {seed}": ("digits-at-sce", seed) for seed in (10, 11)},
    "AT (MMC), seed 10": ("digits-at-mmc", 10),
}
UNMASKED = "SCE, seed 10"
MASKED = "masked: "
MMC = ("MMC, scale 1", "MMC, scale 2")
BESIDE_AUTOATTACK = ("SCE, seed 10", "AT (SCE), seed 10", "AT (SCE), seed 11", "AT (MMC), seed 10", *MMC)


def ordinary_model(title: str) -> torch.nn.Module:
    """Trained once."""
    preset, seed = ORDINARY[title]
    return trained(preset, [f"train.seed={seed}"], f"{preset}-{seed}")


def masks(network: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Every mask of the tests, around a network."""
    sys.path.insert(0, str(ROOT / "tests" / "evaluate"))
    made: Any = importlib.import_module("masked_models")
    # Strong noise changes the network instead of hiding it; it is evaluated for comparison.
    return {**made.masked(network), "strong noise": made.behind(made.Noise(0.2), network)}


def model_of(title: str) -> torch.nn.Module:
    """Ordinary, behind a mask, or MMC, whose gradients vanish without a mask."""
    if title.startswith(MASKED):
        return masks(ordinary_model(UNMASKED))[title.removeprefix(MASKED)]
    return digits_model(title) if title in MMC else ordinary_model(title)


def tasks() -> list[tuple[str, str]]:
    """Model and suite of every evaluation, the longest first."""
    names = [*reversed(ORDINARY), *MMC, *(MASKED + name for name in masks(torch.nn.Identity()))]
    return [(title, "autoattack") for title in BESIDE_AUTOATTACK] + [(title, "strict") for title in names]


def evaluate(title: str, suite: str) -> Evaluation:
    """One evaluation; a finished one is read."""
    out = FOLDER / f"{title}-{suite}".replace(" ", "-").replace(",", "").replace(":", "")
    known = read_evaluations(out) if out.exists() else []
    if known and known[0].finished:
        return known[0]
    return evaluate_model(model_of(title), out=out, suite=suite, data=digits_test(), epsilon=EPSILON)


def summarise(evaluation: Evaluation) -> dict[str, Any]:
    """What the table needs."""
    verdict = give_verdict(evaluation)
    stages = [stage.rating for stage in evaluation.stages]
    return {
        "clean": verdict.clean.value,
        "robust": verdict.robust.value,
        "interval": verdict.robust.interval,
        "trust": verdict.trust,
        "sentence": verdict.sentence,
        "flags": [finding.check for finding in evaluation.findings if finding.flagged],
        "numbers": {finding.check: finding.numbers for finding in evaluation.findings},
        "added": [stage.title for stage in evaluation.stages if stage.origin == "diagnosis" and not stage.skipped],
        "seconds": sum(rating.seconds for rating in stages),
        "forward": sum(rating.forward for rating in stages),
        "backward": sum(rating.backward for rating in stages),
    }


def measure(task: tuple[str, str]) -> dict[str, Any]:
    """One evaluation, summarised; in a process of its own."""
    summary = summarise(evaluate(*task))
    print(*task, summary["robust"], flush=True)
    return summary


def main() -> None:
    """Compute what is missing, then write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    for title in dict.fromkeys([UNMASKED, *BESIDE_AUTOATTACK]):
        model_of(title)  # several processes need it, so it is trained first
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        found = dict(zip(tasks(), pool.map(measure, tasks()), strict=True))
    rows = {title: row for (title, suite), row in found.items() if suite == "strict"}
    beside = {title: {"strict": rows[title], "autoattack": found[title, "autoattack"]} for title in BESIDE_AUTOATTACK}
    content = {"epsilon": EPSILON, "unmasked": UNMASKED, "ordinary": list(ORDINARY), "rows": rows, "beside": beside}
    print(save_record("false_robustness", content))


if __name__ == "__main__":
    main()

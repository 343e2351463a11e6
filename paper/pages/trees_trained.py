"""Adversarial training on class trees by what the trainings themselves measured, until three seeds are attacked."""

from collections.abc import Mapping, Sequence
from typing import Any

from maxmahal.report.wording import counted
from paper.pages.paired import ENOUGH, Difference, paired
from paper.pages.trees_beside import Beside
from paper.pages.trees_study import AT_MMC, AT_ORTHOGONAL
from paper.pages.variants.rules import between
from paper.summaries import RunSummary

_SCORES = ("test_pgd10", "test_accuracy")


def trained_alone(beside: Beside) -> str:
    """Each arm less MMC, last checkpoints, seed by seed; empty where no arm has seeds enough."""
    found = {arm.title: pair for arm in AT_ORTHOGONAL.arms if (pair := _against(beside, arm.name)) is not None}
    if not found:
        return ""
    settings = beside.settings(AT_MMC)
    seeds = counted("seed", *(attacked.n for attacked, _ in found.values()))
    gain = any(attacked.verdict() == "helps" for attacked, _ in found.values())
    told = [
        f"{title.removeprefix('AT, ')}, {between(attacked)} points, on clean images {between(clean)} points"
        for title, (attacked, clean) in found.items()
    ]
    return (
        f"**Robustness with adversarial training: {'a gain' if gain else 'no gain seen'}.** After "
        f"{settings.get('train.epochs')} epochs at rate {settings.get('train.lr')}, {seeds}, against MMC-10, by the "
        f"trainings' own PGD-10 at {settings.get('method.epsilon')}, which bounds each worst case from above and not "
        f"their difference: {'; '.join(told)}."
    )


def _against(beside: Beside, arm: str) -> tuple[Difference, Difference] | None:
    """Under attack and on clean images, over seeds that were trained alike; None with fewer than a verdict takes."""
    ours, theirs = (_by_seed(beside, each) for each in (arm, AT_MMC))
    alike = [seed for seed in ours.keys() & theirs.keys() if _schedule(ours[seed]) == _schedule(theirs[seed])]
    attacked, clean = (paired(*(_scores(runs, alike, key) for runs in (ours, theirs))) for key in _SCORES)
    return (attacked, clean) if min(attacked.n, clean.n) >= ENOUGH else None


def _by_seed(beside: Beside, arm: str) -> dict[int, RunSummary]:
    return {seed: run for seed in beside.seeds(arm) for run in beside.runs if run.name == f"{arm}-seed{seed}"}


def _schedule(run: RunSummary) -> tuple[dict[str, Any], object]:
    """All of the training but its seed."""
    return {**run.settings.get("train", {}), "seed": None}, run.settings.get("method")


def _scores(runs: Mapping[int, RunSummary], seeds: Sequence[int], key: str) -> dict[int, float]:
    """Of last checkpoints, in percent."""
    scores = {seed: (runs[seed].result.get("last") or {}).get(key) for seed in seeds}
    return {seed: 100 * value for seed, value in scores.items() if value is not None}

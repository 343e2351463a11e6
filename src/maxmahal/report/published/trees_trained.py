"""Adversarial training on class trees by what the trainings themselves measured, as long as nobody attacked them."""

from typing import Any

from maxmahal.report.published.trees_beside import Beside
from maxmahal.report.published.trees_study import AT_MMC, AT_ORTHOGONAL
from maxmahal.report.published.variants.paired import ENOUGH, Difference, paired
from maxmahal.report.published.variants.rules import between
from maxmahal.report.wording import counted, listed

_SCORES = ("test_pgd10", "test_accuracy")
_WORDS = {"helps": "higher", "hurts": "lower", "no difference seen": "no difference seen"}


def trained_alone(beside: Beside) -> str:
    """Each arm less MMC, last checkpoints, seed by seed; empty where no arm has seeds enough."""
    found = {arm.title: pair for arm in AT_ORTHOGONAL.arms if (pair := _against(beside, arm.name)) is not None}
    if not found:
        return ""
    settings = beside.settings(AT_MMC)
    seeds = counted("seed", *(attacked.n for attacked, _ in found.values()))
    told = [
        f"{title.removeprefix('AT, ')}, {between(attacked)} points ({_WORDS[attacked.verdict()]}), on clean images "
        f"{between(clean)} ({_WORDS[clean.verdict()]})"
        for title, (attacked, clean) in found.items()
    ]
    return (
        f"**With adversarial training**, {settings.get('train.epochs')} epochs, {seeds}, against MMC-10, by the PGD-10 "
        f"at {settings.get('method.epsilon')} that a training ends with on all test images, an upper bound and not "
        f"the worst case: {listed(told)}."
    )


def _against(beside: Beside, arm: str) -> tuple[Difference, Difference] | None:
    """Under attack and on clean images; None with fewer seeds than a verdict takes, or for other schedules."""
    if _schedule(beside, arm) != _schedule(beside, AT_MMC):
        return None
    attacked, clean = (paired(_ended(beside, arm, key), _ended(beside, AT_MMC, key)) for key in _SCORES)
    return (attacked, clean) if min(attacked.n, clean.n) >= ENOUGH else None


def _schedule(beside: Beside, arm: str) -> dict[str, Any]:
    parts = beside.settings(arm).items()
    return {key: value for key, value in parts if key.startswith(("train.", "method.")) and key != "train.seed"}


def _ended(beside: Beside, arm: str, key: str) -> dict[int, float]:
    """In percent, by seed."""
    runs = {seed: run for seed in beside.seeds(arm) for run in beside.runs if run.name == f"{arm}-seed{seed}"}
    scores = {seed: (run.result.get("last") or {}).get(key) for seed, run in runs.items()}
    return {seed: 100 * value for seed, value in scores.items() if value is not None}

"""The main job on embedded data: train three models, attack them, and say what came out."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from maxmahal.attacks import Linf, margin, pgd
from maxmahal.data import ImageData, load_dataset
from maxmahal.evaluate import Budget, evaluate_quickly
from maxmahal.files import write_text_atomically
from maxmahal.losses import CenterHead
from maxmahal.models import Classifier, eval_mode, map_batches
from maxmahal.report import FeaturePanel, plot_features
from maxmahal.train import Reporter, RunFolder, load_model, load_settings, train_model

BUDGET = Budget(threat=Linf(0.15), steps=50, step_size=0.015, noise_std=0.1, max_degrees=30.0)
ROWS = {"SCE": "digits-sce", "MMC": "digits-mmc", "AT (MMC)": "digits-at-mmc"}
LOOKS_ROBUST = 0.25  # below this an attack has shown well enough that a model is not robust
MASKED_BY = 0.1  # an attack this far above the worst case was fooled by the model rather than stopped by it


@dataclass(frozen=True)
class DemoRow:
    """One model: accuracies by attack, and what they mean."""

    title: str
    preset: str
    accuracies: dict[str, float]
    sentence: str


@dataclass(frozen=True)
class DemoResult:
    """Everything the demo made."""

    rows: list[DemoRow]
    images: int
    record: Path
    picture: Path


def run_demo(out: Path, *, epochs: int | None = None, seed: int = 0, reporter: Reporter | None = None) -> DemoResult:
    """Train, attack, record and draw; a demo that was interrupted goes on where it stopped."""
    test = load_dataset("digits", "test")
    accuracies: dict[str, dict[str, float]] = {}
    for title, preset in ROWS.items():
        model = _trained(preset, out / preset, [], epochs, seed, reporter)
        if reporter is not None:
            reporter.note(f"Attacking {title}.")
        accuracies[title] = evaluate_quickly(model, test, BUDGET).accuracies()
    baseline = accuracies["SCE"]["clean"]
    rows = [DemoRow(title, ROWS[title], row, describe(row, baseline)) for title, row in accuracies.items()]
    record, picture = out / "demo.json", out / "features.png"
    budget = {**asdict(BUDGET), "threat": f"Linf {BUDGET.threat.epsilon}"}
    content = {"test_images": len(test), "budget": budget, "rows": [asdict(row) for row in rows]}
    write_text_atomically(record, json.dumps(content, indent=2) + "\n")
    plot_features(_feature_panels(test, out, epochs, seed, reporter), test.class_names, picture)
    return DemoResult(rows, len(test), record, picture)


def describe(accuracies: dict[str, float], baseline_clean: float) -> str:
    """One honest sentence about a row, from its numbers alone."""
    clean, worst = accuracies["clean"], accuracies["worst case"]
    attacks = ("own loss", "cross-entropy", "margin", "strongest")
    misled = max(attacks, key=lambda attack: accuracies[attack])
    if accuracies[misled] > LOOKS_ROBUST and accuracies[misled] - worst > MASKED_BY:
        return (
            f"Looks robust to PGD on {misled} ({accuracies[misled]:.1%}) but the worst case is {worst:.1%}: "
            f"most of that robustness was the attack's failure, not the model's strength."
        )
    if worst < 0.5 * clean:
        return f"Right on {clean:.1%} of clean images and on {worst:.1%} of attacked ones: not robust at this epsilon."
    cost = baseline_clean - clean
    price = (
        f"at a cost of {100 * cost:.1f} points of clean accuracy" if cost > 0 else "at no cost in clean accuracy here"
    )
    return f"Keeps {worst:.1%} under every attack tried, {price}; stronger attacks may find less."


def _feature_panels(
    test: ImageData, out: Path, epochs: int | None, seed: int, reporter: Reporter | None
) -> list[FeaturePanel]:
    """SCE and MMC trained with two features, so that the plane is the feature space itself; and MMC under attack."""
    flat = ["model.feature_dim=2"]
    sce = _trained("digits-sce", out / "digits-sce-2d", flat, epochs, seed, reporter)
    mmc = _trained("digits-mmc", out / "digits-mmc-2d", flat, epochs, seed, reporter)
    with eval_mode(sce), eval_mode(mmc):
        attacked = pgd(
            mmc,
            test.float_images(),
            test.labels,
            objective=margin(),
            threat=BUDGET.threat,
            steps=BUDGET.steps,
            step_size=BUDGET.step_size,
            seed=BUDGET.seed,
            sample_ids=test.sample_ids,
        ).images
        centers = mmc.head.centers if isinstance(mmc.head, CenterHead) else None
        with torch.no_grad():
            return [
                FeaturePanel("SCE", map_batches(sce.features, test), test.labels, None),
                FeaturePanel("MMC", map_batches(mmc.features, test), test.labels, centers),
                FeaturePanel("MMC, attacked on the margin", mmc.features(attacked), test.labels, centers),
            ]


def _trained(
    preset: str, out: Path, overrides: list[str], epochs: int | None, seed: int, reporter: Reporter | None
) -> Classifier:
    chosen = [*overrides, f"train.seed={seed}"]
    if epochs is not None:
        chosen.append(f"train.epochs={epochs}")
    if reporter is not None:
        reporter.note(f"Training {out.name}.")
    train_model(load_settings(preset, chosen), out, resume=True, reporter=reporter)
    return load_model(RunFolder(out).last)

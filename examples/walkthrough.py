"""From class centers to a robust model in two minutes, with a picture for every step.

Run it as a script (``python examples/walkthrough.py --out walk``), or open it as a notebook: editors show
each ``# %%`` as a cell.
"""

# %%
import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from maxmahal import Classifier, evaluate_models, load, load_settings, max_mahalanobis_centers, train_model
from maxmahal.attacks import Linf, cross_entropy, margin, pgd
from maxmahal.data import ImageData, load_dataset
from maxmahal.evaluate import compare, give_verdict

EPSILON = 0.15


# %% [markdown]
# ## 1. Centers
#
# Softmax cross-entropy separates the features, and lets them spread. The Max-Mahalanobis center loss fixes one point
# per class before training, as far from all others as possible. In the plane, three classes form a triangle and ten a
# decagon; ten points with equal distances need nine dimensions.


# %%
def draw_centers(out: Path) -> None:
    """Three and ten classes in the plane."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.5))
    for axis, classes in zip(axes, (3, 10), strict=True):
        centers = max_mahalanobis_centers(num_classes=classes, dim=2)
        axis.scatter(*centers.T, c=range(classes), cmap="tab10", s=80)
        axis.set_title(f"{classes} classes in the plane")
        axis.set_aspect("equal")
    save(figure, out / "1-centers.svg")
    cosines = torch.nn.functional.normalize(max_mahalanobis_centers(num_classes=10, dim=256), dim=1)
    cosines = (cosines @ cosines.T)[~torch.eye(10, dtype=torch.bool)]
    print(f"Ten classes in 256 dimensions: every cosine is {cosines.mean():.4f} ± {cosines.std():.0e}.")


# %% [markdown]
# ## 2. Training gathers the features
#
# Three models of the embedded digits: softmax cross-entropy, MMC, and MMC with adversarial training. The features of
# the first two, projected on their two main directions.


# %%
def train(out: Path, quick: bool) -> dict[str, Classifier]:
    """The three models, each in a run folder that can be resumed."""
    short = ["train.epochs=2"] if quick else []
    runs = {"SCE": "digits-sce", "MMC": "digits-mmc", "AT (MMC)": "digits-at-mmc"}
    for preset in runs.values():
        train_model(load_settings(preset, short), out / preset, resume=True)
    return {name: load(out / preset) for name, preset in runs.items()}


def draw_features(models: dict[str, Classifier], test: ImageData, out: Path) -> None:
    """Test features in the plane of their largest spread."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 4))
    for axis, name in zip(axes, ("SCE", "MMC"), strict=True):
        with torch.no_grad():
            features = models[name].features(test.float_images())
        _, _, directions = torch.pca_lowrank(features, q=2, niter=8)
        axis.scatter(*(features @ directions).T, c=test.labels, cmap="tab10", s=6)
        axis.set_title(name)
        axis.set_aspect("equal")
    save(figure, out / "2-features.svg")


# %% [markdown]
# ## 3. A weak attack is impressed
#
# PGD on the cross-entropy hardly touches the MMC model: its logits are so far apart that the gradient is zero in
# float32. That says something about the attack, not about the model. An attack on the margin, which never saturates,
# sees through it.


# %%
def attack(models: dict[str, Classifier], test: ImageData, out: Path) -> dict[str, tuple[float, float]]:
    """Accuracy under PGD-20 with two objectives."""
    left: dict[str, tuple[float, float]] = {}
    for name, model in models.items():
        found = [
            pgd(
                model,
                test.float_images(),
                test.labels,
                objective=objective,
                threat=Linf(EPSILON),
                steps=20,
                step_size=EPSILON / 6,
                seed=0,
            )
            for objective in (cross_entropy(), margin())
        ]
        left[name] = found[0].accuracy, found[1].accuracy
        print(f"{name}: {left[name][0]:.1%} left by PGD on the cross-entropy, {left[name][1]:.1%} on the margin.")
    figure, axis = plt.subplots(figsize=(6, 3.5))
    for place, objective in enumerate(("cross-entropy", "margin")):
        positions = [number + 0.4 * place for number in range(len(left))]
        axis.bar(positions, [100 * each[place] for each in left.values()], width=0.38, label=f"PGD on the {objective}")
    axis.set_xticks([number + 0.2 for number in range(len(left))], list(left))
    axis.set_ylabel("accuracy left, %")
    axis.legend()
    save(figure, out / "3-attacks.svg")
    return left


# %% [markdown]
# ## 4. What counts is the worst case
#
# A suite runs many attacks, looks for signs of false robustness, adds the attacks that they call for, and counts a
# sample as robust only if it stood up to all of them. Only adversarial training has something left.


# %%
def judge(models: dict[str, Classifier], test: ImageData, out: Path) -> None:
    """The verdict on each model, and the paired test between the first and the last."""
    found = evaluate_models(models, out=out / "records", suite="quick", data=test, epsilon=str(EPSILON))
    for evaluation in found:
        print(f"{evaluation.name}: {give_verdict(evaluation).sentence}")
    pair = compare(found[0], found[-1])
    print(f"{found[-1].name} against {found[0].name}: {-100 * pair.difference:.1f} points, p = {pair.p_value:.1g}.")
    figure, axis = plt.subplots(figsize=(6, 3.5))
    robust = [give_verdict(evaluation).robust for evaluation in found]
    axis.bar([each.name for each in found], [100 * each.value for each in robust])
    axis.set_ylabel("accuracy in the worst case, %")
    save(figure, out / "4-worst-case.svg")


# %%
def save(figure: Figure, path: Path) -> None:
    """Save a picture and print its path."""
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    print(f"  picture: {path.name}")


def some(data: ImageData, count: int) -> ImageData:
    """Every class of the test images, evenly."""
    rows: Tensor = torch.linspace(0, len(data) - 1, count).long()
    return data.select(rows)


def main(words: list[str] | None = None) -> None:
    """All steps."""
    parser = argparse.ArgumentParser(description="From centers to a robust model, with pictures.")
    parser.add_argument("--out", type=Path, default=Path("runs/walk"))
    parser.add_argument("--quick", action="store_true", help="train for two epochs only, to see that it runs")
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    test = some(load_dataset("digits", "test"), 40 if options.quick else 200)
    draw_centers(options.out)
    models = train(options.out, options.quick)
    draw_features(models, test, options.out)
    attack(models, test, options.out)
    judge(models, test, options.out)


if __name__ == "__main__":
    main()

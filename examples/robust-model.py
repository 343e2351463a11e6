# %% [markdown]
# # From class centers to a robust model
#
# Four steps, each with a picture, about two minutes on a laptop. The message: preset centers make tidy features, a
# weak attack takes this for robustness, and only adversarial training helps.

# %%
import torch
from matplotlib import pyplot as plt

from maxmahal import evaluate_models, load, load_settings, max_mahalanobis_centers, train_model
from maxmahal.attacks import cross_entropy, margin, pgd
from maxmahal.data import load_dataset

EPSILON = 0.15  # the usual Linf radius for 8x8 digits

# %% [markdown]
# ## 1. Centers
#
# The Max-Mahalanobis center loss (MMC) fixes one point per class before training, as far from all others as possible.
# In the plane, three classes form a triangle and ten a decagon. Ten points with equal distances need nine dimensions.

# %%
figure, axes = plt.subplots(1, 2, figsize=(7, 3.5))
for axis, classes in zip(axes, (3, 10), strict=True):
    points = max_mahalanobis_centers(num_classes=classes, dim=2)
    axis.scatter(*points.T, c=range(classes), cmap="tab10", s=80)
    axis.set_title(f"{classes} classes in the plane")
    axis.set_aspect("equal")
figure.savefig("centers-1.png")

points = torch.nn.functional.normalize(max_mahalanobis_centers(num_classes=10, dim=256), dim=1)
cosines = (points @ points.T)[~torch.eye(10, dtype=torch.bool)]
print(f"Ten classes in 256 dimensions: every cosine is {cosines.mean():.4f} ± {cosines.std():.0e}.")

# %% [markdown]
# ## 2. Training gathers the features
#
# Three models of the digits: softmax cross-entropy (SCE), MMC, and MMC with adversarial training. Below are the
# features of the test images for the first two, projected on their two main directions.

# %%
presets = {"SCE": "digits-sce", "MMC": "digits-mmc", "AT (MMC)": "digits-at-mmc"}
for preset in presets.values():
    train_model(load_settings(preset), f"runs/{preset}", resume=True)
models = {name: load(f"runs/{preset}") for name, preset in presets.items()}

test = load_dataset("digits", "test")
test = test.select(torch.linspace(0, len(test) - 1, 200).long())  # 200 images of all classes

figure, axes = plt.subplots(1, 2, figsize=(8, 4))
for axis, name in zip(axes, ("SCE", "MMC"), strict=True):
    with torch.no_grad():
        features = models[name].features(test.float_images())
    _, _, directions = torch.pca_lowrank(features, q=2, niter=8)
    axis.scatter(*(features @ directions).T, c=test.labels, cmap="tab10", s=8)
    axis.set_title(name)
    axis.set_aspect("equal")
figure.savefig("centers-2.png")

# %% [markdown]
# ## 3. A weak attack is impressed
#
# PGD on the cross-entropy leaves much of the MMC model, because the logits are so far apart that the gradient is zero
# in float32. This is a fault of the attack, not a virtue of the model: an attack on the margin, which never
# saturates, breaks it.

# %%
left: dict[str, list[float]] = {}
for name, model in models.items():
    left[name] = [
        pgd(model, test.float_images(), test.labels, EPSILON, objective=objective).accuracy
        for objective in (cross_entropy(), margin())
    ]
    print(f"{name}: {left[name][0]:.1%} left by PGD on the cross-entropy, {left[name][1]:.1%} on the margin.")

figure, axis = plt.subplots(figsize=(6, 3.5))
for place, title in enumerate(("cross-entropy", "margin")):
    positions = [number + 0.4 * place for number in range(len(left))]
    axis.bar(positions, [100 * each[place] for each in left.values()], width=0.38, label=f"PGD on the {title}")
axis.set_xticks([number + 0.2 for number in range(len(left))], list(left))
axis.set_ylabel("accuracy left, %")
axis.legend()
figure.savefig("centers-3.png")

# %% [markdown]
# ## 4. What counts is the worst case
#
# A suite runs many attacks and counts a sample as robust only if no attack breaks it. Only adversarial training has
# something left.

# %%
found = evaluate_models(models, data=test, suite="quick", epsilon=str(EPSILON), out="runs/records")
for evaluation in found:
    print(f"{evaluation.name}: {evaluation.verdict.sentence}")

figure, axis = plt.subplots(figsize=(6, 3.5))
axis.bar([each.name for each in found], [100 * each.verdict.robust.value for each in found])
axis.set_ylabel("accuracy in the worst case, %")
figure.savefig("centers-4.png")

# %% [markdown]
# Next: `maxmahal report runs/records --out report.html` shows which attack broke which image.

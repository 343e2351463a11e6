# %% [markdown]
# # A model that only looks robust
#
# An ordinary network behind a quantiser: attacks that follow gradients fail, and the model seems robust. The checks
# of `strict` find out why, add the attacks that are needed, and break it. About one minute on a laptop.

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn

from maxmahal import evaluate_model, load, load_settings, train_model
from maxmahal.attacks import cross_entropy, pgd, square, straight_through
from maxmahal.data import load_dataset

EPSILON = 0.15
train_model(load_settings("digits-sce"), "runs/sce", resume=True)
network = load("runs/sce")

test = load_dataset("digits", "test")
test = test.select(torch.linspace(0, len(test) - 1, 100).long())
images, labels = test.float_images(), test.labels

# %% [markdown]
# ## 1. The defence
#
# Images are rounded to eight grey levels before the network sees them. Accuracy on clean images hardly changes.


# %%
class Quantise(nn.Module):
    """Eight grey levels; the derivative of rounding is zero almost everywhere."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Rounded images."""
        return torch.round(images * 7) / 7


defended = nn.Sequential(Quantise(), network).eval()
for name, model in (("network", network), ("defended", defended)):
    clean = (model(images).argmax(dim=1) == labels).float().mean()
    attacked = pgd(model, images, labels, EPSILON, objective=cross_entropy())
    print(f"{name}: {clean:.1%} clean, {attacked.accuracy:.1%} under PGD-50.")

# %% [markdown]
# PGD breaks the network and leaves the defended one almost untouched. Is it robust?
#
# ## 2. Two attacks that do not need its gradient
#
# Square only asks for logits. `straight_through` lets the gradient pass the quantiser as if it were not there (BPDA).

# %%
through = nn.Sequential(straight_through(Quantise()), network).eval()
left = {
    "PGD": pgd(defended, images, labels, EPSILON, objective=cross_entropy()).accuracy,
    "Square": square(defended, images, labels, EPSILON, queries=500).accuracy,
    "PGD, straight through": pgd(through, images, labels, EPSILON, objective=cross_entropy()).accuracy,
}
for name, accuracy in left.items():
    print(f"{name}: {accuracy:.1%} left")

figure, axis = plt.subplots(figsize=(6, 3))
axis.barh(list(left), [100 * value for value in left.values()])
axis.set_xlabel("accuracy left, %")
figure.tight_layout()
figure.savefig("false-robustness-1.png")

# %% [markdown]
# ## 3. What `strict` says
#
# The suite was not told about the quantiser. It notices that gradients are zero and that attacks without gradients do
# better, adds attacks through a substitute for the gradient, and reports the worst case.

# %%
found = evaluate_model(defended, data=(images, labels), suite="strict", epsilon=str(EPSILON), out="runs/records")
print(found.verdict.sentence)
for finding in found.findings:
    if finding.flagged:
        print(f"- {finding.title}: {finding.sentence}")

# %% [markdown]
# ## 4. What the attack did
#
# Digits that the defended model reads correctly, above, and what broke them, below.

# %%
attack = pgd(through, images, labels, EPSILON)
right = defended(images).argmax(dim=1) == labels
broken = (right & (defended(attack.images).argmax(dim=1) != labels)).nonzero().flatten()[:6]
figure, axes = plt.subplots(2, 6, figsize=(8, 3))
for column, index in enumerate(broken.tolist()):
    said = defended(attack.images[index : index + 1]).argmax().item()
    for row, (picture, title) in enumerate(((images, f"a {labels[index]}"), (attack.images, f"read as {said}"))):
        axes[row, column].imshow(picture[index, 0], cmap="gray", vmin=0, vmax=1)
        axes[row, column].set_title(title, fontsize=9)
for axis in axes.flat:
    axis.set_axis_off()
figure.savefig("false-robustness-2.png")

# %% [markdown]
# More masks, and what each check looks for: [Signs of false robustness](../false-robustness.md).

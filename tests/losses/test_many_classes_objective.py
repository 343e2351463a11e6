"""The MMC training objective touches the true class's center and no other, whatever the number of classes."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from maxmahal import MMC, SCE, ArcFace, Classifier, Head, random_centers

NUM_CLASSES, DIM, BATCH = 5_000, 24, 6


class Touched(TorchDispatchMode):
    """Notes every operation that makes something of the size of all classes, or reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.made: set[str] = set()
        self.read: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for noted, values in ((self.made, made), (self.read, (args, kwargs or {}))):
            tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
            if any(NUM_CLASSES in tensor.shape or tensor.numel() >= NUM_CLASSES for tensor in tensors):
                noted.add(func.overloadpacket.__name__)
        return made


def train_once(head: Head) -> Touched:
    """Forward, backward and update of a small network with this head."""
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, DIM)), head).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    images, labels = torch.rand(BATCH, 1, 4, 4), torch.randint(NUM_CLASSES, (BATCH,))
    with Touched() as touched:
        for _ in range(2):
            optimiser.zero_grad()
            model.loss(images, labels).backward()
            optimiser.step()
    return touched


@pytest.mark.parametrize("form", ["squared", "absolute", "huber"])
def test_a_training_step_gathers_centers_and_makes_nothing_for_all_classes(form: str) -> None:
    touched = train_once(MMC(random_centers(NUM_CLASSES, DIM, seed=0), form=form))
    assert touched.made == set()
    assert touched.read == {"index"}


@pytest.mark.parametrize("kind", [SCE, ArcFace])
def test_a_softmax_head_makes_something_for_every_class(kind: type[Head]) -> None:
    assert len(train_once(kind(num_classes=NUM_CLASSES, feature_dim=DIM)).made) > 3


def test_prediction_looks_at_every_class() -> None:
    head = MMC(random_centers(NUM_CLASSES, DIM, seed=0))
    with Touched() as touched:
        head.logits(torch.rand(BATCH, DIM))
    assert "addmm" in touched.made

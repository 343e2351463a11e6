"""Our models in other libraries' hands: nothing to wrap, the same predictions, and attacks that see their gradients."""

import pytest
import torch
from torch import Tensor

from maxmahal.losses import MMC
from maxmahal.models import Classifier, SmallCNN

EPSILON, STEPS, STEP_SIZE = 0.1, 10, 0.02
IMAGES = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model() -> Classifier:
    """Untrained, with four images' own features as centers, so that all classes are predicted."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = SmallCNN(image_size=(8, 8), feature_dim=6, width=4).eval()
    with torch.no_grad():
        centers = backbone(IMAGES[:4])
    return Classifier(backbone, MMC(centers)).eval()


@pytest.fixture
def predicted(model: Classifier) -> Tensor:
    predicted = predictions(model, IMAGES)
    assert predicted.unique().tolist() == [0, 1, 2, 3]
    return predicted


def predictions(model: Classifier, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model(images).argmax(dim=1)


def assert_most_are_fooled(model: Classifier, moved: Tensor, predicted: Tensor) -> None:
    assert (moved - IMAGES).abs().max() <= EPSILON + 1e-6
    # Random signs of this size fool 1 to 7 of the 16: an attack that did not see the gradients would not get there.
    assert (predictions(model, moved) != predicted).sum() >= 12


def test_foolbox(model: Classifier, predicted: Tensor) -> None:
    # importorskip lets pass the deprecated scipy.ndimage.filters that foolbox imports.
    foolbox = pytest.importorskip("foolbox")
    theirs = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    assert torch.equal(theirs(IMAGES).argmax(dim=1), predicted)
    attack = foolbox.attacks.LinfPGD(steps=STEPS, abs_stepsize=STEP_SIZE, random_start=False)
    _, moved, success = attack(theirs, IMAGES, predicted, epsilons=EPSILON)
    assert torch.equal(success, predictions(model, moved) != predicted)
    assert_most_are_fooled(model, moved, predicted)


def test_torchattacks(model: Classifier, predicted: Tensor) -> None:
    torchattacks = pytest.importorskip("torchattacks")
    attack = torchattacks.PGD(model, eps=EPSILON, alpha=STEP_SIZE, steps=STEPS, random_start=False)
    assert torch.equal(attack.get_logits(IMAGES).argmax(dim=1), predicted)
    assert_most_are_fooled(model, attack(IMAGES, predicted), predicted)


def test_art(model: Classifier, predicted: Tensor) -> None:
    estimators = pytest.importorskip("art.estimators.classification")
    evasion = pytest.importorskip("art.attacks.evasion")
    theirs = estimators.PyTorchClassifier(
        model,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=(1, 8, 8),
        nb_classes=4,
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    assert torch.equal(torch.from_numpy(theirs.predict(IMAGES.numpy())).argmax(dim=1), predicted)
    attack = evasion.ProjectedGradientDescent(theirs, eps=EPSILON, eps_step=STEP_SIZE, max_iter=STEPS, verbose=False)
    moved = torch.from_numpy(attack.generate(IMAGES.numpy(), predicted.numpy()))
    assert_most_are_fooled(model, moved, predicted)


def test_pyautoattack(model: Classifier, predicted: Tensor) -> None:
    pyautoattack = pytest.importorskip("pyautoattack")
    suite = pyautoattack.AutoAttack(model, eps=EPSILON, seed=0, version="custom", attacks=["apgd-ce", "apgd-dlr"])
    moved, theirs = suite.run_standard_evaluation(IMAGES, predicted)
    assert torch.equal(theirs, predictions(model, moved))
    assert_most_are_fooled(model, moved, predicted)

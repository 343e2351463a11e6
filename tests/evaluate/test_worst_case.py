"""The worst case is per sample, within the threat, and judged by the model itself."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from maxmahal import MMC, SCE, Classifier, max_mahalanobis_centers
from maxmahal.attacks import Linf
from maxmahal.data import ImageData
from maxmahal.evaluate import Budget, Effort, Verdicts, evaluate_quickly
from maxmahal.report import FeaturePanel, plot_features


@pytest.fixture
def data() -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (60, 1, 4, 4), generator=generator, dtype=torch.uint8)
    return ImageData.from_arrays("noise", images, torch.arange(60) % 3, ("a", "b", "c"))


def classifier(*, softmax: bool) -> Classifier:
    torch.manual_seed(0)
    head = SCE(3, 4) if softmax else MMC(max_mahalanobis_centers(3, 4))
    return Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, 4)), head)


def test_the_worst_case_is_a_conjunction_over_samples() -> None:
    white_box = {"clean": torch.tensor([True, True, True, False]), "pgd": torch.tensor([True, False, True, True])}
    verdicts = Verdicts(white_box, {"noise": torch.tensor([False, False, False, False])})
    assert verdicts.worst_case.tolist() == [True, False, True, False]
    assert verdicts.accuracies() == {"clean": 0.75, "pgd": 0.75, "worst case": 0.5, "noise": 0.0}


@pytest.mark.parametrize("softmax", [True, False])
def test_attacks_find_what_a_linear_model_gives_away(softmax: bool, data: ImageData) -> None:
    """Three linear classes have a closed form: a sample falls if some class's margin is below epsilon·‖w‖₁."""
    model = classifier(softmax=softmax).train()
    linear: nn.Linear = model.backbone[1]  # type: ignore[index,assignment]
    with torch.no_grad():
        classes = model.head.linear.weight if softmax else model.head.centers
        weight = classes @ linear.weight
        logits = model(data.float_images())
    predictions = logits.argmax(1)
    data = ImageData.from_arrays("noise", data.images, predictions, data.class_names)
    epsilon = 0.1 if softmax else 0.02
    robust = torch.ones(60, dtype=torch.bool)
    for sample in range(60):
        for other in range(3):
            label = int(predictions[sample])
            difference = weight[label] - weight[other]
            lowest = (data.float_images()[sample].flatten() - epsilon).clamp_min(0)
            highest = (data.float_images()[sample].flatten() + epsilon).clamp_max(1)
            image = data.float_images()[sample].flatten()
            worst = torch.where(difference > 0, lowest, highest) - image
            gap = logits[sample, label] - logits[sample, other] + difference @ worst
            robust[sample] &= bool(other == label) or bool(gap > 0)
    assert 0 < robust.sum() < 60
    verdicts = evaluate_quickly(
        model, data, Budget(Linf(epsilon), steps=20, step_size=epsilon / 4, effort=Effort(steps=15, queries=20))
    )
    assert torch.equal(verdicts.white_box["strongest"], robust)
    assert torch.equal(verdicts.worst_case, robust)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_picture_of_the_feature_space_shows_its_points(tmp_path) -> None:  # type: ignore[no-untyped-def]
    labels = torch.arange(300) % 3
    centers = max_mahalanobis_centers(3, 2)
    features = centers[labels] + torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    panels = [FeaturePanel("one", features, labels, centers), FeaturePanel("two", features, labels, None)]
    plot_features(panels, ("a", "b", "c"), tmp_path / "features.png")
    pixels = np.asarray(Image.open(tmp_path / "features.png").convert("RGB")).reshape(-1, 3)
    for colour in ((31, 119, 180), (255, 127, 14), (44, 160, 44)):
        assert (np.abs(pixels.astype(int) - colour).sum(axis=1) < 60).sum() > 200

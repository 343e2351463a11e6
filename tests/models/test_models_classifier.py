"""A network, its normalisation and a head put together, and statistics against numpy in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from maxmahal.errors import ArgumentError, SettingsError
from maxmahal.losses import MMC, SCE
from maxmahal.models import Classifier, Head, Normalize, SmallCNN, blank_normalization, fit_normalization

IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
BYTES = torch.randint(0, 256, (40, 3, 6, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
BYTES[:, 1] //= 3  # channels and pixels that differ
BYTES[:, :, 2] //= 2


def small(**options: object) -> Classifier:
    backbone = SmallCNN(in_channels=3, image_size=(8, 8), feature_dim=4, width=4)
    return Classifier(backbone, SCE(num_classes=3, feature_dim=4), **options).eval()


def test_logits_are_the_heads_at_the_features() -> None:
    model = small()
    features = model.backbone(IMAGES)
    assert torch.equal(model.features(IMAGES), features)
    assert torch.equal(model(IMAGES), model.head.logits(features))
    labels = torch.tensor([0, 1, 2, 2, 1])
    assert torch.equal(model.loss(IMAGES, labels), model.head(features, labels))


def test_the_normalisation_runs_inside_the_model() -> None:
    mean, std = torch.tensor([0.5, 0.2, 0.1])[:, None, None], torch.tensor([0.3, 0.2, 0.4])[:, None, None]
    model = small(normalize=Normalize(mean, std))
    prepared = torch.tensor((IMAGES.numpy() - mean.numpy()) / std.numpy())
    torch.testing.assert_close(model.features(IMAGES), model.backbone(prepared))
    assert {"normalize.mean", "normalize.std"} <= set(model.state_dict())
    assert not any(name.startswith("normalize") for name, _ in model.named_parameters())


def test_the_pixel_mean_is_numpys_and_nothing_is_divided() -> None:
    layer = fit_normalization("pixel-mean", BYTES)
    expected = (BYTES.numpy().astype(np.float64) / 255).mean(axis=0)
    assert layer.mean.shape == (3, 6, 5)
    np.testing.assert_array_equal(layer.mean.numpy(), expected.astype(np.float32))
    assert torch.equal(layer.std, torch.ones(3, 6, 5))
    unit = BYTES.float() / 255
    np.testing.assert_allclose(layer(unit).numpy(), unit.numpy() - expected, atol=1e-6)


def test_the_channel_statistics_are_numpys() -> None:
    layer = fit_normalization("channel", BYTES)
    unit = BYTES.numpy().astype(np.float64) / 255
    np.testing.assert_allclose(layer.mean.flatten(), unit.mean(axis=(0, 2, 3)), rtol=2e-7)
    np.testing.assert_allclose(layer.std.flatten(), unit.std(axis=(0, 2, 3)), rtol=2e-7)
    normalized = layer(BYTES.float() / 255)
    torch.testing.assert_close(normalized.mean(dim=(0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(normalized.std(dim=(0, 2, 3), correction=0), torch.ones(3), rtol=1e-5, atol=0)


def test_statistics_stay_exact_where_float32_sums_would_not() -> None:
    many = torch.full((3000, 1, 40, 40), 254, dtype=torch.uint8)
    many[0, 0, 0, 0] = 0
    layer = fit_normalization("channel", many)
    share = 1 / many.numel()
    assert layer.mean.item() == pytest.approx(254 / 255 * (1 - share), rel=1e-7)
    assert layer.std.item() == pytest.approx(254 / 255 * np.sqrt(share * (1 - share)), rel=1e-5)


def test_a_constant_channel_does_not_divide_by_zero() -> None:
    layer = fit_normalization("channel", torch.full((4, 1, 3, 3), 77, dtype=torch.uint8))
    assert bool(layer(torch.full((1, 1, 3, 3), 77 / 255)).isfinite().all())


def test_no_normalisation_passes_images_through() -> None:
    assert torch.equal(fit_normalization("none", BYTES)(IMAGES), IMAGES)


def test_an_unknown_normalisation_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match=r"'pixel_mean' is unknown; did you mean 'pixel-mean'\?"):
        fit_normalization("pixel_mean", BYTES)


@pytest.mark.parametrize("name", ["none", "pixel-mean", "channel"])
def test_a_blank_normalisation_takes_a_fitted_ones_state(name: str) -> None:
    fitted, blank = fit_normalization(name, BYTES), blank_normalization(name, (3, 6, 5))
    unit = BYTES.float() / 255
    assert torch.equal(blank(unit), unit)
    blank.load_state_dict(fitted.state_dict())
    assert torch.equal(blank(unit), fitted(unit))


@pytest.mark.parametrize(
    ("backbone", "seen"),
    [(nn.Identity(), r"\(5, 3, 8, 8\)"), (nn.Flatten(), r"\(5, 192\)"), (nn.Flatten(2), r"\(5, 3, 64\)")],
)
def test_a_backbone_that_does_not_fit_the_head_is_refused(backbone: nn.Module, seen: str) -> None:
    model = Classifier(backbone, MMC(torch.eye(4)))
    for call in (model, model.features):
        with pytest.raises(ArgumentError, match=rf"features of shape \(n, 4\), the width of the head; got {seen}"):
            call(IMAGES)


class Foreign(nn.Module):
    """A network from elsewhere, which knows nothing of this library."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=(2, 3)) @ self.weight.T


@pytest.mark.parametrize(
    "backbone",
    [nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten()), Foreign()],
)
def test_any_module_that_returns_features_is_a_backbone(backbone: nn.Module) -> None:
    centers = torch.eye(4)
    model = Classifier(backbone, MMC(centers))
    logits = model(IMAGES)
    expected = -0.5 * (backbone(IMAGES)[:, None] - centers).square().sum(dim=2)
    torch.testing.assert_close(logits, expected)
    model.loss(IMAGES, torch.tensor([0, 1, 2, 3, 0])).backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


def test_a_loss_of_ones_own_is_told_to_name_the_sizes_it_hands_on() -> None:
    class Own(Head):
        def __init__(self, num_classes: int, feature_dim: int) -> None:
            super().__init__(num_classes, feature_dim)

        per_sample, logits = SCE.per_sample, SCE.logits

    with pytest.raises(ArgumentError, match=r"Own hands its sizes.*super\(\).__init__\(num_classes=…, feature_dim=…\)"):
        Own(3, 4)

"""Running a model over a data set leaves no trace and does not depend on how it was cut into batches."""

import pytest
import torch
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.losses import SCE
from maxmahal.models import Classifier, SmallCNN, accuracy, eval_mode, map_batches, predict_labels

CLASSES = ("a", "b", "c")


@pytest.fixture
def data() -> ImageData:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (23, 1, 8, 8), dtype=torch.uint8, generator=generator)
    return ImageData.from_arrays("test", images, torch.randint(0, 3, (23,), generator=generator), CLASSES)


@pytest.fixture
def model(data: ImageData) -> Classifier:
    """In training mode but for one layer, as when a user has frozen it; untrained, yet predicting every class."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = Classifier(
            SmallCNN(image_size=(8, 8), feature_dim=4, width=4), SCE(num_classes=3, feature_dim=4)
        ).train()
    with eval_mode(built), torch.no_grad():
        built.head.linear.bias -= built(data.float_images()).mean(dim=0)
    built.backbone.layers[1].eval()
    return built


def modes(model: nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def test_every_submodule_gets_its_own_mode_back(model: Classifier) -> None:
    before = modes(model)
    assert len(set(before)) == 2
    with eval_mode(model):
        assert not any(modes(model))
    assert modes(model) == before


def test_modes_come_back_after_an_exception(model: Classifier) -> None:
    before = modes(model)
    with pytest.raises(RuntimeError, match="inside"), eval_mode(model):
        raise RuntimeError("inside")
    assert modes(model) == before


def by_hand(model: Classifier, data: ImageData) -> Tensor:
    with eval_mode(model), torch.no_grad():
        return model(data.images.float() / 255).argmax(dim=1)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 500])
def test_predictions_do_not_depend_on_the_batch_size(model: Classifier, data: ImageData, batch_size: int) -> None:
    expected = by_hand(model, data)
    assert len(expected.unique()) > 1
    before, state = modes(model), {name: value.clone() for name, value in model.state_dict().items()}
    predictions = predict_labels(model, data, batch_size)
    assert torch.equal(predictions, expected)
    assert accuracy(model, data, batch_size) == pytest.approx(float((expected == data.labels).double().mean()))
    assert modes(model) == before
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_accuracy_is_a_share(data: ImageData) -> None:
    class Constant(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.tensor([0.0, 1.0, 0.5]).expand(len(images), 3)

    assert accuracy(Constant(), data) == int((data.labels == 1).sum()) / 23


def test_batches_are_joined_in_order_without_gradients(model: Classifier, data: ImageData) -> None:
    sizes = []

    def function(images: Tensor) -> Tensor:
        sizes.append(len(images))
        assert images.dtype == torch.float32
        return model.head.linear.weight.sum() * images.flatten(1)

    joined = map_batches(function, data, batch_size=10)
    assert sizes == [10, 10, 3]
    assert not joined.requires_grad
    expected = model.head.linear.weight.sum().detach() * data.float_images().flatten(1)
    torch.testing.assert_close(joined, expected)

"""What heads show of themselves, and how they answer when they are built the wrong way."""

import inspect
import pickle
from typing import Any

import pytest
import torch

import maxmahal.losses
from maxmahal.errors import ArgumentError
from maxmahal.losses import EMC, MMC, MMLDA, CenterHead
from maxmahal.models import Head

CENTER_HEADS = pytest.mark.parametrize("kind", [MMC, MMLDA, EMC])


def test_every_head_shows_its_sizes(head: Head) -> None:
    assert "classes=4, dim=3" in repr(head)


def test_settings_are_shown_with_the_sizes() -> None:
    centers = torch.eye(3)[:, :2]
    assert repr(MMC(centers, scale=2.0)) == "MMC(classes=3, dim=2, scale=2, form=squared)"
    assert repr(MMLDA(centers)) == "MMLDA(classes=3, dim=2, scale=1)"
    assert repr(EMC(centers, alpha=0.25)) == "EMC(classes=3, dim=2, scale=1, alpha=0.25)"
    assert repr(MMLDA(centers).to("meta")) == "MMLDA(classes=3, dim=2, scale=unknown)"


@pytest.mark.usefixtures("unchecked")
@CENTER_HEADS
@pytest.mark.parametrize(
    ("arguments", "settings", "sizes"),
    [((10, 32), {}, "10, 32"), ((10,), {}, "10, dim"), ((), {"num_classes": 10, "feature_dim": 32}, "10, 32")],
)
def test_sizes_in_place_of_centers_are_told_how_to_make_them(
    kind: Any, arguments: tuple[int, ...], settings: dict[str, int], sizes: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        kind(*arguments, **settings)
    name = kind.__name__
    assert str(caught.value) == f"{name} takes centers, not sizes: {name}(max_mahalanobis_centers({sizes}))."


@pytest.mark.usefixtures("unchecked")
@CENTER_HEADS
def test_a_list_of_centers_is_told_how_to_become_a_tensor(kind: Any) -> None:
    with pytest.raises(ArgumentError, match=r"centers must be a .* tensor; got a list\. Convert them with torch\.tens"):
        kind([[1.0, 0.0], [0.0, 1.0]])


@CENTER_HEADS
def test_a_head_with_centers_still_tells_its_settings_and_can_be_pickled(kind: Any) -> None:
    """Registries read the settings from the signature."""
    assert next(iter(inspect.signature(kind).parameters)) == "centers"
    assert "scale" in inspect.signature(kind).parameters
    assert "arguments" not in inspect.signature(type("Own", (CenterHead,), {})).parameters
    again = pickle.loads(pickle.dumps(kind(torch.eye(3), scale=2.0)))
    assert repr(again) == repr(kind(torch.eye(3), scale=2.0))


def test_dir_shows_the_public_names_alone() -> None:
    assert dir(maxmahal.losses) == sorted(maxmahal.losses.__all__)

"""What all test folders share: tiny data and settings that train in a second."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import jaxtyping
import numpy as np
import pytest
from hypothesis import settings

import checking

if TYPE_CHECKING:
    from maxmahal.train import Settings

checking.install()
settings.register_profile("no test asserts timing", deadline=None)
settings.load_profile("no test asserts timing")


@pytest.fixture
def tiny_npz(tmp_path: Path) -> Path:
    """Three easy classes of 8x8 images: each lights up its own stripe."""
    rng = np.random.default_rng(0)

    def part(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(count) % 3
        images = rng.integers(0, 60, (count, 8, 8), dtype=np.uint8)
        for index, label in enumerate(labels):
            images[index, :, 1 + 2 * label : 3 + 2 * label] += 180
        return images, labels

    images, labels = part(120)
    test_images, test_labels = part(60)
    path = tmp_path / "stripes.npz"
    np.savez(path, images=images, labels=labels, test_images=test_images, test_labels=test_labels)
    return path


@pytest.fixture
def tiny_settings(tiny_npz: Path) -> "Callable[..., Settings]":
    """A digits preset turned into a run of a second on the stripes, with any overrides."""
    from maxmahal.train import load_settings

    def make(preset: str, *overrides: str) -> "Settings":
        small = [f"data.source={tiny_npz}", "train.epochs=3", "train.batch_size=24", "model.feature_dim=8"]
        if "-at-" in preset or "-trades-" in preset or "-pairing-" in preset:
            small += ["data.validation=24", "method.steps=2"]
        return load_settings(preset, [*small, *overrides])

    return make


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user runs the library: no annotations checked, so that its own errors are what comes out."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="module")
def browser():  # type: ignore[no-untyped-def]
    """Chromium, for the tests of pages; they skip where there is none."""
    from browsing import open_browser

    with open_browser() as opened:
        yield opened


@pytest.fixture
def load_tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A module of tools/ by its name; copies of the tree in which mutants are judged have no tools."""
    tools = Path(__file__).resolve().parent / "tools"
    if not tools.exists():
        pytest.skip("a copy of the tree without its tools")
    monkeypatch.syspath_prepend(str(tools))
    return importlib.import_module

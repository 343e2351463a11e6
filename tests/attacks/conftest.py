"""A library of attacks to compare with."""

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def adv_lib() -> Any:
    """It imports torchvision and visdom, neither of which its attacks use; where they are absent, stand-ins will do."""
    absent = [name for name in ("torchvision", "visdom") if importlib.util.find_spec(name) is None]
    for name in absent:
        sys.modules[name] = SimpleNamespace(models=None)  # type: ignore[assignment]
    try:
        return pytest.importorskip("adv_lib.attacks")
    finally:
        for name in absent:
            del sys.modules[name]

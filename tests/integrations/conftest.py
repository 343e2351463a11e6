"""The other libraries, as far as they are installed; `make integrations` installs all of them and skips nothing."""

import importlib
import os
import sys
import types
import warnings
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@pytest.fixture
def library() -> Callable[[str], ModuleType]:
    """Imports a library, or skips the test; where all of them must be there, a missing one fails it."""

    def find(name: str) -> ModuleType:
        _stand_in_for_missing_operators()
        if name.startswith("robustbench"):
            _stand_in_for_autoattack()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about what these libraries import from each other
                return importlib.import_module(name)
        except ImportError:
            if os.environ.get("MAXMAHAL_REQUIRE_INTEGRATIONS"):
                raise
            pytest.skip(f"{name} is not installed; `make integrations` installs it")

    return find


def _stand_in_for_missing_operators() -> None:
    """torchvision built for CUDA does not load its detection operators beside a torch without CUDA, and imports fail.

    torchmetrics imports torchvision, too, where it is installed.
    """
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", _SCHEMA)


def _stand_in_for_autoattack() -> None:
    """RobustBench imports AutoAttack for its own evaluation; its models do not need it."""
    if "autoattack" not in sys.modules:
        package, state = types.ModuleType("autoattack"), types.ModuleType("autoattack.state")
        package.AutoAttack = state.EvaluationState = object  # type: ignore[attr-defined]
        sys.modules |= {"autoattack": package, "autoattack.state": state}

import subprocess
import sys

import pytest

from maxmahal.errors import ArgumentError, MaxmahalError
from maxmahal.imports import import_function, integration, only_named

LIBRARIES = ("huggingface_hub", "lightning", "ray", "robustbench", "timm", "torchmetrics", "torchvision", "wandb")


def test_no_library_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, maxmahal, maxmahal.cli.app\n"
        "maxmahal.Classifier, maxmahal.train_model, maxmahal.evaluate_model, maxmahal.zoo\n"
        f"print([name for name in {LIBRARIES} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "extra"), [("timm", "timm"), ("torchvision", "torchvision"), ("robustbench", "RobustBench/robustbench")]
)
def test_models_of_a_missing_library_say_how_to_install_it(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with only_named(f"{name}:resnet18"), pytest.raises(ArgumentError, match=rf"{name}.*install.*{extra}"):
        import_function(f"{name}:resnet18")


@pytest.mark.parametrize("name", ["torchmetrics", "lightning", "ray"])
def test_a_file_of_a_missing_library_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, f"maxmahal.integrations.{name}", raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ArgumentError, match=r"pip install 'maxmahal\[(torchmetrics|lightning|ray)\]'"):
        integration(name)


def test_the_log_of_missing_wandb_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ArgumentError, match=r"pip install 'maxmahal\[wandb\]'"):
        integration("wandb").WandbLog("project")


@pytest.mark.parametrize(
    "name", ["timm:resnet18.a1_in1k", "torchvision:resnet18", "hub:owner/name", "robustbench:a/b/c-d"]
)
def test_a_file_may_not_name_a_model_of_a_library(name: str) -> None:
    with only_named("mine:net"), pytest.raises(MaxmahalError, match=r"may not choose what code to run.*--trust"):
        import_function(name)

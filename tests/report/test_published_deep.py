"""What is told of deep networks that were trained at other learning rates than those of Table 5."""

from made_up_summaries import run, shelf

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published.deep import rates_tried
from maxmahal.report.published.models import TABLE_5_CIFAR100
from maxmahal.settings import to_table
from maxmahal.train import load_settings


def training(name: str, preset: str, rate: str, error: float, loss: float, *, finished: bool = True) -> RunSummary:
    made = run(name, [error], settings=to_table(load_settings(preset, [f"train.lr={rate}"])), finished=finished)
    made.epochs[-1]["train_loss"] = loss
    return made


DEEP = training("cifar100-sce-resnet110-lr0.2", "cifar100-sce-resnet110", "0.2", 31.8, 0.1646)
SHALLOW = training("cifar100-sce", "cifar100-sce", "0.3", 29.8, 0.1025)


def test_another_rate_is_told_beside_the_shallow_network() -> None:
    told = rates_tried(shelf(DEEP, SHALLOW), TABLE_5_CIFAR100)
    assert "68.2 % and a training loss of 0.165 at 0.2" in told
    assert "(the shallow network 70.2 % and a training loss of 0.102 at 0.3)" in told
    assert "shallow" not in rates_tried(shelf(DEEP), TABLE_5_CIFAR100)


def test_nothing_is_told_of_the_row_itself_or_of_what_is_not_finished() -> None:
    row = training("cifar100-sce-resnet110", "cifar100-sce-resnet110", "0.1", 27.0, 0.1)
    half = training("cifar100-mmc-resnet110-lr0.1", "cifar100-mmc-resnet110", "0.1", 35.0, 10.0, finished=False)
    assert rates_tried(shelf(row, half, SHALLOW), TABLE_5_CIFAR100) == ""

"""Models of RobustBench by data set, threat and name, such as ``robustbench:cifar10/Linf/Carmon2019Unlabeled``.

RobustBench downloads their weights into the folder ``models`` of the current folder, and looks for them there. The
opposite direction, RobustBench's JSON from records, is ``maxmahal.records.export.robustbench_card``.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from maxmahal.errors import ArgumentError, did_you_mean
from maxmahal.imports import optional


def find_model(name: str) -> Callable[[], nn.Module]:
    """What loads the model."""
    utils = optional("robustbench.utils", "its README says how (github.com/RobustBench/robustbench)")
    zoo = {
        f"{data.value}/{threat.value}": models
        for data, threats in utils.all_models.items()
        for threat, models in threats.items()
    }
    kind, _, model = name.rpartition("/")
    if kind not in zoo:
        raise ArgumentError(f"robustbench:{name} is not robustbench:DATA/THREAT/NAME; {did_you_mean(kind, zoo)}")
    if model not in zoo[kind]:
        raise ArgumentError(f"RobustBench has no model '{model}' of {kind}; {did_you_mean(model, zoo[kind])}")
    data, threat = kind.split("/")
    return partial(utils.load_model, model_name=model, dataset=data, threat_model=threat)

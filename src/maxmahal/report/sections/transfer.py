"""Transfer attacks: adversarial images of one model, classified by another (paper Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.statistics import Rate
from maxmahal.records.types import StageRecords
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models

TransferCell = tuple[ReportedModel, StageRecords | None, Rate | None]
"""A target, and its stage and accuracy on the images of one substitute; None if it was not tested on them."""


@dataclass(frozen=True)
class TransferMatrix:
    """One attack, crafted on every model."""

    title: str
    targets: tuple[ReportedModel, ...]
    rows: tuple[tuple[str, tuple[TransferCell, ...]], ...]
    """A substitute's name, and each target's accuracy on its images."""


def transfer_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if there is no transfer stage."""
    matrices = [matrix for group in group_models(models) for matrix in transfer_matrices(group)]
    return {"matrices": matrices} if matrices else {}


def transfer_matrices(group: ModelGroup) -> list[TransferMatrix]:
    """One for each way of crafting."""
    found: dict[str, dict[tuple[str, str], StageRecords]] = {}
    for model in group.models:
        for stage in model.evaluation.stages:
            if stage.kind == "transfer" and len(stage.columns):
                source = str(stage.settings.get("source", ""))
                # Without the substitute: those that were attacked in the same way share a matrix.
                crafting = stage.title.removesuffix(f" crafted on {source}").replace(source, "…")
                found.setdefault(crafting, {})[source, model.label] = stage
    return [_matrix(group, crafting, stages) for crafting, stages in found.items()]


def _matrix(group: ModelGroup, crafting: str, stages: dict[tuple[str, str], StageRecords]) -> TransferMatrix:
    targets = tuple(each for each in group.models if any(target == each.label for _, target in stages))
    sources = list(dict.fromkeys([each.evaluation.name for each in targets] + [source for source, _ in stages]))
    sources = [source for source in sources if any(source == known for known, _ in stages)]
    rows = []
    for source in sources:
        found = [(target, stages.get((source, target.label))) for target in targets]
        rates = [None if stage is None else stage.columns.right_share for _, stage in found]
        cells = [None if shares is None else Rate(float(shares.sum()), len(shares)) for shares in rates]
        rows.append((source, tuple((*pair, rate) for pair, rate in zip(found, cells, strict=True))))
    return TransferMatrix(f"{crafting}: {group.title}", targets, tuple(rows))

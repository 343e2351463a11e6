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
    matrices = []
    for crafting, stages in found.items():
        targets = tuple(each for each in group.models if any(target == each.label for _, target in stages))
        sources = dict.fromkeys([each.evaluation.name for each in targets] + [source for source, _ in stages])
        rows = []
        for source in (source for source in sources if any(source == known for known, _ in stages)):
            cells = [(target, stages.get((source, target.label))) for target in targets]
            rows.append((source, tuple((target, stage, _rate(stage)) for target, stage in cells)))
        matrices.append(TransferMatrix(f"{crafting}: {group.title}", targets, tuple(rows)))
    return matrices


def _rate(stage: StageRecords | None) -> Rate | None:
    return None if stage is None else Rate(float(stage.columns.right_share.sum()), len(stage.columns))

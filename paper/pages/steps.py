"""Training steps that a benchmark timed in pairs, one of MMC and one of SCE."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepPairs:
    """Pairs of one training step of MMC and one of SCE: the median of MMC's time over SCE's, and its quartiles."""

    batch: int
    pairs: int
    mmc_over_sce: float
    low: float
    high: float


@dataclass(frozen=True)
class Steps:
    """Training steps of ResNet-32 with MMC and with SCE that a benchmark timed in turn in one process."""

    device: str
    command: str
    rows: tuple[StepPairs, ...]

    def at(self, batch: int) -> StepPairs:
        """The pairs of that batch; those of the largest where it was not timed."""
        return max(self.rows, key=lambda row: (row.batch == batch, row.batch))

"""AT (MMC-10) minus AT (SCE) at both budgets, pair by pair, with the interval that the pairs of a budget allow."""

import math
from dataclasses import dataclass

from maxmahal.report.wording import listed
from paper.pages.compare import SUITE, of_images
from paper.pages.forest import Group, Row, forest
from paper.pages.models import LONG, SHORT
from paper.pages.paired import ENOUGH, Difference
from paper.pages.results import Published
from paper.pages.tables import planned_epochs
from paper.pages.training import is_finished
from paper.summaries import Summary, pair_up

_TITLE = "AT (MMC-10) minus AT (SCE): robust accuracy under AutoAttack"
_BY_IMAGES = "95 % interval from the paired sampling of images alone"
_BY_SEEDS = "95 % t interval over the training seeds"


@dataclass(frozen=True)
class _Pair:
    """Two models of one budget and one training seed on the same images."""

    mmc: Summary
    sce: Summary

    @property
    def interval(self) -> tuple[float, float]:
        return of_images(pair_up(self.mmc, self.sce)).interval()

    @property
    def points(self) -> float:
        return 100 * (self.mmc.robust.value - self.sce.robust.value)

    @property
    def seed(self) -> int:
        return int(self.mmc.model.get("settings", {}).get("train", {}).get("seed", 0))


def budgets(results: Published) -> str:
    """Last checkpoints, a dot a pair of training seeds; empty without a pair."""
    found = {word: _pairs(results, bases) for word, bases in (("Long", LONG), ("Short", SHORT))}
    found = {word: pairs for word, pairs in found.items() if pairs}
    if not found:
        return ""
    groups = [Group(_heading(word, pairs), _rows(pairs)) for word, pairs in found.items()]
    said = {word: _BY_SEEDS if len(pairs) >= ENOUGH else _BY_IMAGES for word, pairs in found.items()}
    note = ". ".join(f"{word}: {which}" for word, which in said.items())
    balls = listed(sorted({f"{pair.mmc.norm} {pair.mmc.epsilon}" for pairs in found.values() for pair in pairs}))
    columns = ("points", "MMC / SCE, %")
    return forest(_TITLE, "MMC-10 minus SCE in points", columns, groups, f"{note}. At {balls}, last checkpoints.")


def _pairs(results: Published, bases: tuple[str, str]) -> list[_Pair]:
    """Models that differ in their loss alone, by training seed; those still in training are left out."""
    sce, mmc = bases
    found = []
    for name in results.seeds(mmc):
        names = (name, f"{sce}{name.removeprefix(mmc)}")
        runs = [run for each in names if (run := results.run(each)) is not None]
        pair = results.pair(*names, SUITE)
        if pair is not None and all(map(is_finished, runs)):
            found.append(_Pair(*pair))
    return sorted(found, key=lambda pair: pair.seed)


def _heading(word: str, pairs: list[_Pair]) -> str:
    epochs = listed([str(each) for each in dict.fromkeys(planned_epochs(pair.mmc) for pair in pairs)])
    images = dict.fromkeys(f"{'first' if pair.mmc.limited else 'all'} {pair.mmc.samples:,}" for pair in pairs)
    seeds = "one training seed" if len(pairs) == 1 else f"{len(pairs)} training seeds"
    return f"{word}: {epochs} epochs, {seeds}, {listed(list(images))} images"


def _rows(pairs: list[_Pair]) -> tuple[Row, ...]:
    """Few pairs with intervals of their own; of enough of them, the mean with that over seeds."""
    few = len(pairs) < ENOUGH
    rows = [
        Row(
            f"seed {pair.seed}",
            pair.points,
            _values([pair.mmc], [pair.sce]),
            pair.interval if few else None,
        )
        for pair in pairs
    ]
    if few:
        return tuple(rows)
    spread = Difference(tuple(pair.points for pair in pairs))
    values = _values([pair.mmc for pair in pairs], [pair.sce for pair in pairs])
    return (*rows, Row("mean", spread.mean, values, spread.interval, is_mean=True))


def _values(mmc: list[Summary], sce: list[Summary]) -> str:
    means = [100 * math.fsum(each.robust.value for each in side) / len(side) for side in (mmc, sce)]
    return " / ".join(f"{mean:.2f}" for mean in means)

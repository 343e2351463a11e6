"""Hierarchical centers on CIFAR-100: the arms of the grids trees-*, and which is compared with which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxmahal.data import CIFAR100_SUPERCLASSES
from paper.pages.paired import ENOUGH
from paper.pages.study import Arm, Contrast, Metric, Prediction, Results, Study, against

MMC, AT_MMC = "trees-mmc", "trees-at-mmc"
SMALL = 0.2
"""The paper means C2 ≪ C1 (appendix B.3) and gives no number: ratios up to this one count as such."""
RATIOS = ("0.05", "0.1", "0.2", "0.5", "1", "1.4")
PLAIN_METRICS: tuple[Metric, ...] = ("clean", "superclass", "near", "worst", "early")
STRICT_METRICS: tuple[Metric, ...] = ("clean", "superclass", "near", "worst", "worst-superclass", "worst-near")
BETWEEN: tuple[Metric, ...] = ("clean", "superclass", "near", "worst")
NAMES: dict[Metric, str] = {
    "clean": "clean",
    "superclass": "superclass",
    "near": "errors within",
    "worst": "worst case",
    "early": "first epochs",
    "worst-superclass": "superclass, attacked",
    "worst-near": "errors within, attacked",
}
"""Of the measures, in every table and figure of the page."""


@dataclass(frozen=True)
class Family:
    """Arms that differ in one number, of which validation chooses one."""

    name: str
    title: str
    tick: str
    values: tuple[str, ...] = RATIOS
    symbol: str = "ratio"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """One for each value."""
        return tuple(
            Arm(f"{self.name}-{each}", f"{self.title}, {self.symbol} {float(each):g}", f"{self.tick} {float(each):g}")
            for each in self.values
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of its arms."""
        return tuple(arm.name for arm in self.arms)


EMC = Family("trees-emc", "EMC", "EMC", ("0.1", "1.0"), "α")
ORTHOGONAL = Family("trees-orthogonal", "orthogonal subspaces", "orth.")
SHARED = Family("trees-shared", "shared coordinates", "shared")
ROTATED = Family("trees-rotated", "shared and rotated", "rotated")
LEARNED = Family("trees-learned", "learned tree", "learned", RATIOS[2:])
RANDOM = Family("trees-random", "random tree", "random", RATIOS[2:])
AT_ORTHOGONAL = Family("trees-at-orthogonal", "AT, orthogonal subspaces", "AT orth.", ("0.5", "1"))
GIVEN = (ORTHOGONAL, SHARED, ROTATED)
"""Those that follow the data set's own tree."""
GIVEN_NAMES = tuple(name for family in GIVEN for name in family.names)
PLAIN = (EMC, *GIVEN, LEARNED, RANDOM)

_MMC_ARM = Arm(MMC, "MMC-10", "MMC")
TREES = Study(
    "trees",
    "Without adversarial training",
    (_MMC_ARM, *(arm for family in PLAIN for arm in family.arms)),
    suite="trees",
    epsilon="1/255",
    superclasses=CIFAR100_SUPERCLASSES,
)
NEAR = replace(TREES, name="trees-near", title="The worst case at 1/255, checked", suite="strict")
STRICT = replace(
    NEAR,
    name="trees-strict",
    title="The worst case at 8/255, with and without adversarial training (AT)",
    arms=(_MMC_ARM, *ORTHOGONAL.arms, Arm(AT_MMC, "AT, MMC-10", "AT MMC"), *AT_ORTHOGONAL.arms),
    epsilon="8/255",
)
TREE_STUDIES = (TREES, NEAR, STRICT)


def ratio_of(arm: str) -> str:
    """C2/C1 from an arm's name."""
    return arm.rpartition("-")[2]


def form_of(centers: Mapping[str, Any]) -> tuple[Family, float | None]:
    """Which form hierarchical centers on the data set's own tree have, and C2/C1, from their settings."""
    norms = centers.get("norms", [])
    ratio = norms[1] / norms[0] if len(norms) == 2 and norms[0] else None
    if centers.get("subspaces") == "orthogonal":
        return ORTHOGONAL, ratio
    return ROTATED if centers.get("rotation_seed", -1) >= 0 else SHARED, ratio


def seeded(results: Results, names: Sequence[str]) -> tuple[str, ...]:
    """The arms that were run with enough seeds for a verdict."""
    return tuple(name for name in names if len(results.of(name, "clean")) >= ENOUGH)


def with_contrasts(results: Results) -> Results:
    """The study with the comparisons that its runs allow: the scan decides which arms get several seeds."""
    made = {TREES.name: _plain, NEAR.name: _near, STRICT.name: _strict}
    return replace(results, study=made[results.study.name](results))


def _plain(results: Results) -> Study:
    given, emc, learned, random = (
        seeded(results, names) for names in (GIVEN_NAMES, EMC.names, LEARNED.names, RANDOM.names)
    )
    orthogonal = seeded(results, ORTHOGONAL.names)
    contrasts = [
        *against(MMC, (*emc, *given, *learned, *random), *PLAIN_METRICS),
        *(each for reference in emc for each in against(reference, (*given, *learned), *BETWEEN)),
        *(each for reference in random for each in against(reference, orthogonal, *BETWEEN)),
        *(each for reference in orthogonal for each in against(reference, learned, *BETWEEN)),
    ]
    predictions = (Prediction(against(MMC, given, "clean"), "helps"),) if given else ()
    return replace(results.study, contrasts=tuple(contrasts), predictions=predictions)


def _near(results: Results) -> Study:
    arms = [arm.name for arm in results.study.arms if arm.name != MMC]
    return replace(results.study, contrasts=against(MMC, seeded(results, arms), "worst"))


def _strict(results: Results) -> Study:
    contrasts: list[Contrast] = []
    for reference, family in ((MMC, ORTHOGONAL), (AT_MMC, AT_ORTHOGONAL)):
        contrasts += against(reference, seeded(results, family.names), *STRICT_METRICS)
    return replace(results.study, contrasts=tuple(contrasts))

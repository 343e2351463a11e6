"""Hierarchical centers on CIFAR-100: the arms of the grids trees-*, and which is set against which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxmahal.data import CIFAR100_SUPERCLASSES
from paper.pages.paired import ENOUGH, ENOUGH_SEEDS
from paper.pages.variants.results import Results
from paper.pages.variants.spec import Arm, Contrast, Metric, Prediction, Study, against

MMC, AT_MMC = "trees-mmc", "trees-at-mmc"
SMALL = 0.2
"""The paper has C2 ≪ C1 (appendix B.3) and no number: ratios up to this one are taken for that."""
RATIOS = ("0.05", "0.1", "0.2", "0.5", "1", "1.4")
_FEW = ("0.2", "0.5", "1", "1.4")
PLAIN_METRICS: tuple[Metric, ...] = ("clean", "superclass", "near", "worst", "early")
STRICT_METRICS: tuple[Metric, ...] = ("clean", "superclass", "near", "worst", "worst-superclass", "worst-near")
BETWEEN: tuple[Metric, ...] = ("clean", "superclass", "near", "worst")
NAMES: dict[Metric, str] = {
    "clean": "clean",
    "superclass": "superclass",
    "near": "mistakes within",
    "worst": "worst case",
    "early": "first epochs",
    "worst-superclass": "superclass, attacked",
    "worst-near": "mistakes within, attacked",
}
"""Of the measures, in every table and figure of the page."""


@dataclass(frozen=True)
class Family:
    """Arms that differ in one number, of which validation chooses one."""

    name: str
    title: str
    tick: str
    values: tuple[str, ...]
    symbol: str = "ratio"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """One a value."""
        return tuple(
            Arm(f"{self.name}-{each}", f"{self.title}, {self.symbol} {float(each):g}", f"{self.tick} {float(each):g}")
            for each in self.values
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of its arms."""
        return tuple(arm.name for arm in self.arms)


EMC = Family("trees-emc", "EMC", "EMC", ("0.1", "1.0"), "α")
ORTHOGONAL = Family("trees-orthogonal", "orthogonal subspaces", "orth.", RATIOS)
SHARED = Family("trees-shared", "shared coordinates", "shared", RATIOS)
ROTATED = Family("trees-rotated", "shared and rotated", "rotated", RATIOS)
LEARNED = Family("trees-learned", "learned tree", "learned", _FEW)
RANDOM = Family("trees-random", "random tree", "random", _FEW)
AT_ORTHOGONAL = Family("trees-at-orthogonal", "AT, orthogonal subspaces", "AT orth.", ("0.5", "1"))
GIVEN = (ORTHOGONAL, SHARED, ROTATED)
"""Those that follow the data set's own tree."""
GIVEN_NAMES = tuple(name for family in GIVEN for name in family.names)
PLAIN = (EMC, *GIVEN, LEARNED, RANDOM)

TREES = Study(
    "trees",
    "Without adversarial training",
    "Which centers, and at which ratio C2/C1?",
    (Arm(MMC, "MMC-10", "MMC"), *(arm for family in PLAIN for arm in family.arms)),
    (),
    suite="trees",
    epsilon="1/255",
    superclasses=CIFAR100_SUPERCLASSES,
)
NEAR = Study(
    "trees-near",
    "The worst case at 1/255, checked",
    "What does the careful suite leave where the short one has not converged?",
    TREES.arms,
    (),
    suite="strict",
    epsilon="1/255",
    superclasses=CIFAR100_SUPERCLASSES,
)
STRICT = Study(
    "trees-strict",
    "The worst case at the paper's ball, with and without adversarial training (AT)",
    "Do hierarchical centers leave a more robust model, or one whose mistakes under attack are milder?",
    (
        Arm(MMC, "MMC-10", "MMC"),
        *ORTHOGONAL.arms,
        Arm(AT_MMC, "AT, MMC-10", "AT MMC"),
        *AT_ORTHOGONAL.arms,
    ),
    (),
    suite="strict",
    epsilon="8/255",
    superclasses=CIFAR100_SUPERCLASSES,
)
TREE_STUDIES = (TREES, NEAR, STRICT)


def ratio_of(arm: str) -> str:
    """C2/C1 as it stands in an arm's name."""
    return arm.rpartition("-")[2]


def form_of(centers: Mapping[str, Any]) -> tuple[Family, float | None]:
    """Of hierarchical centers on the data set's own tree, by their settings: which of the forms, and C2/C1."""
    norms = centers.get("norms", [])
    ratio = norms[1] / norms[0] if len(norms) == 2 and norms[0] else None
    if centers.get("subspaces") == "orthogonal":
        return ORTHOGONAL, ratio
    return ROTATED if centers.get("rotation_seed", -1) >= 0 else SHARED, ratio


def seeded(results: Results, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the arms that were run with seeds enough for a verdict."""
    return tuple(name for name in names if len(results.of(name, "clean")) >= ENOUGH)


def with_contrasts(results: Results) -> Results:
    """The study with the comparisons that its runs allow: which arms got several seeds is decided after the scan."""
    made = {TREES.name: _plain, NEAR.name: _near, STRICT.name: _strict}
    return replace(results, study=made[results.study.name](results))


def _plain(results: Results) -> Study:
    given = seeded(results, GIVEN_NAMES)
    learned, random = seeded(results, LEARNED.names), seeded(results, RANDOM.names)
    orthogonal, emc = seeded(results, ORTHOGONAL.names), seeded(results, EMC.names)
    contrasts = [
        *against(MMC, (*emc, *given, *learned, *random), *PLAIN_METRICS),
        *(each for reference in emc for each in against(reference, (*given, *learned), *BETWEEN)),
        *(each for reference in random for each in against(reference, orthogonal, *BETWEEN)),
        *(each for reference in orthogonal for each in against(reference, learned, *BETWEEN)),
    ]
    ratios = ", ".join(sorted({ratio_of(arm) for arm in given}))
    predictions = (
        Prediction(
            "the classes of CIFAR-100 have a structure, and centers that follow it suit them better than independent "
            f"ones. Judged at the ratios that have {ENOUGH_SEEDS} ({ratios})",
            "appendix B.3",
            against(MMC, given, "clean"),
            "helps",
        ),
    )
    return replace(results.study, contrasts=tuple(contrasts), predictions=predictions if given else ())


def _near(results: Results) -> Study:
    arms = [arm.name for arm in results.study.arms if arm.name != MMC]
    return replace(results.study, contrasts=against(MMC, seeded(results, arms), "worst"))


def _strict(results: Results) -> Study:
    pairs = ((MMC, ORTHOGONAL), (AT_MMC, AT_ORTHOGONAL))
    contrasts: list[Contrast] = []
    for reference, family in pairs:
        contrasts += against(reference, seeded(results, family.names), *STRICT_METRICS)
    return replace(results.study, contrasts=tuple(contrasts))

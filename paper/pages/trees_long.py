"""Hierarchical centers (HM) and MMC trained long, one seed each, on the same images."""

from dataclasses import dataclass
from pathlib import Path

from paper.pages.models import HM, HM_BASE
from paper.pages.trees_scan import Apart, attacked_alike, paired_apart
from paper.pages.trees_study import STRICT, form_of
from paper.summaries import Summary, pair_clean, pair_near, pair_stage, read_summary

_STAGES = {"pgd10-tar-8": "targeted", "pgd10-un-8": "untargeted"}
Pair = tuple[Summary, Summary]


@dataclass(frozen=True)
class Long:
    """Evaluations of HM and of MMC that can be paired, the most images first."""

    pairs: tuple[Pair, ...] = ()
    seeds: int = 0
    """Trainings of HM that were evaluated; the first one is compared."""

    @property
    def epochs(self) -> int | None:
        """How long both were trained; None if they were trained for different times."""
        found = {each.model.get("settings", {}).get("train", {}).get("epochs") for pair in self.pairs for each in pair}
        return found.pop() if len(found) == 1 else None

    @property
    def form(self) -> str:
        """Of the hierarchical centers: subspaces and ratio."""
        settings = self.pairs[0][0].model.get("settings", {}) if self.pairs else {}
        family, ratio = form_of(settings.get("centers", {}))
        return "" if ratio is None else f"{family.title}, {family.symbol} {ratio:.3g}"

    @property
    def clean(self) -> Apart | None:
        """HM − MMC in clean accuracy."""
        return next((paired_apart(pair_clean(*pair)) for pair in self.pairs), None)

    @property
    def superclass(self) -> Apart | None:
        """HM − MMC in superclass accuracy."""
        found = (pair_near(*pair) for pair in self.pairs)
        return next((paired_apart(each) for each in found if each is not None), None)

    @property
    def within(self) -> tuple[float, float] | None:
        """The percentage of errors within the superclass, of each."""
        found = ((_within(ours), _within(theirs)) for ours, theirs in self.pairs)
        return next(((ours, theirs) for ours, theirs in found if ours is not None and theirs is not None), None)

    @property
    def attacked(self) -> dict[str, Apart]:
        """HM − MMC in images that are correct before and after the paper's PGD-10, by its kind."""
        found = {kind: [pair_stage(*pair, stage) for pair in self.pairs] for stage, kind in _STAGES.items()}
        first = {kind: next(filter(None, each), None) for kind, each in found.items()}
        return {kind: paired_apart(pair) for kind, pair in first.items() if pair is not None}

    @property
    def worst(self) -> Pair | None:
        """Both under the suite `strict` at the paper's epsilon."""
        wanted = (STRICT.suite, STRICT.epsilon)
        return next((pair for pair in self.pairs if (pair[0].suite, pair[0].epsilon) == wanted), None)


def read_long(results: Path) -> Long:
    """From the folder of results."""
    ours, theirs = (_read(results, f"{model}--*.json") for model in (HM, HM_BASE))
    more = {each.name for each in _read(results, f"{HM}-seed*--*.json")}
    return pair_up_long(ours, theirs, len(more) + bool(ours))


def pair_up_long(ours: list[Summary], theirs: list[Summary], seeds: int = 1) -> Long:
    """Every two evaluations of the same images under the same attacks."""
    pairs = [(first, second) for first in ours for second in theirs if attacked_alike(first, second)]
    return Long(tuple(sorted(pairs, key=lambda pair: -pair[0].samples)), seeds)


def _read(results: Path, files: str) -> list[Summary]:
    return [read_summary(path) for path in sorted((results / "evaluations").glob(files))]


def _within(summary: Summary) -> float | None:
    wrong = ~summary.right
    return None if summary.near is None or not wrong.any() else 100 * float(summary.near[wrong].mean())

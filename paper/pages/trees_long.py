"""The pair that was trained long: hierarchical centers and MMC on the same images, from the published summaries."""

from dataclasses import dataclass
from pathlib import Path

from maxmahal.report.wording import counted
from paper.pages.hm_pair import BASE, HM, CleanGap, hm_less_mmc
from paper.pages.leads import Gap, of_images
from paper.pages.reading import EVALUATIONS, RUNS
from paper.pages.shelf import PROTOCOL, Shelf, widest_pair
from paper.pages.trees_study import STRICT, form_of
from paper.summaries import RunSummary, Summary, pair_near, pair_stage, read_run, read_summary

_STAGES = {"pgd10-tar-8": "targeted", "pgd10-un-8": "untargeted"}


@dataclass(frozen=True)
class Long:
    """Summaries of both, of every suite and seed; the first seed's are compared."""

    ours: tuple[Summary, ...] = ()
    theirs: tuple[Summary, ...] = ()
    runs: tuple[RunSummary, ...] = ()
    """The first seed's trainings."""

    @property
    def epochs(self) -> int | None:
        """How long both were trained; None where they were trained differently, or are not there."""
        found = {each.model.get("settings", {}).get("train", {}).get("epochs") for each in (*self.ours, *self.theirs)}
        return found.pop() if len(found) == 1 else None

    @property
    def form(self) -> str:
        """Of the hierarchical centers: subspaces and ratio; empty where the settings do not tell."""
        family, ratio = form_of(self._shelf.settings(HM).get("centers", {}))
        return "" if ratio is None else f"{family.title}, {family.symbol} {ratio:.3g}"

    @property
    def seeds(self) -> tuple[int, int]:
        """How many trainings there are of each."""
        return len({each.name for each in self.ours}), len({each.name for each in self.theirs})

    @property
    def told(self) -> str:
        """How many trainings of each there are, of which one is compared."""
        if max(self.seeds) <= 1:
            return "one seed each"
        ours, theirs = (counted("seed", count) for count in self.seeds)
        return f"the first of {ours} each" if ours == theirs else f"the first of {ours} and of {theirs}"

    @property
    def clean(self) -> CleanGap | None:
        """How far hierarchical centers are ahead on clean images."""
        return hm_less_mmc(self._shelf)

    @property
    def superclass(self) -> Gap | None:
        """How far they are by the superclass of the answer."""
        found = [each for pair in self._pairs if (each := pair_near(*pair)) is not None]
        return of_images(max(found, key=lambda each: each.total)) if found else None

    @property
    def within(self) -> tuple[float, float] | None:
        """Of the mistakes of each, how many percent stay within the superclass."""
        known = [pair for pair in self._pairs if all(each.near is not None for each in pair)]
        if not known:
            return None
        ours, theirs = max(known, key=lambda pair: pair[0].samples)
        return _within(ours), _within(theirs)

    @property
    def attacked(self) -> dict[str, Gap]:
        """The same under PGD-10 as the paper has it, of images right before it and after; by the attack's kind."""
        alike = [pair for suite in PROTOCOL if (pair := self._attacked_alike(suite)) is not None]
        pairs = {stage: [found for pair in alike if (found := pair_stage(*pair, stage))] for stage in _STAGES}
        return {_STAGES[stage]: of_images(each[0]) for stage, each in pairs.items() if each}

    @property
    def worst(self) -> tuple[Summary, Summary] | None:
        """Both under the careful suite in the paper's ball."""
        return self._attacked_alike(STRICT.suite, STRICT.epsilon)

    @property
    def nothing_left(self) -> str:
        """That neither has an image left in the paper's ball; empty where one has, or nobody looked."""
        if self.worst is None or any(each.robust.count for each in self.worst):
            return ""
        ours, theirs = self.worst
        return (
            f"`{STRICT.suite}` at {STRICT.epsilon} leaves 0 of {ours.robust.total:,} images of `{ours.name}` and of "
            f"`{theirs.name}`"
        )

    @property
    def _shelf(self) -> Shelf:
        return Shelf((*self.ours, *self.theirs), self.runs)

    def _attacked_alike(self, suite: str, epsilon: str | None = None) -> tuple[Summary, Summary] | None:
        """Both of the first seed under one version of a suite on the same images, as many as both have seen."""
        first = [
            [x for x in each if x.name == name and x.suite == suite and epsilon in (None, x.epsilon)]
            for name, each in ((HM, self.ours), (BASE, self.theirs))
        ]
        return widest_pair(*first)

    @property
    def _pairs(self) -> list[tuple[Summary, Summary]]:
        return [
            (ours, theirs)
            for ours in self.ours
            for theirs in self.theirs
            if (ours.name, theirs.name) == (HM, BASE)
            and ours.data_fingerprint == theirs.data_fingerprint
            and len(ours.right) == len(theirs.right)
        ]


def read_long(results: Path) -> Long:
    """From the folder of results; what is not there is not told."""
    runs = (results / RUNS / f"{model}.json" for model in (HM, BASE))
    return Long(_of(results, HM), _of(results, BASE), tuple(read_run(path) for path in runs if path.exists()))


def _within(summary: Summary) -> float:
    assert summary.near is not None, "only asked where it is known"
    wrong = ~summary.right
    return 100 * float(summary.near[wrong].mean()) if wrong.any() else float("nan")


def _of(results: Path, model: str) -> tuple[Summary, ...]:
    files = (path for ending in ("--", "-seed*--") for path in (results / EVALUATIONS).glob(f"{model}{ending}*.json"))
    return tuple(read_summary(path) for path in sorted(files))

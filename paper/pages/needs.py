"""Everything that a rule asks for: a verdict from a part of it is never "holds", and says what is missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from paper.pages.judging import Judgement, Verdict, beside, ours_at
from paper.pages.models import TITLES, title_of
from paper.pages.shelf import Shelf


@dataclass(frozen=True)
class Needs:
    """What has to be measured before a claim can hold."""

    stages: tuple[tuple[str, str], ...] = ()
    """Models, each with a stage of the paper's protocol."""
    suites: tuple[tuple[str, str], ...] = ()
    """Models, each with a suite whose worst case is asked for."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Models to be compared at worst: on the same images, unless nothing is left of either."""

    def missing(self, shelf: Shelf) -> list[str]:
        """A few words for each model with a gap, then for each pair."""
        gaps = [(model, TITLES[stage]) for model, stage in self.stages if ours_at(shelf, model, stage) is None]
        gaps += [(model, suite) for model, suite in self.suites if shelf.robust(model, suite) is None]
        asked = Counter(model for model, _ in (*self.stages, *self.suites))
        found = []
        for model in dict.fromkeys(model for model, _ in gaps):
            what = [words for name, words in gaps if name == model]
            whole = len(what) == asked[model] > 1
            found.append(f"{title_of(shelf, model)} ({'every column' if whole else ', '.join(what)})")
        for pair in self.pairs:
            if beside(shelf, *pair) is None:
                first, second = (title_of(shelf, model) for model in pair)
                found.append(f"{first} beside {second} at worst")
        return found


def grid(models: Sequence[str], stages: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Every model with every stage."""
    return tuple(product(models, stages))


def settle(verdict: Verdict, reason: str, shown: str, missing: Sequence[str]) -> Judgement:
    """The judgement, at best "in part" where something is missing."""
    if not missing:
        return Judgement(verdict, reason, shown)
    told = f"{reason} Not measured: {'; '.join(missing)}."
    return Judgement("holds in part" if verdict == "holds" else verdict, told, shown)

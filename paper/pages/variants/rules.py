"""From the numbers of a study to its sentences: effect, verdict, what became of a prediction, what is open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxmahal.report.wording import listed
from paper.pages.judging import ALPHA, POINT
from paper.pages.paired import EQUAL, Difference, Verdict, paired, survives_correction
from paper.pages.variants.results import EARLY, Results
from paper.pages.variants.spec import METRICS, Contrast, Expected, Prediction, Study

Outcome = Literal["came true", "came true in part", "did not come true", "undecided", "not run"]
Standing = Verdict | Literal["may be chance"]
Kept = frozenset[tuple[str, Contrast]]
"""Comparisons that outlast their number, each named by its study and contrast."""
ALONE = "†"
"""Marks a difference that does not outlast the number of comparisons."""


@dataclass(frozen=True)
class Judged:
    """One comparison with its verdict."""

    contrast: Contrast
    difference: Difference

    @property
    def verdict(self) -> Verdict:
        """Of the arm: whether it helps or hurts beside its reference."""
        return self.difference.verdict()


def judge(results: Results, contrast: Contrast) -> Judged:
    """One arm against another over the seeds that both have."""
    ours, theirs = (results.of(arm, contrast.metric) for arm in (contrast.arm, contrast.reference))
    return Judged(contrast, paired(ours, theirs))


def comparisons(study: Study) -> list[Contrast]:
    """All that its paragraph prints: some predictions speak of measures that nothing else is compared in."""
    return list(dict.fromkeys([*study.contrasts, *(each for one in study.predictions for each in one.contrasts)]))


def mark(results: Results, judged: Judged, kept: Kept) -> str:
    """A dagger where there is a difference and it stands alone."""
    seen = judged.verdict in ("helps", "hurts")
    return ALONE if seen and (results.study.name, judged.contrast) not in kept else ""


def standing(results: Results, judged: Judged, kept: Kept) -> Standing:
    """The verdict as one of many."""
    return "may be chance" if mark(results, judged, kept) else judged.verdict


def is_run(results: Results) -> bool:
    """Whether any comparison can be made; a reference alone, which other studies share, is none."""
    return any(judge(results, contrast).verdict != "not run" for contrast in results.study.contrasts)


def outcome(results: Results, prediction: Prediction, kept: Kept) -> Outcome:
    """Whether a prediction came true, over all comparisons that it speaks of."""
    judged = [judge(results, contrast) for contrast in prediction.contrasts]
    seen = {_meets(standing(results, each, kept), each.difference, prediction.expected) for each in judged}
    if "not run" in seen:
        return "not run"
    if len(seen) == 1:
        return seen.pop()
    return "came true in part" if "came true" in seen else "did not come true"


def _meets(verdict: Standing, difference: Difference, expected: Expected) -> Outcome:
    low, high = difference.interval
    if verdict == "not run":
        return "not run"
    unseen = verdict in ("no difference seen", "may be chance")
    if expected == "equal":
        if not unseen:
            return "did not come true"
        return "came true" if low > -EQUAL and high < EQUAL else "undecided"
    if expected == "does not help":
        if verdict == "helps":
            return "did not come true"
        return "came true" if verdict == "hurts" or high < EQUAL else "undecided"
    if unseen:
        # Too wide to tell is one thing; so narrow that the predicted effect would have been seen is another.
        return "did not come true" if low > -EQUAL and high < EQUAL else "undecided"
    return "came true" if verdict == expected else "did not come true"


def effect(difference: Difference, marked: str = "") -> str:
    """ "+1.2 points [−0.3, 2.7], n = 3"; a mark goes to the mean."""
    if difference.n < 2:
        return "not run"
    mean, ends = between(difference).split(" ", 1)
    return f"{mean}{marked} points {ends}, n = {difference.n}"


def between(difference: Difference) -> str:
    """ "+1.2 [−0.3, +2.7]"."""
    low, high = difference.interval
    return f"{signed(difference.mean)} [{signed(low)}, {signed(high)}]"


def sentences(results: Results, kept: Kept) -> list[str]:
    """The study in words: what helps, what hurts, the rest, the predictions, and what would change all that."""
    judged = [judge(results, contrast) for contrast in results.study.contrasts]
    lasts = [each for each in judged if not mark(results, each, kept)]
    groups: tuple[Standing, ...] = ("helps", "hurts", "may be chance", "no difference seen", "not run")
    told = [_group(results, judged, each, kept) for each in groups]
    return [sentence for sentence in (*told, *predicted(results, kept), change(results, lasts)) if sentence]


def change(results: Results, judged: list[Judged]) -> str:
    """What would change the verdicts: the closest call among those that were seen, and the seeds that others lack."""
    seen = [each for each in judged if each.verdict in ("helps", "hurts")]
    unseen = [each for each in judged if each.verdict == "no difference seen"]
    told = []
    if seen:
        near = min(seen, key=lambda each: min(abs(end) for end in each.difference.interval))
        gap = min(abs(end) for end in near.difference.interval)
        told.append(
            f"the closest call among the differences seen is {_pair(results, near.contrast)}, whose interval ends "
            f"{gap:.1f} points from zero"
        )
    if unseen:
        widest = max(unseen, key=lambda each: each.difference.half_width)
        told.append(
            f"the widest interval without a difference is ±{widest.difference.half_width:.1f} points "
            f"({_pair(results, widest.contrast)}), and about {widest.difference.seeds_for(POINT)} seeds would narrow "
            f"it to ±{POINT:g}"
        )
    told.append("another data set, network or schedule may well say otherwise")
    return f"*What would change this:* {'; '.join(told)}." if seen or unseen else ""


def _group(results: Results, judged: list[Judged], verdict: Standing, kept: Kept) -> str:
    """All comparisons of one verdict in a sentence; those without a difference are counted, their effects tabled."""
    chosen = [each for each in judged if standing(results, each, kept) == verdict]
    if not chosen:
        return ""
    if verdict in ("helps", "hurts", "may be chance"):
        return f"**{verdict.capitalize()}:** {'; '.join(_told(results, each, kept) for each in chosen)}."
    largest = max(chosen, key=lambda each: abs(each.difference.mean) if each.difference.n else 0.0)
    more = f"; the largest is {_told(results, largest, kept)}" if verdict == "no difference seen" else ""
    return f"**{verdict.capitalize()}** in {len(chosen)} of {len(judged)} comparisons{more}."


def predicted(results: Results, kept: Kept) -> list[str]:
    """What became of each prediction, or why there is none."""
    study = results.study
    told = [
        f"*The paper* ({each.where}) *predicts:* {each.says}. **{outcome(results, each, kept).capitalize()}**: "
        f"{'; '.join(_told(results, judge(results, contrast), kept) for contrast in each.contrasts)}."
        for each in study.predictions
    ]
    return [*told, f"*No prediction:* {study.without}"] if study.without else told


def _told(results: Results, judged: Judged, kept: Kept) -> str:
    return f"{_pair(results, judged.contrast)} {effect(judged.difference, mark(results, judged, kept))}"


def _pair(results: Results, contrast: Contrast) -> str:
    titles = {arm.name: arm.title for arm in results.study.arms}
    metric = METRICS[contrast.metric] + (f" ({EARLY})" if contrast.metric == "early" else "")
    return f"{titles[contrast.arm]} against {titles[contrast.reference]}, {metric}"


def signed(value: float) -> str:
    """One digit, or as many as it takes to see on which side of zero a small number lies, where three are enough."""
    digits = next((count for count in (1, 2, 3) if round(abs(value), count)), 1)
    return f"{'−' if round(value, digits) < 0 else '+'}{abs(value):.{digits}f}"


def lasting(every: Sequence[Results]) -> Kept:
    """Which of all comparisons stay differences when each is one of many: Benjamini and Hochberg's method over their
    paired t tests, so that of those it keeps about 5 % are false.
    """
    found = [(each.study.name, judge(each, contrast)) for each in every for contrast in comparisons(each.study)]
    made = [(name, one) for name, one in found if one.verdict != "not run"]
    kept = survives_correction(one.difference.p_value for _, one in made)
    return frozenset((name, one.contrast) for (name, one), lasts in zip(made, kept, strict=True) if lasts)


def tally(results: Sequence[Results]) -> str:
    """How many comparisons the page makes, and how many would look like a difference by chance."""
    judged = [judge(each, contrast) for each in results for contrast in comparisons(each.study)]
    made = [each for each in judged if each.verdict != "not run"]
    seen = [each for each in made if each.verdict != "no difference seen"]
    if not made:
        return "Nothing was run yet."
    apart = sum(each.difference.leaves_out_zero for each in made)
    return (
        f"{len(made)} comparisons in all: {apart} intervals leave out zero, {len(seen)} of them with a difference of "
        f"{POINT:g} point or more. As each interval is one of 95 % by itself, about {ALPHA * len(made):.0f} would "
        "leave out zero if nothing made any difference."
    )


def many(every: Sequence[Results], kept: Kept) -> str:
    """The tally, and how many of the comparisons outlast their number."""
    judged = [(each, judge(each, contrast)) for each in every for contrast in comparisons(each.study)]
    alone = sum(bool(mark(results, one, kept)) for results, one in judged)
    found = "1 difference that it does not keep is" if alone == 1 else f"{alone} differences that it does not keep are"
    marked = f"{found} marked {ALONE}: each stands alone, and may be chance"
    return (
        f"{tally(every)} Benjamini and Hochberg's method at 5 % over all of these t tests keeps {len(kept)} of them; "
        f"{marked if alone else 'no difference is lost by it'}."
    )


def verdict_line(results: Results, kept: Kept) -> str:
    """For the table at the top: which arms help and which hurt under attack, which may, or that none does."""
    if not is_run(results):
        return "not run"
    titles = {arm.name: arm.title for arm in results.study.arms}
    found: dict[str, list[str]] = {}
    for contrast in results.study.contrasts:
        verdict = standing(results, judge(results, contrast), kept)
        if contrast.metric == "worst" and verdict in ("helps", "hurts", "may be chance"):
            found.setdefault(verdict, []).append(titles[contrast.arm])
    # What is settled against one reference is not put in doubt by a close call against another.
    settled = {name for verdict, names in found.items() if verdict != "may be chance" for name in names}
    found["may be chance"] = [name for name in found.get("may be chance", []) if name not in settled]
    said = [f"{verdict}: {listed(list(dict.fromkeys(names)))}" for verdict, names in sorted(found.items()) if names]
    return "; ".join(said) or "no difference seen"

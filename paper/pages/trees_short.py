"""The page about trees in short: does it help, where, for whom, what would change the answer; all of it computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.report.wording import counted, listed
from paper.pages.judging import POINT
from paper.pages.leads import Gap
from paper.pages.paired import ENOUGH, ENOUGH_SEEDS
from paper.pages.trees_beside import Beside, favours
from paper.pages.trees_long import Long
from paper.pages.trees_scan import edges, same_ratio, small_ratios, spanned
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    ORTHOGONAL,
    PLAIN,
    RANDOM,
    SMALL,
    ratio_of,
    seeded,
)
from paper.pages.trees_trained import trained_alone
from paper.pages.trees_verdict import judged_of
from paper.pages.variants.results import Results
from paper.pages.variants.rules import ALONE, Judged, Kept, mark, signed
from paper.pages.variants.spec import Metric


@dataclass(frozen=True)
class Short:
    """What the summary is made from."""

    plain: Results
    near: Results
    strict: Results
    beside: Beside
    long: Long
    kept: Kept

    def lines(self) -> str:
        """As bullets, in the order of the questions."""
        told = (*self._milder(), self._clean(), *self._robust(), self._small(), self._tree(), self._learned())
        lines = "\n".join(f"- {each}" for each in (*told, self._use(), self._change()) if each)
        note = f"\n\n{ALONE} One of many comparisons, and may be chance: see the verdict."
        return lines + (note if ALONE in lines else "")

    def _milder(self) -> list[str]:
        whole, within = self._of("superclass"), self._of("near")
        if not whole:
            return [f"**Milder mistakes: not decided**, for it takes {ENOUGH_SEEDS}."]
        seen, nearer = _helped(whole), _helped(within)
        answer = "yes" if seen else "by their share alone" if nearer else "none seen"
        return [
            f"**Milder mistakes: {answer}.** {self._trained([*whole, *within])}, in points against MMC-10: "
            f"superclass accuracy {self._each(seen or whole)}.",
            f"**Of the mistakes, the share within the superclass**, likewise: {self._each(nearer or within)}.",
            *self._milder_long(),
        ]

    def _milder_long(self) -> list[str]:
        gap, shares = self.long.superclass, self.long.within
        if gap is None or shares is None:
            return []
        answer = "yes" if _mild(gap) else "no, less" if gap.leaves_out_zero and gap.size <= -POINT else "not seen"
        return [
            f"**Milder after {self.long.epochs} epochs, too: {answer}.** {self.long.told.capitalize()}, same images: "
            f"superclass accuracy {gap.told}; of the mistakes {shares[0]:.1f} % stay within the superclass, "
            f"with MMC-10 {shares[1]:.1f} %."
        ]

    def _clean(self) -> str:
        found, long = self._of("clean"), self.long.clean
        told = [f"**Clean accuracy: {_answer(found) if found else 'not decided'}.**"]
        told += [f"{self._trained(found)}: {self._each(found)} points."] if found else []
        if long is not None:
            form = f" ({self.long.form})" if self.long.form else ""
            after = f"After {self.long.epochs}{form}, {self.long.told}, {long.how}"
            told.append(f"{after}: {long.gap.told}, {long.verdict}.")
        return " ".join(told)

    def _robust(self) -> list[str]:
        found, said = self._of("worst"), []
        if found:
            careful = [each for each in judged_of(self.near, GIVEN_NAMES, (MMC,)) if each.contrast.metric == "worst"]
            side, _ = favours(self.plain, seeded(self.plain, GIVEN_NAMES), self.beside)
            answer = _answer([*found, *careful])
            if not _helped([*found, *careful]):
                answer = f"no gain seen, {answer}" if answer.startswith("lower") else "no gain seen"
            said = [
                f"**Robustness: {answer}.** Worst case at {self.plain.study.epsilon} "
                f"against MMC-10: {self._each(found, ends=True)} points"
                + (f", by upper bounds that favour {side}." if side else ".")
            ]
        told = [f"{gap.told} ({name})" for name, gap in self.long.attacked.items()]
        told = [f"images right before and after the paper's PGD-10 {listed(told)}"] if told else []
        told += [self.long.nothing_left] if self.long.nothing_left else []
        if told:
            said.append(
                f"**Robustness after {self.long.epochs} epochs**, {self.long.told}, against MMC-10: {'; '.join(told)}."
            )
        if not judged_of(self.strict, AT_ORTHOGONAL.names, (AT_MMC,)):
            said.append(trained_alone(self.beside))
        return said

    def _small(self) -> str:
        metrics: tuple[Metric, ...] = ("clean", "superclass", "worst")
        clean, whole, worst = (list(small_ratios(self.plain, metric, self.beside).values()) for metric in metrics)
        if not clean:
            return f"**The paper's own ratios (C2 ≪ C1): not measured**, none up to {SMALL:g}."
        cost = "cost accuracy" if all(gap.high < 0 for gap in clean) else "do not all cost accuracy"
        more = f", superclass accuracy {spanned(whole)}" if whole else ""
        return (
            f"**The paper's own ratios, C2 ≪ C1, {cost}.** Up to {SMALL:g}, one seed, in points against MMC-10: clean "
            f"accuracy {spanned(clean)}{more}, worst case {spanned(worst)}."
        )

    def _tree(self) -> str:
        random = judged_of(self.plain, RANDOM.names, (MMC,))
        given = judged_of(self.plain, ORTHOGONAL.names, RANDOM.names)
        if not random or not given:
            return f"**Is it the tree? Not decided**, for a random tree takes {ENOUGH_SEEDS}."
        ahead = [each for each in _helped(given) if each.contrast.metric == "superclass"]
        same = all(each.verdict == "no difference seen" for each in random)
        widest = max(each.difference.half_width for each in random)
        told = f"no difference to MMC-10 in {len(random)} measures (±{widest:.1f} points at most)"
        above = [
            f"{each.difference.mean:.1f} points above it (ratio {ratio_of(each.contrast.arm)} against "
            f"{ratio_of(each.contrast.reference)})"
            for each in ahead
        ]
        equal = list(same_ratio(self.plain, ORTHOGONAL, RANDOM, "superclass", self.beside).values())
        more = f"; at equal ratios, seed 0, {spanned(equal)} points" if equal else ""
        return (
            f"**Is it the tree? {'Yes' if same and ahead else 'Not shown'}.** A random tree shows "
            f"{told if same else 'a difference to MMC-10 too'}; the given tree's superclass accuracy is "
            f"{listed(above) if above else 'not above it'}{more}."
        )

    def _learned(self) -> str:
        found = judged_of(self.plain, LEARNED.names, (MMC,))
        if not found:
            return ""
        seen = [each for each in found if each.verdict != "no difference seen"]
        told = f"a difference to MMC-10 in {len(seen)} of" if seen else "no difference to MMC-10 in any of"
        return f"**A tree learned from mistakes** (one tree): {told} {len(found)} measures."

    def _use(self) -> str:
        mild, long = _helped(self._of("superclass")), self.long.clean
        if not self._of("superclass"):
            return ""
        told = []
        if mild:
            where = "; ".join(self._title(each) for each in mild)
            told.append(
                "**Of use** where a mistake outside the superclass costs more than one inside it "
                f"({where}; after {self._epochs()} epochs{self._use_long()})."
            )
        against = [] if _helped(self._of("worst")) else ["robustness"]
        against += ["accuracy after a long training"] if long is not None and not _mild(long.gap) else []
        told += [f"**Not of use**, as far as seen, for {listed(against)}."] if against else []
        return " ".join(told)

    def _use_long(self) -> str:
        if not self.long.epochs:
            return ""
        gap = self.long.superclass
        if gap is None:
            return f"; after {self.long.epochs} this was not measured"
        form = f" ({self.long.form})" if self.long.form else ""
        return f", and after {self.long.epochs}{form}" if _mild(gap) else f", not so after {self.long.epochs}{form}"

    def _change(self) -> str:
        told = []
        if min(self.long.seeds) < ENOUGH:
            unknown = ", and their mistakes by superclass" if self.long.superclass is None else ""
            told.append(f"{ENOUGH_SEEDS} at {self.long.epochs or 'many'} epochs{unknown}")
        trees = [family for family in PLAIN if family is not EMC]
        if highest := edges(self.plain, trees, self.beside)["highest"]:
            forms = listed([f"{value} of {family.title}" for family, value in highest])
            told.append(f"ratios beyond the highest tried where that was chosen ({forms})")
        ratios = [{ratio_of(arm) for arm in seeded(self.plain, family.names)} for family in (ORTHOGONAL, RANDOM)]
        if all(ratios) and not ratios[0] & ratios[1]:
            told.append(f"{ENOUGH_SEEDS} of the given tree at the random one's ratio ({listed(sorted(ratios[1]))})")
        if not judged_of(self.near, GIVEN_NAMES, (MMC,)):
            told.append(f"`{self.near.study.suite}` at {self.near.study.epsilon}")
        if not judged_of(self.strict, AT_ORTHOGONAL.names, (AT_MMC,)):
            trained, attacked = len(self.beside.seeds(AT_MMC)), len(self.strict.of(AT_MMC, "clean"))
            how = f"({trained} seeds trained, {attacked} attacked)"
            told.append(f"`{self.strict.study.suite}` on adversarial training {how}")
        return f"**What would change this**, not measured yet: {'; '.join(told)}." if told else ""

    def _of(self, metric: Metric) -> list[Judged]:
        return [each for each in judged_of(self.plain, GIVEN_NAMES, (MMC,)) if each.contrast.metric == metric]

    def _each(self, judged: Sequence[Judged], *, ends: bool = False) -> str:
        return listed([f"{self._told(each, ends=ends)} ({self._title(each)})" for each in judged])

    def _told(self, judged: Judged, *, ends: bool) -> str:
        low, high = (signed(end) for end in judged.difference.interval)
        said = f"{signed(judged.difference.mean)}{mark(self.plain, judged, self.kept)}"
        return f"{said} [{low}, {high}]" if ends else said

    def _title(self, judged: Judged) -> str:
        return next(arm.title for arm in self.plain.study.arms if arm.name == judged.contrast.arm)

    def _epochs(self) -> str:
        return str(self.plain.shared.get("train.epochs", "so many"))

    def _trained(self, judged: Sequence[Judged]) -> str:
        seeds = counted("seed", *(each.difference.n for each in judged))
        return f"After {self._epochs()} epochs, {seeds}"


def _answer(judged: Sequence[Judged]) -> str:
    """Of one measure over several forms: which way they differ from MMC."""
    seen = {each.verdict for each in judged} - {"no difference seen"}
    if not seen:
        return "no difference seen"
    some = "" if all(each.verdict in seen for each in judged) else " in some forms"
    return "depends on the form" if len(seen) > 1 else f"{'higher' if 'helps' in seen else 'lower'}{some}"


def _mild(gap: Gap) -> bool:
    return gap.leaves_out_zero and gap.size >= POINT


def _helped(judged: Sequence[Judged]) -> list[Judged]:
    return [each for each in judged if each.verdict == "helps"]

"""Every comparison of the page about trees in one table: higher, lower or neither, and what is not decided."""

from collections.abc import Sequence

from maxmahal.report.wording import listed
from paper.pages.paired import ENOUGH_SEEDS
from paper.pages.tables import markdown
from paper.pages.trees_beside import Beside
from paper.pages.trees_long import Long
from paper.pages.trees_scan import SAME_RATIO, same_ratio
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    NAMES,
    ORTHOGONAL,
    RANDOM,
    TREES,
    ratio_of,
)
from paper.pages.variants.results import Results
from paper.pages.variants.rules import Judged, Kept, judge, many, mark, signed


def judged_of(results: Results, arms: Sequence[str], references: Sequence[str]) -> list[Judged]:
    """The comparisons of these arms with these references that have seeds enough."""
    wanted = [each for each in results.study.contrasts if each.arm in arms and each.reference in references]
    return [found for each in wanted if (found := judge(results, each)).verdict != "not run"]


def verdicts(every: Sequence[Results], long: Long, kept: Kept) -> list[str]:
    """A row a pair of arms, then what is not decided, then how many comparisons these are."""
    rows = [row for results in every for row in _rows(results, kept)]
    header = ["comparison", "higher, so better, in", "lower in", "no difference seen in"]
    parts = [markdown(header, rows, 4)] if rows else []
    told = [*(_notes(every) if rows else []), *_undecided(every, long)]
    parts += ["\n".join(f"- {each}" for each in told)] if told else []
    return [*parts, many(every, kept)] if rows else parts


def _rows(results: Results, kept: Kept) -> list[list[str]]:
    titles = {arm.name: arm.title for arm in results.study.arms}
    pairs = dict.fromkeys((each.reference, each.arm) for each in results.study.contrasts)
    rows = []
    for reference, arm in pairs:
        judged = judged_of(results, (arm,), (reference,))
        if judged:
            cells = [_where(results, judged, wanted, kept) for wanted in ("helps", "hurts", "no difference seen")]
            rows.append([f"{titles[arm]} against {titles[reference]}{_suite(results)}", *cells])
    return rows


def _where(results: Results, judged: Sequence[Judged], wanted: str, kept: Kept) -> str:
    found = [each for each in judged if each.verdict == wanted]
    if wanted == "no difference seen":
        return ", ".join(NAMES[each.contrast.metric] for each in found) or "–"
    told = (
        f"{NAMES[each.contrast.metric]} {signed(each.difference.mean)}{mark(results, each, kept)}" for each in found
    )
    return ", ".join(told) or "–"


def _suite(results: Results) -> str:
    return "" if results.study.name == TREES.name else f" (`{results.study.suite}` at {results.study.epsilon})"


def _notes(every: Sequence[Results]) -> list[str]:
    """What the table must not be read as."""
    told = [
        "In points, the mean over seeds; intervals stand in the tables below. *Mistakes within* follow from the clean "
        "and the superclass accuracy, so they are no third finding.",
    ]
    told += _equal(every[0])
    if any(each.arm in LEARNED.names for results in every for each in results.study.contrasts):
        told.append(
            "All are judged by the given tree's superclasses, which the learned tree does not follow: where it is "
            "lower by these, that shows how the two trees differ and nothing of its own superclasses."
        )
    return told


def _equal(plain: Results) -> list[str]:
    """Superclass accuracies at equal ratios, where trees of different ones are compared."""
    told = []
    for ours, theirs, title in SAME_RATIO:
        pairs = [(each.contrast.arm, each.contrast.reference) for each in judged_of(plain, ours.names, theirs.names)]
        ratios = dict.fromkeys(ratio_of(name) for pair in pairs for name in pair)
        found = same_ratio(plain, ours, theirs, "superclass", Beside())  # its sizes alone are told here
        if len(ratios) > 1:
            said = [f"{signed(found[ratio].size)} at {ratio}" for ratio in sorted(ratios) if ratio in found]
            told += [f"{title} {listed(said)}"] if said else []
    if not told:
        return []
    where = "[more below](#trees-at-one-ratio)"
    return [f"Trees above differ in their ratios too; at equal ones (seed 0, superclass): {'; '.join(told)} ({where})."]


def _undecided(every: Sequence[Results], long: Long) -> list[str]:
    plain, near, strict = every
    given = GIVEN_NAMES
    asked: tuple[tuple[Results, Sequence[str], Sequence[str], str], ...] = (
        (plain, given, (MMC,), "hierarchical centers against MMC"),
        (plain, EMC.names, (MMC,), "EMC against MMC"),
        (plain, given, EMC.names, "hierarchical centers against EMC"),
        (plain, ORTHOGONAL.names, RANDOM.names, "the given tree against a random one"),
        (plain, RANDOM.names, (MMC,), "a random tree against MMC"),
        (plain, LEARNED.names, (MMC,), "the learned tree against MMC"),
        (plain, LEARNED.names, ORTHOGONAL.names, "the learned tree against the given one"),
        (near, given, (MMC,), f"hierarchical centers against MMC by `{near.study.suite}` at {near.study.epsilon}"),
        (
            strict,
            AT_ORTHOGONAL.names,
            (AT_MMC,),
            "the worst case of hierarchical centers against MMC with adversarial training",
        ),
    )
    missing = [words for results, arms, references, words in asked if not judged_of(results, arms, references)]
    told = [f"**Not decided**, for it takes {ENOUGH_SEEDS} of both: {listed(missing)}."] if missing else []
    if not judged_of(strict, ORTHOGONAL.names, (MMC,)):
        told.append(f"**In the paper's ball, {strict.study.epsilon}, without adversarial training:** {_ball(long)}")
    return told


def _ball(long: Long) -> str:
    if not long.nothing_left:
        return f"not decided, for it takes {ENOUGH_SEEDS} of both."
    return (
        f"nothing is left of either after {long.epochs} epochs: {long.nothing_left}, {long.told}. "
        f"{ENOUGH_SEEDS.capitalize()} here are not run, and would have to leave something to decide anything."
    )

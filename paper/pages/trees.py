"""paper/results/trees.md: hierarchical centers on CIFAR-100, from the studies' files and the summaries beside them."""

from collections.abc import Sequence
from pathlib import Path

from paper import reproduce
from paper.pages import trees_words as words
from paper.pages.trees_beside import Beside, read_beside
from paper.pages.trees_figures import alternative, draw_figures
from paper.pages.trees_long import Long, read_long
from paper.pages.trees_rules import TRAINED
from paper.pages.trees_scan import edges_told, same_ratio_table, small_predicted
from paper.pages.trees_short import Short
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    NEAR,
    PLAIN,
    STRICT,
    TREE_STUDIES,
    TREES,
    with_contrasts,
)
from paper.pages.trees_tables import checked, choices, convergence, effects, geometry, scan
from paper.pages.trees_verdict import verdicts
from paper.pages.variants.results import Results, read_results
from paper.pages.variants.rules import Kept, change, is_run, judge, lasting, predicted

_ADVERSARIAL = (AT_MMC, *AT_ORTHOGONAL.names)


def trees_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none where nothing was collected."""
    every = [with_contrasts(each) for each in read_results(results, TREE_STUDIES)]
    if not any(each.runs for each in every):
        return {}
    plain, near, strict = every
    beside, long, kept = read_beside(results), read_long(results), lasting(every)
    drawn = draw_figures([plain, strict], beside)
    parts = [
        "# Hierarchical centers on CIFAR-100, put to the test (appendix B.3)",
        words.intro(results),
        "## In short",
        Short(plain, near, strict, beside, long, kept).lines(),
        "## Centers",
        words.centers(),
        "## Rules and measures",
        f"{words.rule(plain)}\n{words.SEVERITY}",
        "## Verdict",
        *verdicts(every, long, kept),
        *(_plain(plain, near, beside, list(drawn), kept) if plain.runs else [_missing("trees-scan")]),
        *_strict(strict, beside, long, list(drawn), kept),
    ]
    return {"trees.md": "\n\n".join(parts) + "\n", **{f"figures/{name}": text for name, text in drawn.items()}}


def _plain(results: Results, near: Results, beside: Beside, figures: Sequence[str], kept: Kept) -> list[str]:
    parts = [
        f"## {TREES.title}",
        TREES.asks,
        f"{reproduce('trees-scan')}, then `trees-learned` and `trees-seeds`",
        *filter(None, [words.training(results, beside)]),
        words.attacks(results),
    ]
    if is_run(results):
        first, *others = _references(results)
        parts += [effects(results, first, kept), *_shown(figures, "trees-effects.svg")]
        parts += [effects(results, reference, kept) for reference in others]
        parts += _words(results, kept, small_predicted(results, beside))
        parts += ["### Convergence", words.CONVERGENCE, convergence(results), *_shown(figures, "trees-convergence.svg")]
    else:
        parts += [words.one_seed(results, "trees-seeds", beside), *small_predicted(results, beside)]
    parts += [f"### {NEAR.title}", words.bounds(results, beside), reproduce("trees-near")]
    parts.append(checked(results, near, beside))
    parts += ["### The scan, and what validation chose", choices(results, PLAIN, beside)]
    parts += [*edges_told(results, PLAIN, beside), *words.learned(results, beside)]
    parts += [scan(results, [arm.name for arm in TREES.arms], beside)]
    parts += [words.fit(results, beside), *_shown(figures, "trees-scan-clean.svg", "trees-scan-near.svg")]
    if table := same_ratio_table(results, beside):
        parts += ["### Trees at one ratio", words.same_ratio(table), table]
    return [*parts, "### Where the centers lie", words.GEOMETRY, geometry(results)]


def _strict(results: Results, beside: Beside, long: Long, figures: Sequence[str], kept: Kept) -> list[str]:
    parts = [f"## {STRICT.title}", STRICT.asks, f"{reproduce('trees-adversarial')}, then `trees-strict`"]
    if not results.runs:
        begun = any(beside.seeds(arm) for arm in _ADVERSARIAL)
        return [*parts, f"**{TRAINED.capitalize()}.**" if begun else "**Not run.** The commands above make it."]
    parts += [*filter(None, [words.training(results, beside, _ADVERSARIAL)]), words.attacks(results)]
    if is_run(results):
        parts += [effects(results, reference, kept) for reference in _references(results)]
        parts += [*_shown(figures, "trees-strict-effects.svg"), *_words(results, kept)]
    else:
        parts.append(words.one_seed(results, "trees-strict", beside))
    parts += [f"Trained for {long.epochs} epochs, {long.nothing_left}."] if long.nothing_left else []
    parts += [choices(results, (AT_ORTHOGONAL,), beside, AT_MMC), *edges_told(results, (AT_ORTHOGONAL,), beside)]
    return [*parts, scan(results, _ADVERSARIAL, beside)]


def _references(results: Results) -> list[str]:
    """MMC first, then what else arms are set against."""
    return list(dict.fromkeys(each.reference for each in results.study.contrasts))


def _missing(grid: str) -> str:
    return f"{reproduce(grid)} is **not run**."


def _words(results: Results, kept: Kept, more: Sequence[str] = ()) -> list[str]:
    """What the table does not say: what became of the paper's hope, and what would change the verdicts."""
    judged = [judge(results, contrast) for contrast in results.study.contrasts]
    return [sentence for sentence in (*predicted(results, kept), *more, change(results, judged)) if sentence]


def _shown(figures: Sequence[str], *names: str) -> list[str]:
    return [f"![{alternative(name)}](figures/{name})" for name in names if name in figures]

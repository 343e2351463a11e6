"""results/trees.md: hierarchical centers on CIFAR-100, from the studies' files and the summaries beside them."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.report.published.judging import POINT
from maxmahal.report.published.trees_beside import Beside, looseness, read_beside
from maxmahal.report.published.trees_figures import alternative, draw_figures
from maxmahal.report.published.trees_rules import verdicts
from maxmahal.report.published.trees_study import (
    AT_ORTHOGONAL,
    MMC,
    NEAR,
    PLAIN,
    STRICT,
    TREE_STUDIES,
    TREES,
    with_contrasts,
)
from maxmahal.report.published.trees_tables import checked, choices, convergence, effects, scan
from maxmahal.report.published.variants.paired import EQUAL
from maxmahal.report.published.variants.results import EARLY, Results, read_results
from maxmahal.report.published.variants.rules import change, is_run, judge, predicted, tally

_INTRO = (
    "Written by `tools/results.py` from `variants/trees.json` and `variants/trees-strict.json`; no number is typed by "
    "hand. ResNet-32 with 256 pooled values and short schedules, to compare centers with one another and not with "
    "other people's models."
)
_RULE = (
    "Arms are set against each other seed by seed: the mean difference in percentage points, with a 95 % t interval "
    "over the seeds. It *helps* or *hurts* if the interval leaves out zero and the mean is at least "
    f"{POINT:g} point, and there are three seeds; two are equal if the interval stays within ±{EQUAL:g} points."
)
_SEVERITY = (
    "*Distance* of a mistake: the height of the lowest common ancestor of the true and the predicted class in the data "
    "set's own tree, 1 within the superclass and 2 beyond, so the mean distance is 2 minus the share of mistakes that "
    "stay within. All arms are judged by that tree, whichever they were trained with. Under attack the worst outcome "
    "of every sample counts; attacks look for any wrong class, so worst-case superclass accuracies are upper bounds."
)
_ONE_SEED = (
    "Until then an interval is over the test images alone wherever a number is of one training: what another seed "
    "would change is not in it, so no arm is said to be better than another."
)


def trees_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none where nothing was collected."""
    plain, near, strict = (with_contrasts(each) for each in read_results(results, TREE_STUDIES))
    if not plain.runs and not near.runs and not strict.runs:
        return {}
    drawn = draw_figures([plain, strict])
    page = _page(plain, near, strict, read_beside(results), list(drawn))
    return {"trees.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}


def _page(plain: Results, near: Results, strict: Results, beside: Beside, figures: Sequence[str]) -> str:
    every = [plain, near, strict]
    parts = [
        "# Hierarchical centers on CIFAR-100, put to the test (appendix B.3)",
        _INTRO,
        _RULE,
        _SEVERITY,
        "## Verdict",
        verdicts(plain, near, strict),
        *([tally(every)] if any(is_run(each) for each in every) else []),
    ]
    parts += _plain(plain, near, beside, figures) if plain.runs else ["`maxmahal reproduce trees-scan` is **not run**."]
    parts += [f"## {STRICT.title}", STRICT.asks, "`maxmahal reproduce trees-adversarial`, then `trees-strict`"]
    parts += _strict(strict, figures) if strict.runs else ["**Not run.** The commands above make it."]
    return "\n\n".join(parts) + "\n"


def _plain(results: Results, near: Results, beside: Beside, figures: Sequence[str]) -> list[str]:
    parts = [
        f"## {TREES.title}",
        TREES.asks,
        "`maxmahal reproduce trees-scan`, then `trees-learned` and `trees-seeds`",
        _attacks(results),
    ]
    if is_run(results):
        parts += [effects(results, MMC), *_shown(figures, "trees-effects.svg"), *_words(results)]
        parts += ["### Convergence", convergence(results), *_shown(figures, "trees-convergence.svg")]
    else:
        parts.append(_one_seed("trees-seeds"))
    parts += [f"### {NEAR.title}", _bounds(results, beside), "`maxmahal reproduce trees-near`"]
    parts.append(checked(results, near, beside))
    parts += ["### The scan, and what validation chose", choices(results, PLAIN), scan(results)]
    return [*parts, *_shown(figures, "trees-scan-clean.svg", "trees-scan-near.svg")]


def _strict(results: Results, figures: Sequence[str]) -> list[str]:
    parts = [_attacks(results)]
    if is_run(results):
        references = dict.fromkeys(each.reference for each in results.study.contrasts)
        parts += [effects(results, reference) for reference in references]
        parts += [*_shown(figures, "trees-strict-effects.svg"), *_words(results)]
    else:
        parts.append(_one_seed("trees-strict"))
    return [*parts, choices(results, (AT_ORTHOGONAL,)), scan(results)]


def _bounds(results: Results, beside: Beside) -> str:
    """Why the worst case by the short suite is a bound, and whom the bound favours."""
    attacks = f" ({'; '.join(beside.attacks)})" if beside.attacks else ""
    said = (
        f"The suite `{TREES.suite}` is short{attacks}: one start each, no diagnostics, and every attack sees only "
        "the images that those before it left. It has not converged, so its worst cases are upper bounds.",
        looseness(results, beside),
        f"The check is the suite `{NEAR.suite}` in the same ball. *Later attacks broke*: the share of what the "
        "first attack left.",
    )
    return " ".join(filter(None, said))


def _one_seed(grid: str) -> str:
    return f"**Three seeds: not run.** `maxmahal reproduce {grid}` makes them. {_ONE_SEED}"


def _words(results: Results) -> list[str]:
    """What the table does not say: what became of the paper's hope, and what would change the verdicts."""
    judged = [judge(results, contrast) for contrast in results.study.contrasts]
    return [sentence for sentence in (*predicted(results), change(results, judged)) if sentence]


def _attacks(results: Results) -> str:
    about = results.about
    return (
        f"Worst case, an upper bound: what every attack of the suite `{about['suite']}` (version "
        f"{about['suite_version']}) left at {about['norm']} {about['epsilon']}; all measures on the first {about['samples']:,} test images, but for "
        f"*first epochs*, the mean test accuracy after the first {EARLY} on all of them."
    )


def _shown(figures: Sequence[str], *names: str) -> list[str]:
    return [f"![{alternative(name)}](figures/{name})" for name in names if name in figures]

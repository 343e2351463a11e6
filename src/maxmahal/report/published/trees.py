"""results/trees.md: hierarchical centers on CIFAR-100, from two small files and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.evaluate.severity import Severity
from maxmahal.evaluate.statistics import Rate
from maxmahal.report.published.judging import POINT
from maxmahal.report.published.shelf import NOT_RUN
from maxmahal.report.published.tables import markdown
from maxmahal.report.published.trees_figures import draw_figures
from maxmahal.report.published.trees_rules import Choice, choose, errors_reached, head_start, reached, verdicts
from maxmahal.report.published.trees_study import (
    AT_ORTHOGONAL,
    MMC,
    PLAIN,
    STRICT,
    TREE_STUDIES,
    TREES,
    Family,
    with_contrasts,
)
from maxmahal.report.published.variants.page import spread
from maxmahal.report.published.variants.paired import EQUAL, Difference
from maxmahal.report.published.variants.results import EARLY, Results, Run, read_results
from maxmahal.report.published.variants.rules import change, effect, is_run, judge, predicted, tally
from maxmahal.report.published.variants.spec import METRICS

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
    plain, strict = (with_contrasts(each) for each in read_results(results, TREE_STUDIES))
    if not plain.runs and not strict.runs:
        return {}
    drawn = draw_figures([plain, strict])
    return {"trees.md": _page(plain, strict, list(drawn)), **{f"figures/{name}": text for name, text in drawn.items()}}


def _page(plain: Results, strict: Results, figures: Sequence[str]) -> str:
    parts = [
        "# Hierarchical centers on CIFAR-100, put to the test (appendix B.3)",
        _INTRO,
        _RULE,
        _SEVERITY,
        "## Verdict",
        verdicts(plain, strict),
        *([tally([plain, strict])] if is_run(plain) or is_run(strict) else []),
    ]
    parts += _plain(plain, figures) if plain.runs else ["`maxmahal reproduce trees-scan` is **not run**."]
    parts += [f"## {STRICT.title}", STRICT.asks, "`maxmahal reproduce trees-adversarial`, then `trees-strict`"]
    parts += _strict(strict, figures) if strict.runs else ["**Not run.** The commands above make it."]
    return "\n\n".join(parts) + "\n"


def _plain(results: Results, figures: Sequence[str]) -> list[str]:
    parts = [
        f"## {TREES.title}",
        TREES.asks,
        "`maxmahal reproduce trees-scan`, then `trees-learned` and `trees-seeds`",
        _attacks(results),
    ]
    if is_run(results):
        parts += [_effects(results, MMC), *_shown(figures, "trees-effects.svg"), *_words(results)]
        parts += ["### Convergence", _convergence(results), *_shown(figures, "trees-convergence.svg")]
    else:
        parts.append(_one_seed("trees-seeds"))
    parts += ["### The scan, and what validation chose", _choices(results, PLAIN), _scan(results)]
    return [*parts, *_shown(figures, "trees-scan-clean.svg", "trees-scan-near.svg")]


def _strict(results: Results, figures: Sequence[str]) -> list[str]:
    parts = [_attacks(results)]
    if is_run(results):
        references = dict.fromkeys(each.reference for each in results.study.contrasts)
        parts += [_effects(results, reference) for reference in references]
        parts += [*_shown(figures, "trees-strict-effects.svg"), *_words(results)]
    else:
        parts.append(_one_seed("trees-strict"))
    return [*parts, _choices(results, (AT_ORTHOGONAL,)), _scan(results)]


def _one_seed(grid: str) -> str:
    return f"**Three seeds: not run.** `maxmahal reproduce {grid}` makes them. {_ONE_SEED}"


def _words(results: Results) -> list[str]:
    """What the table does not say: what became of the paper's hope, and what would change the verdicts."""
    judged = [judge(results, contrast) for contrast in results.study.contrasts]
    return [sentence for sentence in (*predicted(results), change(results, judged)) if sentence]


def _attacks(results: Results) -> str:
    about = results.about
    return (
        f"Worst case: every attack of the suite `{about['suite']}` (version {about['suite_version']}) at "
        f"{about['norm']} {about['epsilon']}; all measures on the first {about['samples']:,} test images, but for "
        f"*first epochs*, the mean test accuracy after the first {EARLY} on all of them."
    )


def _effects(results: Results, reference: str) -> str:
    """Means in the first row, then differences with intervals, verdicts in bold."""
    contrasts = [each for each in results.study.contrasts if each.reference == reference]
    metrics = list(dict.fromkeys(each.metric for each in contrasts))
    titles = {arm.name: arm.title for arm in results.study.arms}
    rows = [[titles[reference], *(spread(list(results.of(reference, metric).values())) for metric in metrics)]]
    for arm in dict.fromkeys(each.arm for each in contrasts):
        judged = [judge(results, each) for each in contrasts if each.arm == arm]
        cells = {each.contrast.metric: _judged_cell(each.difference, each.verdict) for each in judged}
        rows.append([titles[arm], *(cells[metric] for metric in metrics)])
    return markdown(["against " + titles[reference], *(METRICS[metric] for metric in metrics)], rows)


def _judged_cell(difference: Difference, outcome: str) -> str:
    said = effect(difference)
    return f"**{outcome}** {said}" if outcome in ("helps", "hurts") else said


def _convergence(results: Results) -> str:
    """Epochs to a test error, the mean over the seeds that get there, and the paired difference to MMC."""
    titles = {arm.name: arm.title for arm in results.study.arms}
    arms = list(dict.fromkeys(each.arm for each in results.study.contrasts if each.reference == MMC))
    errors = errors_reached(results, [MMC, *arms])
    rows = [[titles[arm], *(_epochs(results, arm, error) for error in errors)] for arm in (MMC, *arms)]
    return markdown(["epochs to a test error of", *(f"{error} %" for error in errors)], rows)


def _epochs(results: Results, arm: str, error: int) -> str:
    found = Difference(tuple(reached(results, arm, error).values()))
    if not found.n:
        return "never"
    said = f"{found.mean:.1f}"
    difference = head_start(results, arm, MMC, error)
    if arm == MMC or difference.n < 2:
        return said
    low, high = difference.interval
    return f"{said} ({difference.mean:+.1f} [{low:+.1f}, {high:+.1f}])".replace("-", "−")


def _choices(results: Results, families: Sequence[Family]) -> str:
    """By accuracy on held-out images; of adversarially trained models by that under PGD-10."""
    rows = [_choice(results, choose(results, family)) for family in families]
    return markdown(["form", "validation accuracy at seed 0, in %", "chosen", "run with three seeds"], rows)


def _choice(results: Results, choice: Choice) -> list[str]:
    titles = {arm.name: arm.title for arm in results.study.arms}
    if not choice.scores:
        return [choice.family.title, NOT_RUN, NOT_RUN, NOT_RUN]
    scores = ", ".join(f"{name.rpartition('-')[2]}: {score:.1f}" for name, score in choice.scores.items())
    taken = "; ".join(titles[name] for name in choice.taken) or NOT_RUN
    return [choice.family.title, scores, titles[choice.best], taken if choice.followed else f"**another one:** {taken}"]


def _scan(results: Results) -> str:
    """Every run of the first seed with its own intervals, and where its centers lie."""
    header = [
        *("arm (seed 0)", "clean", "superclass", "mistakes within", "distance of mistakes"),
        *("worst case", "distance under attack", "lengths of centers", "nearest two", "nearest across"),
    ]
    order = [arm.name for arm in results.study.arms]
    runs = sorted((run for run in results.runs if run.seed == 0), key=lambda run: order.index(run.arm))
    titles = {arm.name: arm.title for arm in results.study.arms}
    return markdown(header, [[titles[run.arm], *_scanned(run)] for run in runs])


def _scanned(run: Run) -> list[str]:
    clean, worst, centers = run.mistakes["clean"], run.mistakes["worst"], run.centers
    low, high = centers["shortest"], centers["longest"]
    return [
        *(_rate(rate) for rate in (run.clean, clean.superclass_accuracy, clean.within)),
        _distance(clean),
        _rate(run.robust),
        _distance(worst),
        f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}",
        f"{centers['nearest']:.1f}",
        f"{centers['across']:.1f}",
    ]


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else str(rate).replace("<=", "≤").replace(">=", "≥").removesuffix(" %").replace(" %", "")


def _distance(found: Severity) -> str:
    if found.distance is None or found.distance_interval is None:
        return "–"
    low, high = found.distance_interval
    return f"{found.distance:.2f} [{low:.2f}, {high:.2f}]"


def _shown(figures: Sequence[str], *names: str) -> list[str]:
    return [f"![{name.removesuffix('.svg')}](figures/{name})" for name in names if name in figures]

"""Tables of the page about trees."""

from collections.abc import Sequence

from maxmahal.evaluate.severity import Severity
from maxmahal.evaluate.statistics import Rate
from maxmahal.report.published.shelf import NOT_RUN
from maxmahal.report.published.tables import markdown
from maxmahal.report.published.trees_beside import Beside
from maxmahal.report.published.trees_rules import Choice, choose, errors_reached, head_start, reached
from maxmahal.report.published.trees_study import MMC, PLAIN, Family
from maxmahal.report.published.variants.page import spread
from maxmahal.report.published.variants.paired import Difference
from maxmahal.report.published.variants.results import Results, Run
from maxmahal.report.published.variants.rules import effect, judge
from maxmahal.report.published.variants.spec import METRICS, Contrast

_CHECKED = 1000  # images, where no run tells how many the careful suite has seen


def effects(results: Results, reference: str) -> str:
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


def convergence(results: Results) -> str:
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


def choices(results: Results, families: Sequence[Family]) -> str:
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


def scan(results: Results) -> str:
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


def checked(results: Results, near: Results, beside: Beside) -> str:
    """The worst case in one ball by the short suite and by the careful one, of MMC and of what validation chose."""
    count = int(near.about.get("samples", _CHECKED))
    titles = {arm.name: arm.title for arm in results.study.arms}
    families = [choose(results, family) for family in PLAIN]
    wanted = [name for choice in families for name in (*choice.taken, choice.best) if name]
    rows = []
    for arm in dict.fromkeys((MMC, *wanted)):
        runs = [run for run in results.runs if run.arm == arm]
        later, short = [beside.broken_later(run) for run in runs], [beside.stands(run, count) for run in runs]
        careful = [run.robust for run in near.runs if run.arm == arm]
        against = judge(near, Contrast(arm, MMC, "worst")).difference
        cells = [_seeds([run.robust for run in runs]), _seeds(later), _seeds(short), _seeds(careful)]
        rows.append([titles[arm], *cells, "–" if arm == MMC else effect(against)])
    first = f"the first {count:,}"
    header = [
        *("worst case at 1/255", f"by `{results.study.suite}`", "later attacks broke", f"by it, {first}"),
        *(f"by `{near.study.suite}`, {first}", f"by `{near.study.suite}`, less MMC-10"),
    ]
    return markdown(header, rows)


def _seeds(rates: Sequence[Rate | None]) -> str:
    """Of one training with the interval over images, of several the mean and the spread."""
    found = [rate for rate in rates if rate is not None]
    if not found:
        return NOT_RUN
    return _rate(found[0]) if len(found) == 1 else spread([100 * rate.value for rate in found])


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else str(rate).replace("<=", "≤").replace(">=", "≥").removesuffix(" %").replace(" %", "")


def _distance(found: Severity) -> str:
    if found.distance is None or found.distance_interval is None:
        return "–"
    low, high = found.distance_interval
    return f"{found.distance:.2f} [{low:.2f}, {high:.2f}]"

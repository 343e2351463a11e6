"""Tables of the page about trees."""

from collections.abc import Sequence

from maxmahal.records.statistics import Rate
from maxmahal.report.wording import typeset
from paper.pages.paired import ENOUGH_SEEDS, Difference
from paper.pages.shelf import NOT_RUN
from paper.pages.tables import markdown
from paper.pages.trees_beside import Beside
from paper.pages.trees_rules import (
    SCAN_SEED,
    TRAINED,
    Choice,
    choose,
    errors_reached,
    head_start,
    reached,
    seeds_told,
    validation,
)
from paper.pages.trees_study import AT_MMC, EMC, MMC, NAMES, PLAIN, Family
from paper.pages.variants.page import spread
from paper.pages.variants.results import Results, Run
from paper.pages.variants.rules import Judged, Kept, between, effect, judge, mark, signed
from paper.pages.variants.spec import Contrast

_CHECKED = 1000  # images, where no run tells how many the careful suite has seen


def effects(results: Results, reference: str, kept: Kept) -> str:
    """Means in the first row, then differences with intervals: bold by the rule of the page, a dagger if alone."""
    contrasts = [each for each in results.study.contrasts if each.reference == reference]
    judged = [judge(results, each) for each in contrasts]
    metrics = list(dict.fromkeys(each.metric for each in contrasts))
    titles = {arm.name: arm.title for arm in results.study.arms}
    counts = {each.difference.n for each in judged}
    seeds = f", n = {counts.pop()}" if len(counts) == 1 else ""
    rows = [[titles[reference], *(spread(list(results.of(reference, metric).values())) for metric in metrics)]]
    for arm in dict.fromkeys(each.arm for each in contrasts):
        cells = {
            each.contrast.metric: _judged_cell(each, mark(results, each, kept), count=not seeds)
            for each in judged
            if each.contrast.arm == arm
        }
        rows.append([titles[arm], *(cells[metric] for metric in metrics)])
    return markdown([f"against {titles[reference]}, in points{seeds}", *(NAMES[metric] for metric in metrics)], rows)


def _judged_cell(judged: Judged, dagger: str, *, count: bool) -> str:
    if judged.verdict == "not run":
        return NOT_RUN
    said = between(judged.difference) + (f", n = {judged.difference.n}" if count else "")
    return f"**{said}**{dagger}" if judged.verdict in ("helps", "hurts") else said


def convergence(results: Results) -> str:
    """Epochs to a test error, the mean over the seeds that get there, and the paired difference to MMC."""
    titles = {arm.name: arm.title for arm in results.study.arms}
    arms = list(dict.fromkeys(each.arm for each in results.study.contrasts if each.reference == MMC))
    errors = errors_reached(results, [MMC, *arms])
    rows = [[titles[arm], *(_epochs(results, arm, error) for error in errors)] for arm in (MMC, *arms)]
    return markdown(["epochs to a test error of", *(f"{error} %" for error in errors)], rows)


def _epochs(results: Results, arm: str, error: int) -> str:
    every = sum(run.arm == arm for run in results.runs)
    found = Difference(tuple(reached(results, arm, error).values()))
    if not found.n:
        return "never"
    said = f"{found.mean:.1f}"
    said = said if found.n == every else f"{said} ({found.n} of {every} seeds)"
    difference = head_start(results, arm, MMC, error)
    if arm == MMC or difference.n < 2:
        return said
    # Whole epochs that agree by chance have a deviation of 0 and would make an interval of no width.
    return f"{said} ({between(difference) if difference.deviation else signed(difference.mean)})"


def choices(results: Results, families: Sequence[Family], beside: Beside, reference: str = MMC) -> str:
    """By accuracy on held-out images; of adversarially trained models by that under PGD-10."""
    title = next(arm.title for arm in results.study.arms if arm.name == reference)
    known = validation(results, reference, beside)
    first = [title, NOT_RUN if known is None else f"{100 * known:.1f}", "–", seeds_told(results, reference, beside)]
    rows = [_choice(results, choose(results, family, beside), beside) for family in families]
    score = "validation accuracy under PGD-10" if reference == AT_MMC else "validation accuracy"
    return markdown(
        ["form", f"{score} at seed {SCAN_SEED}, in %", "chosen", f"run with {ENOUGH_SEEDS}"], [first, *rows]
    )


def _choice(results: Results, choice: Choice, beside: Beside) -> list[str]:
    titles = {arm.name: arm.title for arm in results.study.arms}
    if not choice.scores:
        return [choice.family.title, NOT_RUN, NOT_RUN, NOT_RUN]
    told = {name: f"{choice.scores[name]:.1f}" if name in choice.scores else NOT_RUN for name in choice.family.names}
    scores = ", ".join(f"{name.rpartition('-')[2]}: {said}" for name, said in told.items())
    taken = "; ".join(titles[name] for name in choice.taken) or seeds_told(results, choice.best, beside)
    return [choice.family.title, scores, titles[choice.best], taken if choice.followed else f"**another one:** {taken}"]


def scan(results: Results, waiting: Sequence[str], beside: Beside) -> str:
    """Every run of the first seed with its own intervals, and of those ``waiting`` the ones that are trained."""
    found = {run.arm: run for run in results.runs if run.seed == SCAN_SEED}
    rows = []
    for arm in results.study.arms:
        if arm.name in found:
            rows.append([arm.title, *_scanned(found[arm.name], beside)])
        elif arm.name in waiting and SCAN_SEED in beside.seeds(arm.name):
            loss = _loss(beside.training_loss(f"{arm.name}-seed{SCAN_SEED}"))
            rows.append([arm.title, TRAINED, *["–"] * 4, loss])
    header = [
        *("arm (seed 0)", "clean", "superclass", "mistakes within", "worst case", "mistakes within, attacked"),
        "training loss",
    ]
    return markdown(header, rows)


def geometry(results: Results) -> str:
    """Where the centers of every arm lie; those of EMC move in training, and nobody wrote down where to."""
    titles = {arm.name: arm.title for arm in results.study.arms}
    header = ["arm (seed 0)", "lengths of centers", "nearest two", "nearest across"]
    return markdown(header, [[titles[run.arm], *_placed(run)] for run in _first_seeds(results)])


def _first_seeds(results: Results) -> list[Run]:
    order = [arm.name for arm in results.study.arms]
    return sorted((run for run in results.runs if run.seed == SCAN_SEED), key=lambda run: order.index(run.arm))


def _scanned(run: Run, beside: Beside) -> list[str]:
    clean, worst = run.mistakes["clean"], run.mistakes["worst"]
    rates = (run.clean, clean.superclass_accuracy, clean.within, run.robust, worst.within)
    return [*(_rate(rate) for rate in rates), _loss(beside.training_loss(run.name, run.fingerprint))]


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _placed(run: Run) -> list[str]:
    low, high, nearest, across = (f"{run.centers[name]:.1f}" for name in ("shortest", "longest", "nearest", "across"))
    cells = [low if low == high else f"{low} to {high}", nearest, across]
    return [f"{each} at the start" for each in cells] if run.arm in EMC.names else cells


def checked(results: Results, near: Results, beside: Beside) -> str:
    """The worst case in one ball by the short suite and by the careful one, of MMC and of what validation chose."""
    count = int(near.about.get("samples", _CHECKED))
    titles = {arm.name: arm.title for arm in results.study.arms}
    families = [choose(results, family, beside) for family in PLAIN]
    wanted = [name for choice in families for name in (*choice.taken, choice.best) if name]
    rows = []
    for arm in dict.fromkeys((MMC, *wanted)):
        runs = [run for run in results.runs if run.arm == arm]
        later, short = [beside.broken_later(run) for run in runs], [beside.stands(run, count) for run in runs]
        careful = [run.robust for run in near.runs if run.arm == arm]
        against = judge(near, Contrast(arm, MMC, "worst")).difference
        if not runs and not careful and beside.seeds(arm):
            rows.append([titles[arm], TRAINED, *["–"] * 4])
            continue
        cells = [_seeds([run.robust for run in runs]), _seeds(later), _seeds(short), _seeds(careful)]
        rows.append([titles[arm], *cells, "–" if arm == MMC else effect(against)])
    first = f"the first {count:,}"
    header = [
        f"worst case at {near.study.epsilon}",
        f"by `{results.study.suite}`",
        "later attacks broke",
        f"by it, {first}",
        f"by `{near.study.suite}`, {first}",
        f"by `{near.study.suite}`, less MMC-10",
    ]
    return markdown(header, rows)


def _seeds(rates: Sequence[Rate | None]) -> str:
    """Of one training with the interval over images, of several the mean and the spread."""
    found = [rate for rate in rates if rate is not None]
    if not found:
        return NOT_RUN
    return _rate(found[0]) if len(found) == 1 else spread([100 * rate.value for rate in found])


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else typeset(str(rate)).replace(" %", "")

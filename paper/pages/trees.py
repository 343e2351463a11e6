"""paper/results/trees.md: when hierarchical centers help, on CIFAR-100."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.records.statistics import Rate
from maxmahal.report.wording import counted
from paper import reproduce
from paper.pages.models import network_title
from paper.pages.paired import ENOUGH, EQUAL, POINT, Difference
from paper.pages.study import (
    DAGGER,
    EARLY,
    Judged,
    Outcome,
    Results,
    Run,
    comparison_table,
    corrected,
    is_run,
    judged_of,
    outcome,
    tally,
)
from paper.pages.study_files import read_results
from paper.pages.text import NOT_RUN, difference, markdown_table, rate_text, render
from paper.pages.trees_figures import alternative, draw_figures
from paper.pages.trees_long import Long, read_long
from paper.pages.trees_scan import (
    Apart,
    Beside,
    adversarial_gaps,
    at_the_edge,
    loss_and_robustness,
    read_beside,
    same_ratio,
    scan_runs,
    small_ratios,
)
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    BETWEEN,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    NAMES,
    ORTHOGONAL,
    PLAIN,
    RANDOM,
    RATIOS,
    SMALL,
    TREE_STUDIES,
    ratio_of,
    seeded,
    with_contrasts,
)

SAME_RATIO = ((ORTHOGONAL, RANDOM, "given vs random tree"), (LEARNED, ORTHOGONAL, "learned vs given tree"))


def trees_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none if nothing was collected."""
    every = corrected([with_contrasts(each) for each in read_results(results, TREE_STUDIES)])
    if not any(each.runs for each in every):
        return {}
    beside = read_beside(results)
    drawn = draw_figures([every[0], every[2]], beside)
    page = trees_page(every, beside, read_long(results), list(drawn))
    return {"trees.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}


def trees_page(every: Sequence[Results], beside: Beside, long: Long, figures: Sequence[str] = ()) -> str:
    """The whole page, of studies that were corrected together."""
    plain, near, strict = every
    groups, size = _tree()
    contrasts, given = plain.study.contrasts, seeded(plain, GIVEN_NAMES)
    return render(
        "trees",
        lead=lead(plain, near) if is_run(plain) else None,
        long=long,
        adversarial=adversarial_gaps(beside),
        adversarial_scores={
            arm.title: 100 * score
            for arm in strict.study.arms
            if arm.name in (AT_MMC, *AT_ORTHOGONAL.names) and (score := beside.validation(arm.name)) is not None
        },
        small={metric: small_ratios(plain, metric, beside) for metric in ("clean", "superclass", "worst")},
        small_outcome=small_outcome(small_ratios(plain, "clean", beside)),
        small_limit=SMALL,
        shown=shown,
        figure=lambda name: f"![{alternative(name)}](figures/{name})" if name in figures else "",
        reproduce=reproduce,
        effects=comparison_table(plain, [each for each in contrasts if each.reference == MMC], NAMES, MMC),
        others=comparison_table(plain, [each for each in contrasts if each.reference != MMC], NAMES),
        careful=[(each.study, comparison_table(each, each.study.contrasts, NAMES)) for each in (near, strict)],
        equal_ratios={
            title: same_ratio(plain, ours, theirs, "superclass", beside) for ours, theirs, title in SAME_RATIO
        },
        edges=[plain.study.arm_title(arm) for family in PLAIN if (arm := at_the_edge(plain, family))],
        scan=scan_table(plain, beside),
        fit=loss_and_robustness(plain, beside),
        attacks=beside.attacks,
        later={arm: later for arm in (MMC, *given) if (later := _later(plain, arm, beside)) is not None},
        mmc=MMC,
        recipes=(next(({**plain.shared, **run.settings} for run in plain.runs), {}), beside.settings(AT_MMC)),
        network_title=network_title,
        about=plain.about,
        strict=strict.study,
        groups=groups,
        group_size=size,
        even_ratio=even_ratio(),
        last_ratio=RATIOS[-1],
        early=EARLY,
        least=POINT,
        equal=EQUAL,
        enough=counted("seed", ENOUGH),
        dagger=DAGGER,
        tally=tally(every),
    )


def shown(found: Judged | Apart | Difference | None) -> str:
    """ "+1.2 [−0.3, +2.7]" of any difference in points."""
    if found is None:
        return "not measured"
    if isinstance(found, Apart):
        return difference(found.size, (found.low, found.high))
    plain = found.difference if isinstance(found, Judged) else found
    return difference(plain.mean, plain.interval) + (found.dagger if isinstance(found, Judged) else "")


def lead(plain: Results, near: Results) -> dict[str, Any]:
    """The message: hierarchical centers in orthogonal subspaces if these have seeds, else the first form that has."""
    given = seeded(plain, GIVEN_NAMES)
    main = next(iter([*seeded(plain, ORTHOGONAL.names), *given]), "")
    judged = {each.contrast.metric: each for each in judged_of(plain, [main], (MMC,))}
    worst = [*judged_of(plain, given, (MMC,)), *judged_of(near, given, (MMC,))]
    random = judged_of(plain, RANDOM.names, (MMC,))
    ahead = [each for each in judged_of(plain, [main], RANDOM.names) if each.contrast.metric == "superclass"]
    return {
        "form": plain.study.arm_title(main) if main else "",
        "epochs": plain.shared.get("train.epochs"),
        "seeds": counted("seed", *(each.difference.n for each in judged.values())) if judged else "",
        **{metric: judged.get(metric) for metric in ("clean", "superclass", "near", "worst")},
        "milder": [each for each in judged.values() if each.contrast.metric == "superclass" and _helps(each)],
        "robust": [each for each in worst if each.contrast.metric == "worst" and _helps(each)],
        "random": random,
        "random_differs": [each for each in random if each.difference.verdict() != "no difference seen"],
        "random_width": max((each.difference.half_width for each in random), default=math.nan),
        "over_random": ahead[0] if ahead else None,
        "tree": bool(ahead) and _helps(ahead[0]),
        "prediction": outcome(plain, plain.study.predictions[0]) if plain.study.predictions else NOT_RUN,
        "ratios": ", ".join(sorted({ratio_of(arm) for arm in given})),
    }


def small_outcome(gaps: Sequence[Apart]) -> Outcome:
    """Whether clean accuracy is higher at the ratios that the paper means, over images of one training each."""
    helps = [gap.low > 0 and gap.size >= POINT for gap in gaps]
    hurts = [gap.high < 0 and gap.size <= -POINT for gap in gaps]
    if any(helps):
        return "came true" if all(helps) else "came true in part"
    return "did not come true" if any(hurts) else "undecided"


def _helps(judged: Judged) -> bool:
    return judged.difference.verdict() == "helps"


def scan_table(results: Results, beside: Beside) -> str:
    """Every run of the scan: accuracies with intervals over images, training loss, and where its centers are."""
    rows = [[results.study.arm_title(arm), *_scanned(run, beside)] for arm, run in scan_runs(results).items()]
    header = ["arm (seed 0)", "validation", *(NAMES[metric] for metric in BETWEEN), NAMES["worst-near"]]
    return markdown_table([*header, "training loss", "lengths", "nearest two", "nearest across"], rows)


def _scanned(run: Run, beside: Beside) -> list[str]:
    rates = [run.rate(metric) for metric in (*BETWEEN, "worst-near")]
    low, high, *distances = (f"{run.centers[name]:.1f}" for name in ("shortest", "longest", "nearest", "across"))
    numbers = [None if run.validation is None else 100 * run.validation, beside.training_loss(run)]
    validation, loss = ("–" if each is None else f"{each:.1f}" for each in numbers)
    return [validation, *map(_rate, rates), loss, low if low == high else f"{low} to {high}", *distances]


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else rate_text(rate).replace(" %", "")


def _later(results: Results, arm: str, beside: Beside) -> float | None:
    rates = [rate for run in results.runs if run.arm == arm and (rate := beside.broken_later(run)) is not None]
    return sum(rate.value for rate in rates) / len(rates) if rates else None


def _tree() -> tuple[int, int]:
    """How many superclasses, and how many classes each has."""
    sizes = Counter(CIFAR100_SUPERCLASSES)
    return len(sizes), max(sizes.values())


def even_ratio() -> float:
    """Where classes of one superclass in orthogonal subspaces are as far apart as others.

    2·C2²·m/(m − 1) = 2·C1²·g/(g − 1) + 2·C2² for g superclasses of m classes.
    """
    groups, size = _tree()
    return math.sqrt(groups * (size - 1) / (groups - 1))

"""paper/results/variants.md: seven grids of variants that the paper leaves to future work, on digits."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from maxmahal.report.wording import counted
from paper import reproduce
from paper.pages.paired import ENOUGH, EQUAL, POINT
from paper.pages.study import (
    DAGGER,
    EARLY,
    Arm,
    Contrast,
    Judged,
    Metric,
    Prediction,
    Results,
    Study,
    against,
    comparison_table,
    corrected,
    is_run,
    judge,
    outcome,
    spread,
    tally,
)
from paper.pages.study_files import read_results
from paper.pages.text import NOT_RUN, listed, markdown_table, render
from paper.pages.variants_figures import draw_figures, figure_name

_NAMES: dict[Metric, str] = {"clean": "clean", "worst": "worst case", "early": "first epochs"}
_MMC = "variants-mmc"
_REFERENCE = Arm(_MMC, "MMC-10", "MMC")
_FORMS = ("squared", "absolute", "huber")


def _emc() -> Study:
    arms = [
        Arm(f"variants-emc-{a}", f"EMC, α = {float(a):g}", f"α={float(a):g}") for a in ("0.01", "0.1", "1.0", "10.0")
    ]
    names = [arm.name for arm in arms]
    limit = Prediction(against(_MMC, names[:1], "worst", "clean"), "equal")
    return Study(
        "emc", "Elastic centers (Eq. 21)", (_REFERENCE, *arms), against(_MMC, names, "worst", "clean"), (limit,)
    )


def _hierarchical() -> Study:
    shapes = [
        Arm(f"variants-shape-{ratio}", f"by shape, ratio {ratio}", f"shape {ratio}") for ratio in ("0.1", "0.3", "1")
    ]
    control = Arm("variants-value-0.3", "by value, ratio 0.3", "value 0.3")
    contrasts = (
        *against(_MMC, [arm.name for arm in shapes], "worst", "clean"),
        *against(control.name, [shapes[1].name], "worst", "clean"),
    )
    return Study("hierarchical", "Hierarchical centers (appendix B.3)", (_REFERENCE, *shapes, control), contrasts)


def _form(condition: str, form: str) -> str:
    return _MMC if (condition, form) == ("clean", "squared") else f"variants-{condition}-{form}"


def _forms() -> Study:
    conditions = {
        "clean": ("clean labels", "clean"),
        "noise20": ("20 % wrong labels", "20 %"),
        "noise40": ("40 % wrong labels", "40 %"),
        "at": ("adversarial training", "AT"),
    }
    arms = [
        Arm(_form(condition, form), f"{words}, {form}", f"{tick} {form[:3]}.")
        for condition, (words, tick) in conditions.items()
        for form in _FORMS
    ]

    def others(condition: str, *metrics: Metric) -> tuple[Contrast, ...]:
        return against(_form(condition, "squared"), [_form(condition, form) for form in _FORMS[1:]], *metrics)

    return Study(
        "forms",
        "Squared, absolute or Huber (appendix B.2)",
        tuple(arms),
        tuple(each for condition in conditions for each in others(condition, "clean", "worst")),
        (
            Prediction(others("clean", "early"), "hurts"),
            Prediction(others("clean", "clean"), "hurts"),
            Prediction((*others("noise20", "clean"), *others("noise40", "clean")), "helps"),
            Prediction(others("at", "worst"), "hurts"),
        ),
    )


def _norm() -> Study:
    titles = {"1": "C = 1", "3": "C = 3", "30": "C = 30", "100-scaled": "C = 100, scaled"}
    arms = [Arm(f"variants-norm-{norm}", title, title.removeprefix("C = ")) for norm, title in titles.items()]
    names = [arm.name for arm in arms]
    return Study(
        "norm",
        "The norm of the centers",
        (*arms[:2], _REFERENCE, *arms[2:]),
        against(_MMC, names, "worst", "clean"),
        (Prediction(against(_MMC, names, "worst"), "does not help"),),
    )


def _dim() -> Study:
    arms = [Arm(f"variants-dim-{dim}", f"d = {dim}", f"d={dim}") for dim in ("9", "16", "256", "512")]
    contrasts = against(_MMC, [arm.name for arm in arms], "worst", "clean")
    return Study("dim", "The dimension of the features", (*arms[:2], _REFERENCE, *arms[2:]), contrasts)


def _centers() -> Study:
    dims = ("2", "5", "8")
    codes = [Arm(f"variants-code-{dim}", f"optimised code, d = {dim}", f"code {dim}") for dim in dims]
    randoms = [Arm(f"variants-rand-{dim}", f"random, d = {dim}", f"rand {dim}") for dim in (*dims, "64")]
    pairs = list(zip(randoms, [*codes, _REFERENCE], strict=True))
    worst, clean = (
        tuple(Contrast(ours.name, theirs.name, metric) for ours, theirs in pairs) for metric in ("worst", "clean")
    )
    return Study(
        "centers",
        "Optimised codes and random centers",
        tuple(arm for random, reference in pairs for arm in (reference, random)),
        (*worst, *clean, *against(_MMC, [arm.name for arm in codes], "worst", "clean")),
        (Prediction(worst, "hurts"),),
    )


def _pairing() -> Study:
    titles = {"0.0": "both images, not paired", "0.5": "paired, weight 0.5", "2.0": "paired, weight 2"}
    arms = [Arm(f"variants-pairing-{each}", title, title.removeprefix("paired, ")) for each, title in titles.items()]
    unpaired, *paired = (arm.name for arm in arms)
    alone = Arm("variants-at-squared", "adversarial images only", "adversarial only")
    return Study(
        "pairing",
        "Adversarial pairing of features (ALP)",
        (alone, *arms),
        against(unpaired, [*paired, alone.name], "worst", "clean"),
        (Prediction(against(unpaired, paired, "worst"), "does not help"),),
    )


STUDIES = (_emc(), _hierarchical(), _forms(), _norm(), _dim(), _centers(), _pairing())


def variant_pages(folder: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none if nothing was collected."""
    every = corrected(read_results(folder, STUDIES))
    figures = {f"figures/{name}": text for name, text in draw_figures(every).items()}
    return {"variants.md": variants_page(every), **figures} if any(is_run(each) for each in every) else figures


def variants_page(every: Sequence[Results]) -> str:
    """The whole page, of studies that were corrected together."""
    studies = {each.study.name: each for each in every}
    return render(
        "variants",
        about=next(each.about for each in every if is_run(each)),
        early=EARLY,
        dagger=DAGGER,
        least=POINT,
        equal=EQUAL,
        enough=counted("seed", ENOUGH),
        tally=tally(every),
        study_count=len(every),
        studies_with=lambda verdict: listed(_studies_with(every, verdict)) or "none",
        outcomes=listed([f"{count} {found}" for found, count in _outcomes(every).items()]),
        under_attack=lambda name: _under_attack(studies[name]),
        outcome=lambda name, place=0: outcome(studies[name], studies[name].study.predictions[place]),
        section=lambda name: _section(studies[name]),
        figure=lambda name: _figure(studies[name]),
        widest=_widest_table(every),
    )


def _section(results: Results) -> str:
    """The command, what was measured, and the comparisons."""
    command = reproduce(f"variants-{results.study.name}")
    if not is_run(results):
        return f"{command}: {NOT_RUN}."
    comparisons = comparison_table(results, sorted(results.study.comparisons, key=_order), _NAMES)
    return "\n\n".join([command, _measured(results), comparisons])


def _figure(results: Results) -> str:
    return f"![{results.study.title}](figures/{figure_name(results)})" if is_run(results) else ""


def _studies_with(every: Sequence[Results], verdict: str) -> list[str]:
    """Titles of the studies with such an arm under attack; without a verdict, of those without a difference."""
    found = [each for each in every if is_run(each)]
    chosen = (
        [each for each in found if _arms_with(each, verdict)]
        if verdict
        else [each for each in found if _under_attack(each) == "no difference seen"]
    )
    return [f"*{each.study.title.partition(' (')[0].lower()}*" for each in chosen]


def _outcomes(every: Sequence[Results]) -> Counter[str]:
    return Counter(outcome(each, prediction) for each in every for prediction in each.study.predictions)


def _order(contrast: Contrast) -> int:
    return list(_NAMES).index(contrast.metric)


def _measured(results: Results) -> str:
    header = ["arm", "seeds", *_NAMES.values(), "strongest single attack leaves"]
    return markdown_table(header, [_row(results, arm) for arm in results.study.arms])


def _row(results: Results, arm: Arm) -> list[str]:
    runs = [run for run in results.runs if run.arm == arm.name]
    cells = [spread(results.of(arm.name, metric).values()) for metric in _NAMES]
    left = {name: sum(run.stages[name].value for run in runs) / len(runs) for run in runs[:1] for name in run.stages}
    best = min(left, key=lambda name: left[name], default="")
    return [arm.title, str(len(runs)), *cells, f"{100 * left[best]:.1f} ({best})" if best else NOT_RUN]


def _arms_with(results: Results, verdict: str) -> list[str]:
    """Titles of the arms with a verdict on worst-case accuracy."""
    judged = [judge(results, each) for each in results.study.contrasts if each.metric == "worst"]
    return list(dict.fromkeys(results.study.arm_title(one.contrast.arm) for one in judged if one.verdict == verdict))


def _under_attack(results: Results) -> str:
    """Which arms help, hurt or may do so in worst-case accuracy."""
    found = {verdict: _arms_with(results, verdict) for verdict in ("helps", "hurts", "true, small", "may be chance")}
    # A verdict against one reference stays if another comparison of the arm may be chance.
    settled = {*found["helps"], *found["hurts"], *found["true, small"]}
    found["may be chance"] = [title for title in found["may be chance"] if title not in settled]
    told = [f"{verdict}: {listed(titles)}" for verdict, titles in found.items() if titles]
    return "; ".join(told) or ("no difference seen" if is_run(results) else NOT_RUN)


def _widest_table(every: Sequence[Results]) -> str:
    """For each study the widest interval without a difference, and the seeds that would narrow it to a point."""
    rows = []
    for results in every:
        judged = [judge(results, contrast) for contrast in results.study.contrasts]
        unseen: list[Judged] = [one for one in judged if one.verdict == "no difference seen"]
        if unseen:
            one = max(unseen, key=lambda each: each.difference.half_width)
            pair = " vs ".join(results.study.arm_title(arm) for arm in (one.contrast.arm, one.contrast.reference))
            width, seeds = one.difference.half_width, one.difference.seeds_for(POINT)
            rows.append([results.study.title, f"{pair}, {_NAMES[one.contrast.metric]}", f"±{width:.1f}", f"{seeds}"])
    return markdown_table(["study", "comparison", "interval, points", f"seeds for ±{POINT:g}"], rows, words=2)

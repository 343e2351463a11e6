"""paper/results/variants.md: a table, a figure and a paragraph a study, from the studies' files alone."""

from collections.abc import Sequence

from paper import reproduce
from paper.pages.judging import POINT
from paper.pages.paired import ENOUGH_SEEDS, EQUAL, Difference
from paper.pages.shelf import NOT_RUN
from paper.pages.tables import markdown
from paper.pages.variants.figures import figure_name
from paper.pages.variants.results import EARLY, Results
from paper.pages.variants.rules import ALONE, Kept, is_run, lasting, many, sentences, verdict_line
from paper.pages.variants.spec import METRICS, Arm, Metric

_MADE = "Written by `paper/publish.py` from the files beside this page; no number is typed by hand."
_RULE = (
    "Each variant is trained with several seeds and set against its reference seed by seed. The effect is the mean of "
    "the differences in percentage points, with a 95 % t interval over the seeds (n); fewer than "
    f"{ENOUGH_SEEDS} count as not run. A variant *helps* or *hurts* if "
    f"the interval leaves out zero, the mean is at least {POINT:g} point, and the difference outlasts the number of "
    f"comparisons; what fails in the last alone *may be chance* ({ALONE}); otherwise there is *no difference seen*, "
    f"which is not proof of equality. Two are called equal if the whole interval stays within ±{EQUAL:g} points; a "
    "predicted effect that is not seen, or may be chance, counts as refuted only then, and as undecided where the "
    "interval is wider. Being equal is judged by the interval alone: there is no test of it to correct."
)
_FAMILY = (
    "All comparisons of this page are corrected together and not study by study, because the table below picks its "
    "differences from all studies at once."
)
_ORDER: tuple[Metric, ...] = ("clean", "worst", "early")


def variants_page(every: Sequence[Results]) -> str:
    """The whole page; empty where nothing was run."""
    if not any(is_run(each) for each in every):
        return ""
    kept = lasting(every)
    parts = [
        "# What the paper left as future work, put to the test",
        f"{_MADE} Small models on the embedded 8x8 digits, 20 epochs on one CPU core: this tells what a variant does "
        "there, and no more.",
        _attacks(every),
        _RULE,
        f"{many(every, kept)} {_FAMILY}",
        markdown(["study", "under attack", "arms run"], [_line(each, kept) for each in every]),
    ]
    for each in every:
        parts += [f"## {each.study.title}", each.study.asks, reproduce(f"variants-{each.study.name}")]
        if not is_run(each):
            parts.append("**Not run.** The command above makes it.")
            continue
        parts += [_table(each), f"![{each.study.title}](figures/{figure_name(each)})", *sentences(each, kept)]
    return "\n\n".join(parts) + "\n"


def _attacks(every: Sequence[Results]) -> str:
    about = next(each.about for each in every if is_run(each))
    return (
        f"Worst case: the accuracy left per sample by every attack of the suite `{about['suite']}` "
        f"(version {about['suite_version']}) at {about['norm']} {about['epsilon']} on all {about['samples']:,} test "
        f"images; *first epochs* are the first {EARLY}."
    )


def _line(results: Results, kept: Kept) -> list[str]:
    run = sum(bool(results.of(arm.name, "clean")) for arm in results.study.arms)
    return [results.study.title, verdict_line(results, kept), f"{run} of {len(results.study.arms)}"]


def _table(results: Results) -> str:
    attacks = list(dict.fromkeys(name for run in results.runs for name in run.stages))
    header = ["arm", "seeds", *(METRICS[metric] for metric in _ORDER), "strongest single attack leaves"]
    return markdown(header, [_row(results, arm, attacks) for arm in results.study.arms])


def _row(results: Results, arm: Arm, attacks: Sequence[str]) -> list[str]:
    seeds = results.of(arm.name, "clean")
    if not seeds:
        return [arm.title, "0", *[NOT_RUN] * (len(_ORDER) + 1)]
    cells = [spread(list(results.of(arm.name, metric).values())) for metric in _ORDER]
    left = {name: _mean_left(results, arm, name) for name in attacks}
    best = min(left, key=lambda name: left[name], default="")
    return [arm.title, str(len(seeds)), *cells, f"{left[best]:.1f} ({best})" if best else NOT_RUN]


def _mean_left(results: Results, arm: Arm, attack: str) -> float:
    rates = [run.stages[attack] for run in results.runs if run.arm == arm.name and attack in run.stages]
    return 100 * sum(rate.value for rate in rates) / len(rates) if rates else 100.0


def spread(values: Sequence[float]) -> str:
    """Mean ± sample deviation over seeds."""
    found = Difference(tuple(values))
    return f"{found.mean:.1f} ± {found.deviation:.1f}" if found.n > 1 else f"{found.mean:.1f}"

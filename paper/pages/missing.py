"""What the tables lack, as a list: every model and column, and whole data sets in one line."""

from maxmahal.report.wording import listed
from paper.pages.balls import in_own_ball, known_suite
from paper.pages.hundred import WHOLE
from paper.pages.models import ADVERSARIAL_CIFAR100
from paper.pages.shelf import OTHER_RATE, STRONG, Shelf
from paper.pages.tables import DEPTH, DEPTH_CIFAR100, HUNDRED, THREATS, WHITE_BOX, PaperTable, gaps
from paper.pages.trees_study import NEAR, STRICT
from paper.summaries import BEST, Summary

_TEN = (WHITE_BOX, THREATS, DEPTH)
_HUNDRED = (HUNDRED, DEPTH_CIFAR100)
_NEVER = ("nothing was run on", "in training, or broken off, and not attacked:", "trained, not attacked yet:")
"""Of models without an evaluation: how far they came."""
_TREES, _TREES_AT = "trees-", "trees-at-"  # how the names of models of class trees begin
_FIGURE = "- Figure 3b (attack paths in two-dimensional features of MNIST): not part of these results."


def missing_list(shelf: Shelf) -> str:
    """Every cell of the paper's tables that has no number of ours, and what was run and stands in none of them."""
    measured = {each.name for each in shelf.evaluations}
    wanted = _wanted(shelf, _TEN)
    hundred = _wanted(shelf, _HUNDRED) | _adversarial(shelf)
    lines = _lines(shelf, wanted)
    if measured & {*HUNDRED.models, *DEPTH_CIFAR100.models, *ADVERSARIAL_CIFAR100}:
        lines += _lines(shelf, hundred)
    else:
        lines.append("- Table 4 and the CIFAR-100 half of Table 5: none of their models is among these results.")
    told = {_attacked(each) for each in shelf.smaller("cifar10")}
    lines += [
        f"- `{each.name}`: {each.suite} was run at {each.norm} {each.epsilon}, which none of these tables is about"
        for each in shelf.evaluations
        if not in_own_ball(each) and _attacked(each) not in told
    ]
    return "\n".join([*lines, *_scan(shelf), *_older(shelf), *_apart(shelf), _FIGURE])


def _older(shelf: Shelf) -> list[str]:
    """Models that were measured with a suite as it was before, a line a suite and version."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for each in shelf.evaluations:
        if (now := known_suite(each.suite)) is not None and each.suite_version < now.version:
            found.setdefault((each.suite, each.suite_version, now.version), []).append(f"`{each.name}`")
    return [
        f"- measured with version {version} of `{suite}`, which is at version {now} now: "
        f"{', '.join(dict.fromkeys(names))}"
        for (suite, version, now), names in sorted(found.items())
    ]


def _apart(shelf: Shelf) -> list[str]:
    """Models whose training was made again, or collected elsewhere, and whose evaluations were not."""
    names = [
        f"`{each.name}`"
        for each in shelf.evaluations
        if (run := shelf.run(each.name.removesuffix(BEST))) and not run.made(each.name, each.model_fingerprint)
    ]
    told = "- evaluated with other weights than their trainings here ended with, so to be evaluated again"
    return [f"{told}: {', '.join(dict.fromkeys(names))}"] if names else []


def _attacked(summary: Summary) -> tuple[str, str, str, float]:
    return summary.name, summary.suite, summary.norm, summary.radius


def _wanted(shelf: Shelf, tables: tuple[PaperTable, ...]) -> dict[str, list[str]]:
    """Each model with the columns that it lacks, each of them once."""
    wanted: dict[str, list[str]] = {}
    for table in tables:
        for model in table.models:
            known = wanted.setdefault(model, [])
            known.extend(gap for gap in gaps(shelf, table, model) if gap not in known)
    return wanted


def _adversarial(shelf: Shelf) -> dict[str, list[str]]:
    """What was not attacked at all, and of last checkpoints what was attacked on a few images alone."""
    wanted: dict[str, list[str]] = {}
    found = [each.name for each in shelf.evaluations if OTHER_RATE.sub("", each.name) in ADVERSARIAL_CIFAR100]
    rates = sorted({end for name in found if (end := name.removeprefix(OTHER_RATE.sub("", name)))})
    for base in ADVERSARIAL_CIFAR100:
        known = {suite: shelf.robust(base, suite) for suite in STRONG}
        lacks = [suite for suite, found in known.items() if found is None]
        if few := [suite for suite, found in known.items() if found and found.limited]:
            lacks.append(f"{listed(few)} on all images (`{WHOLE}`)")
        wanted[base] = lacks
        for rate in rates:
            wanted[base + rate] = [STRONG[0]] if shelf.robust(base + rate, STRONG[0]) is None else []
        wanted[f"{base}{BEST}"] = [suite for suite in STRONG if shelf.robust(f"{base}{BEST}", suite) is None]
    return wanted


def _scan(shelf: Shelf) -> list[str]:
    """Of the scan of class trees, which grids of the careful suite are open; nothing where it was not begun."""
    trained = [run.name for run in shelf.runs if run.name.startswith(_TREES) and run.finished]
    careful = [each for each in shelf.evaluations if each.name.startswith(_TREES) and each.suite == NEAR.suite]
    lines = []
    if trained and not any(each.epsilon == NEAR.epsilon for each in careful):
        lines.append(f"- `{NEAR.name}`: no model of class trees was attacked by {NEAR.suite} at {NEAR.epsilon}")
    done = {each.name for each in careful if in_own_ball(each)}
    if open_ := [f"`{name}`" for name in trained if name.startswith(_TREES_AT) and name not in done]:
        lines.append(f"- `{STRICT.name}`: trained, and not attacked by {STRICT.suite}: {', '.join(open_)}")
    return lines


def _lines(shelf: Shelf, wanted: dict[str, list[str]]) -> list[str]:
    """What was attacked, each with what it lacks; then what was not, by how far its training came."""
    measured = {each.name for each in shelf.evaluations}
    lines = [f"- `{model}`: {', '.join(lacks)}" for model, lacks in wanted.items() if lacks and model in measured]
    never: dict[str, list[str]] = {words: [] for words in _NEVER}
    for model in wanted:
        if model not in measured:
            run = shelf.run(model.removesuffix(BEST))
            never[_NEVER[0] if run is None else _NEVER[1] if not run.finished else _NEVER[2]].append(f"`{model}`")
    return [*lines, *(f"- {words} {', '.join(names)}" for words, names in reversed(never.items()) if names)]

"""The results page's sections, one a data set; what was not measured at all is a line and no table."""

from collections.abc import Sequence

from maxmahal.report.wording import listed
from paper import reproduce
from paper.pages.adversarial import compared_models, long_told, paired_table, short_told, spreads
from paper.pages.apart import apart_note, clean_note, distances_apart, networks_note
from paper.pages.checkpoints import best_note
from paper.pages.hierarchical import TREES, hm_note
from paper.pages.hundred import (
    hundred_models,
    losses_note,
    losses_pairs,
    losses_table,
    losses_verdict,
)
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    BEYOND,
    DATA,
    LONG,
    PGD_8,
    PGD_16,
    PLAIN,
    SHORT,
    SPSA,
    TABLE_1,
    TABLE_2,
    TABLE_4,
    TABLE_5,
    TABLE_5_CIFAR100,
    data_of,
)
from paper.pages.narrow import narrow_models, narrow_section
from paper.pages.nearest import nearest_table
from paper.pages.shelf import SIZES, Shelf
from paper.pages.smaller import smaller_section
from paper.pages.table_notes import threats_note
from paper.pages.tables import (
    HUNDRED,
    THREATS,
    budgets_table,
    depth_table,
    hundred_table,
    spsa_table,
    threats_table,
    unmeasured,
    white_box_table,
)
from paper.pages.trainings import schedules
from paper.pages.undertrained import undertrained
from paper.summaries import Summary

_FEW = (
    f"SPSA by `{SIZES}` is on the first 100 images; the paper does not say how many it took, but its whole percents "
    "suggest as many. Only PGD-10 on the same images may be compared with it."
)
_OWN_ROWS = "Random centers and HM are rows of our own."
_JUDGED = (
    "How well these were trained and what the numbers say of the paper's claim: [judged by rule]"
    "(claims.md#adversarial-training-is-better-with-mmc-than-with-sce)."
)
_SCANNED = "trees-"  # how the names of models begin that a page of their own is about
_GRIDS = ("table4", "table5-cifar100", "adversarial-cifar100")


def ten_section(shelf: Shelf, figures: Sequence[str]) -> list[str]:
    """CIFAR-10: Tables 1, 2, 3 and half of 5, the two budgets, smaller epsilons, other models, transfer."""
    shown = {*TABLE_1, *TABLE_5, *compared_models(shelf)}
    parts = [
        "## CIFAR-10",
        "### Table 1: white-box attacks",
        white_box_table(shelf),
        *_beside_the_paper(shelf, PLAIN, (*PGD_8, *PGD_16), "Table 1"),
        "### Table 2: C&W, SPSA, noise, rotation",
        *_noted(threats_note(shelf, TABLE_2, THREATS.stages), threats_table(shelf)),
        *_told(distances_apart(shelf, TABLE_2, "Table 2")),
        "### Table 3: SPSA with larger batches, on MMC-10",
        *_noted(_FEW, spsa_table(shelf)),
        "### Table 5: depth, CIFAR-10",
        depth_table(shelf),
        *_told(networks_note(shelf, TABLE_5)),
        *_told(schedules(shelf, TABLE_5)),
        "### Adversarial training at two budgets",
        *_budgets(shelf, figures),
        *smaller_section(shelf),
        *_others(shelf, "cifar10", shown),
    ]
    moved = [name for name in figures if name.startswith("transfer-")]
    if moved:
        parts += ["### Figure 4: transfer", *(f"![Transfer between models](figures/{name})" for name in moved)]
    return parts


def hundred_section(shelf: Shelf) -> list[str]:
    """CIFAR-100: Table 4, half of Table 5, adversarial training of three losses; one line where nothing was run."""
    if not any(_data(shelf, each.name) == "cifar100" for each in shelf.evaluations):
        commands = ", ".join(f"{reproduce(grid)}" for grid in _GRIDS)
        return ["## CIFAR-100", f"Nothing has been measured on CIFAR-100 yet; these would: {commands}."]
    shown = {*TABLE_4, *TABLE_5_CIFAR100, *hundred_models(shelf), *narrow_models(shelf)}
    parts = [
        "## CIFAR-100",
        "### Table 4: PGD, SPSA, C&W",
        *_noted(f"{threats_note(shelf, TABLE_4, HUNDRED.stages)} {_OWN_ROWS}", hundred_table(shelf)),
        hm_note(shelf),
        *_beside_the_paper(shelf, TABLE_4, (*PGD_8, *SPSA), "Table 4"),
        distances_apart(shelf, TABLE_4, "Table 4"),
        nearest_table(shelf, TABLE_4),
        "### Table 5: depth, CIFAR-100",
        depth_table(shelf, "cifar100"),
        networks_note(shelf, TABLE_5_CIFAR100),
        schedules(shelf, TABLE_5_CIFAR100),
        "### Adversarial training of three losses",
        *_noted(losses_note(shelf), losses_table(shelf)),
        losses_pairs(shelf),
        losses_verdict(shelf),
        undertrained(shelf, ADVERSARIAL_CIFAR100),
        *narrow_section(shelf),
        *_others(shelf, "cifar100", shown),
    ]
    return [part for part in parts if part]


def other_sections(shelf: Shelf) -> list[str]:
    """Whatever was measured on data of which the paper has no table."""
    names = sorted({_data(shelf, each.name) for each in shelf.evaluations} - {*DATA})
    return [part for data in names for part in _others(shelf, data, set(), f"## {data}")]


def figure_lines(figures: Sequence[str], name: str, words: str) -> list[str]:
    """A figure, if there is one of that name."""
    return [f"![{words}](figures/{name})"] if name in figures else []


def _noted(note: str, table: str) -> list[str]:
    """A table below the note that explains it, which says nothing where there is no table."""
    return [note, table] if table.startswith("|") else [table]


def _told(note: str) -> list[str]:
    return [note] if note else []


def _beside_the_paper(shelf: Shelf, models: Sequence[str], stages: Sequence[str], table: str) -> list[str]:
    """How far from the paper's numbers, and trained how; all of it without adversarial training, whose budget is told
    where its numbers are.
    """
    notes = [networks_note(shelf, models), clean_note(shelf, models, table), schedules(shelf, models)]
    notes.append(apart_note(shelf, models, stages, table))
    return [note for note in notes if note]


def _budgets(shelf: Shelf, figures: Sequence[str]) -> list[str]:
    models = compared_models(shelf)
    if not any(each.name in models for each in shelf.evaluations):
        return [unmeasured("adversarial-budgets")]
    sce, mmc = spreads(shelf).values()
    return [
        _JUDGED,
        *_told(best_note(shelf, (*LONG, *SHORT))),
        budgets_table(shelf, models),
        paired_table(shelf),
        f"AT (MMC-10) less AT (SCE) under AutoAttack, last checkpoints: at the long budget {long_told(shelf)}; at the "
        f"short one {short_told(shelf)}. Mean ± deviation over training seeds there: AT (SCE) {sce}, "
        f"AT (MMC-10) {mmc}.",
        *figure_lines(figures, "budgets.svg", "How far AT (MMC-10) is ahead of AT (SCE) at two budgets"),
    ]


def _ball(summary: Summary) -> str:
    return f"{summary.norm} {summary.epsilon}"


def _others(
    shelf: Shelf, data: str, shown: set[str], title: str = "### Models outside of the paper's tables"
) -> list[str]:
    """Whatever was evaluated on a data set and stands in none of the tables above; class trees have a page."""
    measured = [each.name for each in shelf.evaluations if _data(shelf, each.name) == data]
    names = [name for name in dict.fromkeys([*BEYOND, *measured]) if name in measured and name not in shown]
    rest = [name for name in names if not name.startswith(_SCANNED)]
    parts = [budgets_table(shelf, rest, sparse=True)] if rest else []
    if scanned := [each for each in shelf.evaluations if each.name in names and each.name not in rest]:
        count = len({each.name for each in scanned})
        places = dict.fromkeys(map(_ball, scanned))
        found = {ball: {each.name for each in scanned if _ball(each) == ball} for ball in places}
        balls = listed([ball if len(of) == count else f"{ball} ({len(of)} of them)" for ball, of in found.items()])
        parts.append(
            f"{count} models of the scan of class trees, with their worst cases at {balls}: [{TREES}]({TREES})."
        )
    return [title, *parts] if parts else []


def _data(shelf: Shelf, model: str) -> str:
    return next((each.data for each in shelf.evaluations if each.name == model), data_of(model))

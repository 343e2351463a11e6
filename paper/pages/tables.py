"""The published tables in Markdown: the paper's number and ours in one cell, and what is missing said as such."""

from collections.abc import Sequence
from dataclasses import dataclass

from paper import reproduce
from paper.pages.measured import Measured
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    DISTANCES,
    PGD_8,
    PGD_16,
    SPSA,
    SPSA_SIZES,
    TABLE_1,
    TABLE_2,
    TABLE_4,
    TABLE_5,
    TABLE_5_CIFAR100,
    TITLES,
    row_title,
    title_of,
)
from paper.pages.shelf import NOT_RUN, PROTOCOL, SIZES, Shelf, counted_right, ours_text, paper_text
from paper.summaries import BEST, StageSummary, Summary

STRONG_TITLES = {"strict": "worst case of strict", "autoattack": "AutoAttack"}


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, or its half about one data set."""

    name: str
    models: tuple[str, ...]
    stages: tuple[str, ...]
    grid: str
    """What `maxmahal reproduce` fills it with."""
    strong: bool = True
    """Whether the worst cases under attacks that measure robustness stand beside it."""


_PGD = ("clean", *PGD_8, *PGD_16)
WHITE_BOX = PaperTable("Table 1", TABLE_1, _PGD, "table1")
THREATS = PaperTable("Table 2", TABLE_2, (*DISTANCES, *SPSA, "noise", "rotation"), "table2", strong=False)
HUNDRED = PaperTable("Table 4", TABLE_4, ("clean", *PGD_8[:2], *SPSA[:2], *DISTANCES), "table4")
DEPTH = PaperTable("Table 5", TABLE_5, _PGD, "table5-cifar10")
DEPTH_CIFAR100 = PaperTable("Table 5", TABLE_5_CIFAR100, _PGD, "table5-cifar100")


def white_box_table(shelf: Shelf) -> str:
    """Table 1, and the worst case under attacks that measure robustness."""
    return paper_table(shelf, WHITE_BOX)


def threats_table(shelf: Shelf) -> str:
    """Table 2."""
    return paper_table(shelf, THREATS)


def spsa_table(shelf: Shelf) -> str:
    """Table 3: one model, batches by rows, and the white-box attack that SPSA should come close to, on two sets of
    images: those of SPSA, which alone may be compared with it, and all of them.
    """
    model, suites = "cifar10-mmc", (SIZES, *PROTOCOL)
    stages = [[f"spsa-{mode}-8{suffix}" for mode in ("un", "tar")] for suffix in SPSA_SIZES.values()]
    if not any(shelf.stage(model, stage, suites) for row in stages for stage in row):
        return unmeasured("table3")
    body = [
        [size, *(_both(shelf, model, stage, "Table 3", suites) for stage in row)]
        for size, row in zip(SPSA_SIZES, stages, strict=True)
    ]
    pgd, sizes = ("pgd10-un-8", "pgd10-tar-8"), shelf.find(model, SIZES)
    if sizes is not None:
        seen = [shelf.right_after(sizes, stage) for stage in pgd]
        cells = ["not measured" if right is None else counted_right(right, sizes.limited).cell for right in seen]
        body.append([f"PGD-10, white box, the same {sizes.samples:,} images", *(f"– / {cell}" for cell in cells)])
    body.append(["PGD-10, white box, as in Table 1", *(_both(shelf, model, stage, "Table 1") for stage in pgd)])
    return markdown(["batch", "SPSA un 8", "SPSA tar 8"], body)


def hundred_table(shelf: Shelf) -> str:
    """Table 4, with rows of our own for random and hierarchical centers."""
    return paper_table(shelf, HUNDRED)


def depth_table(shelf: Shelf, data: str = "cifar10") -> str:
    """One data set's half of Table 5."""
    return paper_table(shelf, DEPTH if data == "cifar10" else DEPTH_CIFAR100)


def white_box_summary(shelf: Shelf) -> str:
    """Table 1 in brief."""
    return paper_table(shelf, WHITE_BOX, ("clean", "pgd10-un-8", "pgd50-un-8"))


def hundred_summary(shelf: Shelf) -> str:
    """Table 4 and adversarial training on CIFAR-100 in brief, only what was measured; empty where nothing was."""
    stages = ("clean", "pgd10-un-8")
    models = [model for model in (*TABLE_4, *ADVERSARIAL_CIFAR100) if _is_measured(shelf, model, stages, True)]
    return _rows(shelf, "Table 4", models, stages, strong=True) if models else ""


def budgets_table(shelf: Shelf, models: Sequence[str], *, sparse: bool = False) -> str:
    """Any models with what they were trained for, clean, under the paper's strongest attack, and at worst.

    ``sparse`` leaves out columns that none of them has a number in.
    """
    columns = {
        "clean": [shelf.clean(name) for name in models],
        "PGD-50 un 8": [shelf.stage(name, "pgd50-un-8") for name in models],
        **{title: [shelf.robust(name, suite) for name in models] for suite, title in STRONG_TITLES.items()},
    }
    shown = {title: found for title, found in columns.items() if any(found) or not sparse}
    cells = zip(*([ours_text(each) for each in found] for found in shown.values()), strict=True)
    body = [[name, _epochs(shelf, name), *row] for name, row in zip(models, cells, strict=True)]
    return markdown(["model", "epochs", *shown], body)


def paper_table(shelf: Shelf, table: PaperTable, stages: Sequence[str] = ()) -> str:
    """All of its columns or some; one sentence where not a single cell of the table was measured."""
    if not any(_is_measured(shelf, model, table.stages, table.strong) for model in table.models):
        return unmeasured(table.grid)
    return _rows(shelf, table.name, table.models, stages or table.stages, strong=table.strong)


def unmeasured(grid: str) -> str:
    """What stands in the place of a table that would say "not run" in every cell."""
    return f"No cell of this table has been measured yet; {reproduce(grid)} fills it."


def gaps(shelf: Shelf, table: PaperTable, model: str) -> list[str]:
    """The columns of a table that a model has no number of ours in."""
    found = [TITLES[stage] for stage in table.stages if _ours(shelf, model, stage) is None]
    return found + [suite for suite in STRONG_TITLES if table.strong and shelf.robust(model, suite) is None]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A pipe table, the first columns, of words, to the left and numbers to the right."""
    lines = [_line(header), "|" + "---|" * words + "---:|" * (len(header) - words)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def trained_epochs(summary: Summary) -> int:
    """How long the training was planned to be; 0 of a model that is not ours."""
    return int(summary.model.get("settings", {}).get("train", {}).get("epochs", 0))


def is_transfer(stage: StageSummary) -> bool:
    """Whether it shows every sample as another model's attack left it; remedies of diagnostics see survivors only."""
    return stage.kind == "transfer" and stage.scope == "all" and bool(stage.source)


def crafting(stage: StageSummary) -> str:
    """How the images of a transfer were made, such as "PGD-10"."""
    return stage.title.removesuffix(f" crafted on {stage.source}")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rows(shelf: Shelf, table: str, models: Sequence[str], stages: Sequence[str], *, strong: bool) -> str:
    header = ["paper / ours", *(TITLES[stage] for stage in stages), *(STRONG_TITLES.values() if strong else ())]
    body = []
    for model in models:
        row = [_title(shelf, model, table), *(_both(shelf, model, stage, table) for stage in stages)]
        row += [_strong(shelf.robust(model, suite)) for suite in STRONG_TITLES] if strong else []
        body.append(row)
    return markdown(header, body)


def _title(shelf: Shelf, model: str, table: str) -> str:
    numbers = shelf.paper(model, "clean", table)
    return row_title(numbers[0].source) if numbers else title_of(shelf, model)


def _both(shelf: Shelf, model: str, stage: str, table: str, suites: Sequence[str] = PROTOCOL) -> str:
    ours = _ours(shelf, model, stage, suites)
    return f"{paper_text(shelf.paper(model, stage, table)) or '–'} / {NOT_RUN if ours is None else ours.cell}"


def _ours(shelf: Shelf, model: str, stage: str, suites: Sequence[str] = PROTOCOL) -> Measured | None:
    return shelf.clean(model) if stage == "clean" else shelf.stage(model, stage, suites)


def _is_measured(shelf: Shelf, model: str, stages: Sequence[str], strong: bool) -> bool:
    if any(_ours(shelf, model, stage) is not None for stage in stages):
        return True
    return strong and any(shelf.robust(model, suite) is not None for suite in STRONG_TITLES)


def _strong(measured: Measured | None) -> str:
    return NOT_RUN if measured is None else f"**{measured.cell}**"


def _epochs(shelf: Shelf, model: str) -> str:
    """How long it was trained, and which epoch's checkpoint this is where that is another."""
    for each in shelf.evaluations:
        if each.name == model:
            planned, epoch = trained_epochs(each), each.model.get("epoch", 0)
            return str(planned) if planned == epoch else f"{epoch} of {planned}"
    run = shelf.run(model.removesuffix(BEST))
    return str(run.settings.get("train", {}).get("epochs", "")) if run else ""

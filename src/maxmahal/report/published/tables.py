"""The published tables in Markdown: the paper's number and ours in one cell, and what is missing said as such."""

from collections.abc import Sequence

from maxmahal.evaluate.summary import RunSummary, StageSummary, Summary
from maxmahal.report.published.models import (
    DISTANCES,
    PGD_8,
    PGD_16,
    SPSA,
    SPSA_SIZES,
    TABLE_1,
    TABLE_2,
    TABLE_5,
    TITLES,
    title_of,
)
from maxmahal.report.published.shelf import NOT_RUN, PROTOCOL, SIZES, Measured, Shelf, in_own_ball, paper_text
from maxmahal.report.wording import duration

TUNING = "tune-"  # how the names of trials begin
_STRONG = {"strict": "worst case of strict", "autoattack": "AutoAttack"}


def white_box_table(shelf: Shelf) -> str:
    """Table 1, and the worst case under attacks that measure robustness."""
    return _paper_table(shelf, "Table 1", TABLE_1, ("clean", *PGD_8, *PGD_16), strong=True)


def threats_table(shelf: Shelf) -> str:
    """Table 2."""
    return _paper_table(shelf, "Table 2", TABLE_2, (*DISTANCES, *SPSA, "noise", "rotation"))


def spsa_table(shelf: Shelf) -> str:
    """Table 3: one model, batches by rows, and the white-box attack that SPSA should come close to."""
    model, suites = "cifar10-mmc", (SIZES, *PROTOCOL)
    body = []
    for size, suffix in SPSA_SIZES.items():
        stages = [f"spsa-un-8{suffix}", f"spsa-tar-8{suffix}"]
        body.append([size, *(_both(shelf, model, stage, "Table 3", suites) for stage in stages)])
    pgd = [_both(shelf, model, stage, "Table 1") for stage in ("pgd10-un-8", "pgd10-tar-8")]
    return markdown(["batch", "SPSA un 8", "SPSA tar 8"], [*body, ["PGD-10, white box", *pgd]])


def depth_table(shelf: Shelf) -> str:
    """The CIFAR-10 half of Table 5."""
    return _paper_table(shelf, "Table 5", TABLE_5, ("clean", *PGD_8, *PGD_16), strong=True)


def budgets_table(shelf: Shelf, models: Sequence[str]) -> str:
    """Any models with what they were trained for, clean, under the paper's strongest attack, and at worst."""
    body = []
    for name in models:
        numbers = [shelf.clean(name), shelf.stage(name, "pgd50-un-8")]
        numbers += [shelf.robust(name, suite) for suite in _STRONG]
        body.append([name, _epochs(shelf, name), *(NOT_RUN if each is None else each.full for each in numbers)])
    return markdown(["model", "epochs", "clean", "PGD-50 un 8", *_STRONG.values()], body)


def cost_table(shelf: Shelf) -> str:
    """What each training took; runs of one machine and batch size can be compared, others cannot."""
    body = []
    for run in shelf.runs:
        if run.name.startswith(TUNING):
            continue
        train, count = run.settings.get("train", {}), len(run.epochs)
        state = "" if run.finished else " (not finished)"
        speed = f"{run.train_seconds / count:.2f} s" if count else NOT_RUN
        facts = [str(count), str(train.get("batch_size", "")), _place(run), speed]
        body.append([f"{run.name}{state}", *facts, duration(run.train_seconds), _final_error(run.epochs)])
    header = ["run", "epochs", "batch", "device", "an epoch", "in all", "test error at the end (%)"]
    return markdown(header, body) if body else "No training has been collected yet."


def tuning_table(shelf: Shelf) -> str:
    """The trials that settings were chosen from; empty where none was collected."""
    body = []
    for run in shelf.runs:
        if run.name.startswith(TUNING):
            train, loss = run.settings.get("train", {}), run.settings.get("loss", {}).get("name", "")
            facts = [str(train.get(key, "")) for key in ("epochs", "batch_size", "lr", "weight_decay")]
            scores = [_best(run.epochs, key) for key in ("validation_accuracy", "validation_pgd10")]
            body.append([run.name, str(loss), *facts, *scores])
    header = ["trial", "loss", "epochs", "batch", "lr", "weight decay", "best validation", "best validation PGD-10"]
    return markdown(header, body) if body else ""


def white_box_summary(shelf: Shelf) -> str:
    """Table 1 in brief."""
    return _paper_table(shelf, "Table 1", TABLE_1, ("clean", "pgd10-un-8", "pgd50-un-8"), strong=True)


def missing_list(shelf: Shelf) -> str:
    """Every cell of the tables above that has no number of ours."""
    wanted: dict[str, list[str]] = {}
    for models, stages, suites in (
        (TABLE_1, ("clean", *PGD_8, *PGD_16), True),
        (TABLE_2, (*DISTANCES, *SPSA, "noise", "rotation"), False),
        (TABLE_5, ("clean", *PGD_8, *PGD_16), True),
    ):
        for model in models:
            gaps = [TITLES[stage] for stage in stages if _ours(shelf, model, stage) is None]
            gaps += [suite for suite in _STRONG if suites and shelf.robust(model, suite) is None]
            wanted.setdefault(model, []).extend(gap for gap in gaps if gap not in wanted.get(model, []))
    measured = {each.name for each in shelf.evaluations}
    lines = [
        f"- `{model}`: {', '.join(gaps) if model in measured else 'nothing was run'}"
        for model, gaps in wanted.items()
        if gaps
    ]
    lines += [
        f"- `{each.name}`: {each.suite} was run at {each.norm} {each.epsilon}, which none of these tables is about"
        for each in shelf.evaluations
        if not in_own_ball(each)
    ]
    lines += [
        "- Table 4 and the CIFAR-100 half of Table 5: no CIFAR-100 model is among these results.",
        "- Figure 3b (attack paths in two-dimensional features of MNIST): not part of these results.",
    ]
    return "\n".join(lines)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A pipe table, the first columns, of words, to the left and numbers to the right."""
    lines = [_line(header), "|" + "---|" * words + "---:|" * (len(header) - words)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _paper_table(
    shelf: Shelf, table: str, models: Sequence[str], stages: Sequence[str], *, strong: bool = False
) -> str:
    header = ["paper / ours", *(TITLES[stage] for stage in stages), *(_STRONG.values() if strong else ())]
    body = []
    for model in models:
        row = [_row_title(shelf, model, table), *(_both(shelf, model, stage, table) for stage in stages)]
        row += [_strong(shelf.robust(model, suite)) for suite in _STRONG] if strong else []
        body.append(row)
    return markdown(header, body)


def _row_title(shelf: Shelf, model: str, table: str) -> str:
    numbers = shelf.paper(model, "clean", table)
    return numbers[0].source.partition(", ")[2].removeprefix("CIFAR-10, ") if numbers else title_of(shelf, model)


def _both(shelf: Shelf, model: str, stage: str, table: str, suites: Sequence[str] = PROTOCOL) -> str:
    ours = _ours(shelf, model, stage, suites)
    return f"{paper_text(shelf.paper(model, stage, table)) or '–'} / {NOT_RUN if ours is None else ours.cell}"


def _ours(shelf: Shelf, model: str, stage: str, suites: Sequence[str] = PROTOCOL) -> Measured | None:
    return shelf.clean(model) if stage == "clean" else shelf.stage(model, stage, suites)


def _strong(measured: Measured | None) -> str:
    return NOT_RUN if measured is None else f"**{measured.cell}**"


def _epochs(shelf: Shelf, model: str) -> str:
    """How long it was trained, and which epoch's checkpoint this is where that is another."""
    for each in shelf.evaluations:
        if each.name == model:
            planned, epoch = (
                each.model.get("settings", {}).get("train", {}).get("epochs", 0),
                each.model.get("epoch", 0),
            )
            return str(planned) if planned == epoch else f"{epoch} of {planned}"
    run = shelf.run(model.removesuffix("-best"))
    return str(run.settings.get("train", {}).get("epochs", "")) if run else ""


def trained_epochs(summary: Summary) -> int:
    """How long the training was planned to be; 0 of a model that is not ours."""
    return int(summary.model.get("settings", {}).get("train", {}).get("epochs", 0))


def is_transfer(stage: StageSummary) -> bool:
    """Whether it shows every sample as another model's attack left it; remedies of diagnostics see survivors only."""
    return stage.kind == "transfer" and stage.scope == "all" and bool(stage.source)


def crafting(stage: StageSummary) -> str:
    """How the images of a transfer were made, such as "PGD-10"."""
    return stage.title.removesuffix(f" crafted on {stage.source}")


def _place(run: RunSummary) -> str:
    """Where it ran, and beside how many others."""
    where = run.gpu or run.device or "unknown"
    return f"{where}, shared by {run.sharing}" if run.sharing > 1 else where


def _best(epochs: Sequence[dict[str, object]], key: str) -> str:
    values = [value for entry in epochs if isinstance(value := entry.get(key), float)]
    return f"{100 * max(values):.1f}" if values else "–"


def _final_error(epochs: Sequence[dict[str, object]]) -> str:
    accuracy = epochs[-1].get("test_accuracy") if epochs else None
    return f"{100 - 100 * accuracy:.1f}" if isinstance(accuracy, float) else NOT_RUN

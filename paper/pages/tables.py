"""Tables of the results pages: the paper's numbers beside ours, adversarial training, and what is missing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from paper.pages.claims import paper_gap
from paper.pages.compare import both_worst, by_epsilon, checkpoint_ends, loss_pairs
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    ANCHORS,
    BEYOND,
    DATA,
    DISTANCES,
    LONG,
    OWN_PAGES,
    PGD_8,
    PGD_16,
    PLAIN,
    SHORT,
    SPSA,
    SPSA_SIZES,
    TABLE_1,
    TABLE_2,
    TABLE_4,
    TABLE_5,
    TABLE_5_CIFAR100,
    TITLES,
    TUNED,
    data_of,
    row_title,
)
from paper.pages.paired import POINT
from paper.pages.results import (
    PROTOCOL,
    SPSA_SUITE,
    STRONG,
    Published,
    cell_text,
    known_suite,
    measured_right,
    ours_text,
    paper_text,
    worst_case,
)
from paper.pages.text import NOT_RUN, difference, listed, markdown_table, p_told, paired_test, rate_text
from paper.pages.training import constant_loss, is_finished, training_losses
from paper.summaries import BEST, Summary

FAR = 10.0  # points from the paper that a reader should know of
QUARTER = 0.25  # of a distance: likewise
_STRONG_TITLES = {"strict": "worst case of strict", "autoattack": "AutoAttack"}
_PGD = (*PGD_8, *PGD_16)


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper, or its half about one data set."""

    name: str
    models: tuple[str, ...]
    stages: tuple[str, ...]
    grid: str
    """What `maxmahal reproduce` fills it with."""
    strong: bool = True
    """Whether worst cases under strong attacks are shown beside it."""


WHITE_BOX = PaperTable("Table 1", TABLE_1, ("clean", *_PGD), "table1")
THREATS = PaperTable("Table 2", TABLE_2, (*DISTANCES, *SPSA, "noise", "rotation"), "table2", strong=False)
HUNDRED = PaperTable("Table 4", TABLE_4, ("clean", *PGD_8[:2], *SPSA[:2], *DISTANCES), "table4")
DEPTH = PaperTable("Table 5", TABLE_5, ("clean", *_PGD), "table5-cifar10")
DEPTH_CIFAR100 = PaperTable("Table 5", TABLE_5_CIFAR100, ("clean", *_PGD), "table5-cifar100")
PAPER_TABLES = (WHITE_BOX, THREATS, HUNDRED, DEPTH, DEPTH_CIFAR100)


def paper_table(results: Published, table: PaperTable) -> str:
    """The paper's number and ours in each cell; empty if nothing was measured."""
    columns = len(table.stages) + len(_STRONG_TITLES) * table.strong
    if all(len(_gaps(results, table, model)) == columns for model in table.models):
        return ""
    strong = _STRONG_TITLES if table.strong else {}
    body = []
    for model in table.models:
        numbers = results.paper(model, "clean", table.name)
        title = row_title(numbers[0].source) if numbers else results.title(model)
        row = [title, *(_both(results, model, stage, table.name) for stage in table.stages)]
        worst = [results.robust(model, suite) for suite in strong]
        body.append([*row, *(NOT_RUN if each is None else f"**{each.cell}**" for each in worst)])
    return markdown_table(["paper / ours", *(TITLES[stage] for stage in table.stages), *strong.values()], body)


def spsa_table(results: Published) -> str:
    """Table 3: SPSA on MMC-10 by batches, and white-box PGD on the same images and on all; empty if not measured."""
    model, suites = "cifar10-mmc", (SPSA_SUITE, *PROTOCOL)
    rows = {size: [f"spsa-{mode}-8{end}" for mode in ("un", "tar")] for size, end in SPSA_SIZES.items()}
    if not any(results.measured(model, stage, suites) for row in rows.values() for stage in row):
        return ""
    body = [
        [f"SPSA, batch {size}", *(_both(results, model, stage, "Table 3", suites) for stage in row)]
        for size, row in rows.items()
    ]
    few = results.find(model, SPSA_SUITE)
    for steps in (10, 50) if few is not None else ():
        right = [results.right_after(few, f"pgd{steps}-{mode}-8") for mode in ("un", "tar")]  # type: ignore[arg-type]
        cells = [cell_text(None if each is None else measured_right(each)) for each in right]
        body.append([f"PGD-{steps}, the same {few.samples:,} images", *(f"– / {cell}" for cell in cells)])  # type: ignore[union-attr]
    pgd = [_both(results, model, f"pgd10-{mode}-8", "Table 1") for mode in ("un", "tar")]
    return markdown_table(["paper / ours", "un 8", "tar 8"], [*body, ["PGD-10, all images (Table 1)", *pgd]])


def summary_table(results: Published) -> str:
    """Both data sets in brief: clean, the paper's strongest attack, AutoAttack."""
    tuned = [name for base in TUNED for name in results.seeds(base)[:1]]
    rows = [*TABLE_1, *tuned, ANCHORS[0].ours, *(f"cifar100-{end}" for end in ("sce", "mmc")), *ADVERSARIAL_CIFAR100]
    body = []
    for model in rows:
        pgd = _both(results, model, "pgd50-un-8")
        worst, strict = results.robust(model, "autoattack"), ""
        if worst is None:
            worst, strict = results.robust(model, "strict"), " (strict)"
        if results.clean(model) is not None or worst is not None:
            images = NOT_RUN if worst is None else f"{worst.samples:,}"
            robust = (
                NOT_RUN if worst is None or worst.rate is None else rate_text(worst.rate).replace(" %", "") + strict
            )
            cells = [_both(results, model, "clean"), pgd, robust, images]
            body.append([DATA[data_of(model)], results.title(model), *cells])
    return markdown_table(["data", "model", "clean", "PGD-50 un 8/256", "AutoAttack 8/255", "images"], body, 2)


def _both(results: Published, model: str, stage: str, table: str = "", suites: Sequence[str] = PROTOCOL) -> str:
    ours = cell_text(results.measured(model, stage, suites))
    return f"{paper_text(results.paper(model, stage, table))} / {ours}"


def _gaps(results: Published, table: PaperTable, model: str) -> list[str]:
    """The columns of a table in which a model has no number of ours."""
    found = [TITLES[stage] for stage in table.stages if results.measured(model, stage) is None]
    return found + [suite for suite in _STRONG_TITLES if table.strong and results.robust(model, suite) is None]


def coverage(results: Published) -> tuple[int, int]:
    """How many of the paper's cells in Tables 1 to 5 have a number of ours, and how many there are."""
    cells = [(table.name, model, stage) for table in PAPER_TABLES for model in table.models for stage in table.stages]
    sizes = [f"spsa-{mode}-8{end}" for mode in ("un", "tar") for end in SPSA_SIZES.values()]
    cells += [("Table 3", "cifar10-mmc", stage) for stage in sizes]
    printed = [cell for cell in cells if results.paper(cell[1], cell[2], cell[0])]
    suites = {"Table 3": (SPSA_SUITE, *PROTOCOL)}
    measured = [results.measured(model, stage, suites.get(table, PROTOCOL)) for table, model, stage in printed]
    return sum(each is not None for each in measured), len(printed)


def far_from_paper(results: Published, table: PaperTable) -> dict[str, list[str]]:
    """Models without adversarial training whose numbers differ much from the paper's: clean, attacked, distances."""
    clean, attacked, distances = [], [], []
    for model in table.models:
        if "-at-" in model:
            continue
        title = results.title(model)
        gaps = {
            stage: gap for stage in table.stages if (gap := paper_gap(results, model, stage, table.name)) is not None
        }
        if abs(gaps.get("clean", 0.0)) > POINT:
            clean.append(f"{title} ({difference(gaps['clean'])})")
        if far := [f"{TITLES[stage]} {difference(gap)}" for stage, gap in gaps.items() if abs(gap) > FAR]:
            attacked.append(f"{title} ({', '.join(far)})")
        ratios = {
            stage: ratio for stage in DISTANCES if (ratio := _ratio(results, model, stage, table.name)) is not None
        }
        if far := [f"{TITLES[stage]} × {ratio:.2g}" for stage, ratio in ratios.items() if abs(ratio - 1) > QUARTER]:
            distances.append(f"{title} ({', '.join(far)})")
    return {"clean": clean, "attacked": attacked, "distances": distances}


def _ratio(results: Published, model: str, stage: str, table: str) -> float | None:
    """Our distance over the paper's."""
    printed, ours = results.paper(model, stage, table), results.measured(model, stage)
    if not printed or ours is None or ours.rate is not None or math.isnan(ours.value) or not printed[0].value:
        return None
    return ours.value / printed[0].value


def turned_right(results: Published, models: Sequence[str], stage: str) -> list[tuple[str, float, float]]:
    """Models with their accuracy under an attack of the paper, and the points of it that were correct before."""
    pairs = [(model, results.measured(model, stage), results.kept(model, stage)) for model in models]
    return [
        (results.title(model), ours.value, 100 * kept.value)
        for model, ours, kept in pairs
        if ours is not None and kept is not None and ours.samples == kept.total
    ]


def model_table(results: Published, models: Sequence[str]) -> str:
    """Any models: how they were trained, clean, under the paper's strongest attack, and in the worst case."""
    body = []
    for name in models:
        worst = (results.robust(name, suite) for suite in STRONG)
        numbers = [results.clean(name), results.measured(name, "pgd50-un-8"), *worst]
        rate = results.settings(name).get("train", {}).get("lr")
        body.append(
            [f"`{name}`", _epochs(results, name), "" if rate is None else f"{rate:g}", *map(ours_text, numbers)]
        )
    header = ["model", "epochs", "learning rate", "clean", "PGD-50 un 8", "AutoAttack", "worst case of strict"]
    return markdown_table(header, body)


def _epochs(results: Published, model: str) -> str:
    """How long it was trained, and the checkpoint's epoch if that is another."""
    for each in results.evaluations:
        if each.name == model:
            planned, epoch = int(results.settings(model).get("train", {}).get("epochs", 0)), each.model.get("epoch", 0)
            return str(planned) if planned == epoch else f"{epoch} of {planned}"
    run = results.run(model.removesuffix(BEST))
    return str(run.settings.get("train", {}).get("epochs", "")) if run else ""


def budget_models(results: Published) -> list[str]:
    """Last and best checkpoints of AT (SCE) and AT (MMC-10) on CIFAR-10 at every budget."""
    measured = {each.name for each in results.evaluations}
    names = []
    for base in (*LONG, *TUNED, *SHORT):
        for name in dict.fromkeys([*([] if base in TUNED else [base]), *results.seeds(base)]):
            names += [name, *(best for best in [f"{name}{BEST}"] if best in measured)]
    return names


def loss_models(results: Published) -> list[str]:
    """Adversarial training on CIFAR-100: last checkpoints, then best ones and other rates that were measured."""
    measured = {each.name for each in results.evaluations}
    more = [base + end for base in ADVERSARIAL_CIFAR100 for end in checkpoint_ends(results) if end]
    return [*ADVERSARIAL_CIFAR100, *(name for name in more if name in measured)]


def loss_pair_table(results: Published) -> str:
    """Every two losses on the same images, checkpoint by checkpoint; empty if nothing was measured."""
    body = []
    for end in checkpoint_ends(results):
        for suite in STRONG:
            found = {(each.first, each.second): each for each in loss_pairs(results, suite, end)}
            for second, first in combinations([base + end for base in ADVERSARIAL_CIFAR100], 2):
                each, cells = found.get((first, second)), both_worst(results, first, second, suite)
                if all(cells) or (any(cells) and end in ("", BEST)):
                    names = [results.title(name.removesuffix(end)) for name in (first, second)]
                    words = end.removeprefix("-").replace("-", ", ") or "last"
                    tests = [NOT_RUN, "–"]
                    if each is not None:
                        size = difference(100 * each.pair.difference, each.interval)
                        tests = [size, paired_test(each.pair, each.p_value)]
                    body.append([words, suite, *names, *map(ours_text, cells), *tests])
    header = ["checkpoint", "suite", "first", "second", "first", "second", "first − second", "McNemar's test (Holm)"]
    return markdown_table(header, body, 4) if body else ""


def underfitting_table(results: Published) -> str:
    """The losses of adversarial training on CIFAR-100 beside that of a constant model; empty without trainings."""
    body = []
    for name in ADVERSARIAL_CIFAR100:
        run = results.run(name)
        losses = training_losses(run) if run is not None and is_finished(run) else None
        if run is not None and losses is not None:
            constant = constant_loss(run)
            values = [*losses, *([] if constant is None else [constant])]
            body.append([results.title(name), *(f"{each:.1f}" for each in values), *["–"] * (3 - len(values))])
    header = ["loss on attacked training images", "first epoch", "last", "constant model"]
    return markdown_table(header, body) if body else ""


def small_epsilon_tables(results: Published, data: str = "cifar10") -> list[str]:
    """Worst cases at smaller epsilons, and MMC-10 − SCE at each of them; nothing if not measured."""
    found = results.smaller_epsilons(data)
    places = {(each.suite, each.radius): f"{each.suite} at {each.norm} {each.epsilon}" for each in found}

    def at(model: str, place: tuple[str, float]) -> list[Summary]:
        return [each for each in found if each.name == model and (each.suite, each.radius) == place]

    measured = {each.name for each in found}
    names = [name for name in dict.fromkeys([*TABLE_1, *BEYOND, *sorted(measured)]) if name in measured]
    body = [[results.title(name), *(ours_text(worst_case(at(name, place))) for place in places)] for name in names]
    tests = [
        [f"{results.title(mmc)} − {results.title(sce)}", f"{epsilon:g}/255", gap.text, p_told(gap.p_value)]
        for sce, mmc in ((PLAIN[0], PLAIN[-1]), LONG)
        for epsilon, gap in by_epsilon(results, mmc, sce).items()
        if any(math.isclose(radius, epsilon / 255, rel_tol=1e-3) for _, radius in places)
    ]
    header = ["on the same images", "epsilon", "difference [95 %]", "McNemar's test"]
    tables = [markdown_table(["worst case", *places.values()], body)] if body else []
    return [*tables, *([markdown_table(header, tests, 2)] if tests else [])]


def other_models(results: Published, data: str, shown: set[str]) -> list[str]:
    """Whatever was evaluated on a data set and is in no table above, nor on a page of its own."""
    measured = [each.name for each in results.evaluations if each.data == data]
    names = [name for name in dict.fromkeys([*BEYOND, *measured]) if name in measured and name not in shown]
    return [name for name in names if not name.startswith(OWN_PAGES)]


def missing_list(results: Published) -> list[str]:
    """What has no number of ours: models with their missing columns, then evaluations that need a remark."""
    wanted: dict[str, list[str]] = {}
    for table in PAPER_TABLES:
        for model in table.models:
            known = wanted.setdefault(model, [])
            known.extend(gap for gap in _gaps(results, table, model) if gap not in known)
    for model, gaps in _adversarial_gaps(results):
        wanted.setdefault(model, []).extend(gaps)
    measured = {each.name for each in results.evaluations}
    groups: dict[str, list[str]] = {}
    for model, gaps in wanted.items():
        run = results.run(model.removesuffix(BEST))
        state = "not trained" if run is None else "trained, not evaluated" if run.finished else "training not finished"
        if gaps:
            groups.setdefault(", ".join(gaps) if model in measured else state, []).append(f"`{model}`")
    lines = [f"{', '.join(names)}: {what}" for what, names in groups.items()]
    return [*lines, *_remarks(results)]


def _adversarial_gaps(results: Published) -> Iterator[tuple[str, list[str]]]:
    """Of adversarial training on CIFAR-100: suites that were not run, or on a part of the images alone."""
    for base in ADVERSARIAL_CIFAR100:
        known = {suite: results.robust(base, suite) for suite in STRONG}
        few = [suite for suite, found in known.items() if found and found.limited]
        yield base, [suite for suite, found in known.items() if found is None]
        yield base, [f"{listed(few)} on all images"] if few else []


def _remarks(results: Published) -> list[str]:
    """Evaluations with older versions of a suite, or of other weights than the training's."""
    groups: dict[str, list[str]] = {}
    for each in results.evaluations:
        now, run = known_suite(each.suite), results.run(each.name.removesuffix(BEST))
        if now is not None and each.suite_version < now.version:
            text = f"measured with version {each.suite_version} of `{each.suite}`, now at version {now.version}"
            groups.setdefault(text, []).append(f"`{each.name}`")
        if run is not None and not run.made(each.name, each.model_fingerprint):
            groups.setdefault("evaluated with other weights than those of the published training", []).append(
                f"`{each.name}`"
            )
    return [f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in groups.items()]

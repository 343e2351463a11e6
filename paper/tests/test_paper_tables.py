"""The tables and pages: the paper beside ours, every table present, missing cells named."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from made_up_summaries import published, run, stage, summary

from maxmahal.evaluate.suite import load_suite
from maxmahal.records.statistics import Rate
from paper import ROOT
from paper.pages.models import DISTANCES, PGD_8, PGD_16, SPSA, TABLE_1
from paper.pages.pages import results_pages
from paper.pages.tables import (
    DEPTH,
    DEPTH_CIFAR100,
    HUNDRED,
    THREATS,
    WHITE_BOX,
    coverage,
    far_from_paper,
    loss_pair_table,
    missing_list,
    model_table,
    paper_table,
    small_epsilon_tables,
    spsa_table,
    summary_table,
    turned_right,
    underfitting_table,
)
from paper.pages.text import render
from paper.summaries import Summary

SCE, MMC = "cifar10-sce", "cifar10-mmc"
SHARES = {"pgd10-tar-8": 47.0, "pgd10-un-8": 35.5}
FIGURES = ["trade.svg", "training.svg", "transfer-x.svg"]


def cells(table: str, row: str) -> list[str]:
    """The cells of the row that begins with a word."""
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_paper_is_beside_ours_and_missing_cells_say_so() -> None:
    table = paper_table(published(summary(MMC, "paper-table1", clean=91, stages=SHARES)), WHITE_BOX)
    assert cells(table, "MMC-10")[1:4] == ["92.7 / 91.0", "48.7 / 47.0", "36.0 / 35.5"]
    printed = ["26.6", "24.8", "36.1", "25.2", "13.4", "17.5"]
    assert cells(table, "MMC-10")[4:] == [*(f"{each} / not run" for each in printed), "not run", "not run"]
    assert cells(table, "SCE")[1:3] == ["92.9 / not run", "≤ 1 / not run"]
    assert len(table.splitlines()) == 2 + len(TABLE_1)


def test_new_summaries_fill_tables_1_and_2() -> None:
    """Targeted adversarial training and Table 2, which were measured last."""
    pgd = summary("cifar10-at-tar-mmc", "paper-table1", stages=dict.fromkeys((*PGD_8, *PGD_16), 40.0), clean=83)
    worst = [summary("cifar10-at-tar-mmc", suite, robust=40) for suite in ("strict", "autoattack")]
    values = {**dict.fromkeys(SPSA, 60.0), "noise": 69.0, "rotation": 87.0, **dict.fromkeys(DISTANCES, 0.3)}
    results = published(pgd, *worst, summary(MMC, "paper-table2", stages=values))
    assert not any("not run" in cell for cell in cells(paper_table(results, WHITE_BOX), "AT tar 10 (MMC-10)"))
    assert not any("not run" in cell for cell in cells(paper_table(results, THREATS), "MMC-10"))
    assert coverage(results)[0] == 9 + 8 + 4, "clean and SPSA's first batch count where the paper prints them again"


def test_worst_cases_have_columns_of_their_own() -> None:
    both = published(summary(MMC, "strict", robust=3), summary(MMC, "autoattack", robust=0))
    assert cells(paper_table(both, WHITE_BOX), "MMC-10")[-2:] == ["**3.0**", "**0.0 (≤ 0.18)**"]
    few = summary(MMC, "strict", robust=20, samples=100, limited=True)
    assert cells(paper_table(published(few), WHITE_BOX), "MMC-10")[-2] == "**20.0 (first 100)**"
    more = published(few, summary(MMC, "strict", robust=10))
    assert cells(paper_table(more, WHITE_BOX), "MMC-10")[-2] == "**10.0**"


def test_a_stage_that_was_skipped_was_not_run() -> None:
    skipped = stage("pgd10-un-8", 0, skipped="It has no gradient.", accuracy=None)
    table = paper_table(published(summary(MMC, "paper-table1", more=(skipped,))), WHITE_BOX)
    assert cells(table, "MMC-10")[3] == "36.0 / not run"


def test_distances_are_distances() -> None:
    found = summary(MMC, "paper-table2", stages={"cw-un": 0.165, "rotation": 86.0})
    none = summary(SCE, "paper-table2", more=(stage("cw-un", 0.0, distortion=None),))
    table = paper_table(published(found, none), THREATS)
    assert (cells(table, "MMC-10")[2], cells(table, "MMC-10")[-1]) == ("0.17 / 0.17", "87.2 / 86.0")
    assert cells(table, "SCE")[2] == "0.07 / none broken"


def test_each_half_of_table_5_has_its_own_numbers() -> None:
    table = paper_table(published(summary(SCE, "paper-table1", clean=92)), DEPTH)
    assert (cells(table, "SCE (Res.32)")[1], cells(table, "MMC (Res.110)")[1]) == ("93.6 / 92.0", "93.6 / not run")
    other = published(summary("cifar100-sce", "paper-table1", clean=70, data="cifar100"))
    assert cells(paper_table(other, DEPTH_CIFAR100), "SCE (Res.32)")[1] == "72.3 / 70.0"


def table4(model: str, distance: float, left: int = 0, **changes: Any) -> Summary:
    more = [stage(name, 10.0, 1000, kind="spsa", right=None) for name in SPSA[:2]]
    more += [stage(name, distance, 500, right=None, accuracy=Rate(float(left), 500)) for name in DISTANCES]
    return summary(model, "paper-table4", clean=70, more=tuple(more), data="cifar100", **changes)


def test_distances_say_how_many_images_were_not_broken() -> None:
    table = paper_table(published(table4("cifar100-mmc", 0.9, left=150)), HUNDRED)
    assert cells(table, "MMC-10")[6] == "0.37 / 0.90 (150 of 500 not broken)"
    few = paper_table(published(table4("cifar100-mmc", 0.9, left=25)), HUNDRED)
    assert cells(few, "MMC-10")[6] == "0.37 / 0.90"
    wrong_before = replace(table4("cifar100-mmc", 0.9, left=60), right=np.arange(2000) >= 250)
    assert "(60 of 250 not broken)" in paper_table(published(wrong_before), HUNDRED)


def test_numbers_far_from_the_papers_are_named() -> None:
    far = summary(MMC, "paper-table1", clean=91.5, stages={"pgd10-un-8": 25.9, "pgd50-un-8": 15.0})
    bound = summary(SCE, "paper-table1", clean=92.9, stages={"pgd10-tar-8": 0.0, "pgd50-tar-8": 11.5})
    found = far_from_paper(published(far, bound), WHITE_BOX)
    assert found["clean"] == ["MMC-10 (−1.2)"]
    assert found["attacked"] == ["SCE (PGD-50 tar 8 +10.5)", "MMC-10 (PGD-10 un 8 −10.1)"]
    distances = far_from_paper(published(table4("cifar100-sce", 0.055)), HUNDRED)["distances"]
    assert distances == ["SCE (C&W tar (L2) × 0.34)"]


def test_images_that_pgd_turns_right_are_reported() -> None:
    turned = np.concatenate([np.arange(1400) < 10, np.arange(600) < 150])  # 70 % of 2,000 were right before
    pgd = stage("pgd50-un-8", 8.0, right=turned, accuracy=Rate(160.0, 2000))
    results = published(summary(SCE, "paper-table1", clean=70, more=(pgd,)))
    assert turned_right(results, TABLE_1, "pgd50-un-8") == [("SCE", 8.0, 0.5)]


def test_models_are_shown_with_epochs_and_rates() -> None:
    early = summary("x-best", "strict")
    early.model["epoch"] = 120
    rated = replace(
        summary("x", "strict", robust=41), model={"settings": {"train": {"epochs": 200, "lr": 0.1}}, "epoch": 200}
    )
    table = model_table(published(rated, early), ["x", "x-best", "y"])
    assert cells(table, "`x`")[1:] == ["200", "0.1", "80.0 % [78.2, 81.7]", "not run", "not run", "41.0 % [38.8, 43.2]"]
    assert cells(table, "`x-best`")[1] == "120 of 200"
    assert cells(table, "`y`")[3:] == ["not run"] * 4


def test_every_two_losses_are_a_row() -> None:
    things = [summary(f"cifar100-at-{name}", "autoattack", robust=value) for name, value in (("sce", 20), ("mmc", 23))]
    things += [summary("cifar100-at-sce", "strict", robust=20)]
    rows = loss_pair_table(published(*things)).splitlines()[2:]
    assert rows[0].startswith("| last | autoattack | AT (MMC-10) | AT (SCE) | 23.0 % [")
    assert rows[0].endswith(" | +3.0 [+2.2, +3.8] | p < 0.001, 60 to 0 of 2,000 images |")
    assert [row.count("not run") for row in rows] == [0, 2, 2, 2, 2], "pairs of which one model was attacked"


def test_a_training_loss_is_beside_that_of_a_constant_model() -> None:
    found = run("cifar100-at-sce", [60.0, 50.0], settings={"loss": {"name": "sce"}, "data": {"source": "cifar100"}})
    for entry, loss in zip(found.epochs, (4.5, 3.1), strict=True):
        entry["train_loss"] = loss
    assert cells(underfitting_table(published(found)), "AT (SCE)")[1:] == ["4.5", "3.1", "4.6"]  # ln 100
    assert underfitting_table(published()) == ""


def small(model: str, epsilon: int, robust: float, **changes: Any) -> Summary:
    facts = {"samples": 1000, "limited": True, "epsilon": f"{epsilon}/255", "radius": epsilon / 255, **changes}
    return summary(model, "strict", robust=robust, **facts)


def test_smaller_epsilons_have_tables_of_their_own() -> None:
    things = published(small(MMC, 2, 6.0), small(SCE, 2, 6.2), small(MMC, 1, 40.0), small(SCE, 1, 30.0))
    models, pairs = small_epsilon_tables(things)
    assert cells(models, "SCE")[1:] == ["30.0 % [27.2, 32.9] (first 1,000)", "6.2 % [4.8, 7.9] (first 1,000)"]
    rows = [line.split(" | ") for line in pairs.splitlines()[2:]]
    assert [row[1] for row in rows] == ["1/255", "2/255"]
    assert (rows[0][0], rows[0][3]) == ("| MMC-10 − SCE", "p < 0.001 |")
    assert rows[1][2:] == ["−0.2 points [−0.5, +0.1]", "p = 0.500 |"]
    other = published(small(MMC, 1, 40.0), small(SCE, 1, 30.0, seed=1))
    assert len(small_epsilon_tables(other)) == 1, "other attacks are not paired"
    assert small_epsilon_tables(published()) == []
    assert not any("1/255" in line for line in missing_list(things))


def test_what_is_missing_is_listed_once_with_the_state_of_its_training() -> None:
    now = load_suite("strict").version
    old = replace(summary("cifar10-lgm", "strict", robust=0), suite_version=now - 1)
    things = [summary(MMC, "paper-table1", stages=SHARES), run("cifar10-center", [10.0]), old]
    lines = missing_list(published(*things, run("cifar10-at-tar-sce", [40.0], finished=False)))
    (line,) = [line for line in lines if f"`{MMC}`" in line and "version" not in line]
    assert "PGD-50 un 8" in line
    assert "PGD-10 un 8" not in line
    assert "`cifar10-center`: trained, not evaluated" in lines
    assert "`cifar10-at-tar-sce`: training not finished" in lines
    assert any(line.endswith(": not trained") and "`cifar10-mmlda`" in line for line in lines)
    assert f"`cifar10-lgm`: measured with version {now - 1} of `strict`, now at version {now}" in lines


def test_spsa_on_a_few_images_is_in_its_own_table_alone() -> None:
    sizes = summary(MMC, "spsa-sizes", stages={"spsa-un-8": 50.0, "spsa-tar-8-8192": 42.0}, samples=100)
    both = published(sizes, summary(SCE, "paper-table2", stages={"noise": 50.0}))
    assert cells(paper_table(both, THREATS), "MMC-10")[4] == "56.9 or 57.0 / not run".replace(" or 57.0", "")
    assert cells(spsa_table(both), "SPSA, batch 128") == ["SPSA, batch 128", "57.0 / 50.0", "69.0 / not run"]
    assert cells(spsa_table(both), "SPSA, batch 8192") == ["SPSA, batch 8192", "37.0 / not run", "49.0 / 42.0"]


MEASURED = published(
    *(summary(name, "paper-table1", stages=dict.fromkeys((*PGD_8, *PGD_16), 30.0)) for name in TABLE_1),
    *(summary(name, "autoattack", robust=20) for name in TABLE_1),
    table4("cifar100-mmc", 0.3),
    table4("cifar100-sce", 0.3),
    run(SCE, [20.0, 8.5]),
)


def test_every_page_has_its_tables_and_every_number() -> None:
    pages = results_pages(MEASURED, FIGURES)
    assert list(pages) == ["README.md", "claims.md", "tables.md", "training.md"]
    for name, page in pages.items():
        assert not re.search(r"\b(nan|None|inf)\b", page), name
        assert "\n\n\n" not in page
        tables = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
    for title in ("Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Adversarial training on CIFAR-100"):
        assert f"\n## {title}" in pages["tables.md"]
    assert "Not measured yet: `maxmahal reproduce table2` fills this table." in pages["tables.md"]
    assert "(figures/transfer-x.svg)" in pages["tables.md"]
    assert "(figures/trade.svg)" in pages["README.md"]
    assert "(figures/training.svg)" in pages["training.md"]
    assert "training-cifar100.svg" not in pages["training.md"]
    assert "Measured on NVIDIA H200, torch 2.11, 2026-11-01 to 2026-11-01." in pages["tables.md"]
    assert pages["README.md"].index("| CIFAR-10 | SCE |") < 2200, "the message and its table come first"


def test_pages_can_be_written_with_nothing_measured() -> None:
    pages = results_pages(published(), [])
    assert "0 of the paper's 275 cells in Tables 1 to 5 are measured (" in pages["README.md"]
    assert pages["README.md"].count("| **not measured** |") == 12
    assert pages["README.md"].count("| **no attack** |") == 3
    assert pages["tables.md"].count("Not measured yet") == 6


def test_links_between_the_pages_lead_somewhere() -> None:
    pages = results_pages(MEASURED, FIGURES)
    headings = {
        name: {
            re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", page, re.M)
        }
        for name, page in pages.items()
    }
    for name, page in pages.items():
        for target, _, place in (link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", page)):
            if target.startswith("figures/"):
                continue
            file = target or name
            assert file in pages or (ROOT / "paper/results" / file).exists(), f"{name}: {target}"
            assert not place or file not in pages or place in headings[file], f"{name}: {target}#{place}"


def test_the_page_names_what_the_papers_attacks_move_away_from() -> None:
    suite = load_suite("paper")
    sources = {each.name: dict(each.attack.options).get("label_source", "true") for each in suite.stages}
    assert {sources[name] for name in (*PGD_8, *PGD_16)} == {"predicted"}
    assert {sources[name] for name in (*SPSA, *DISTANCES)} == {"true"}


def test_the_tables_of_the_front_page() -> None:
    assert cells(render("blocks/loss", results=MEASURED), "CIFAR-10, adversarial training")[1:] == [
        "80.0 / 80.0",
        "30.0 / 30.0",
        "20.0 / 20.0",
    ]
    assert "| CIFAR-10 | MMC-10 | 92.7 / 80.0 | 24.8 / 30.0 | 20.0 [18.3, 21.8] | 2,000 |" in summary_table(MEASURED)

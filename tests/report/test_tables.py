"""Tables: every number comes from the records, and every format says the same."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from small_evaluations import make_columns, make_evaluation, make_stage, make_stages

from maxmahal.records import Evaluation
from maxmahal.records.statistics import clopper_pearson
from maxmahal.report.tables import ResultsTable, TableCell, results_tables, to_csv, to_latex, to_markdown

SCE = {"table": "Table 1, SCE; Table 5, CIFAR-10, SCE (Res.32)"}


def results_table(evaluations: list[Evaluation]) -> ResultsTable:
    """The only table of these."""
    (table,) = results_tables(evaluations)
    return table


def cells(table: ResultsTable, row: int = 0) -> dict[str, TableCell]:
    """One row by its header."""
    return dict(zip(table.header, table.rows[row], strict=True))


def test_columns_and_numbers() -> None:
    table = results_table([make_evaluation()])
    assert table.header == (
        "model",
        "samples",
        "clean (%)",
        "paper: clean (%)",
        "PGD-10, untargeted (%)",
        "paper: PGD-10, untargeted (%)",
        "Square (%, cumulative)",
        "C&W (mean distortion)",
        "paper: C&W (mean distortion)",
        "FAB (%)",
        "worst case (%)",
    )
    row = cells(table)
    assert row["samples"] == TableCell("10", 10)
    assert row["clean (%)"] == TableCell("90.0", 90.0)
    assert row["PGD-10, untargeted (%)"] == TableCell("60.0", 60.0)
    assert row["paper: PGD-10, untargeted (%)"] == TableCell("36.0", 36.0)
    assert row["Square (%, cumulative)"] == TableCell("50.0", 50.0)
    assert row["FAB (%)"] == TableCell("skipped")
    # Sample 8 was not broken and has no distance; sample 9 was wrong to begin with.
    distance = row["C&W (mean distortion)"].value
    assert distance == pytest.approx(np.mean([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]))
    low, high = clopper_pearson(5.0, 10)
    assert row["worst case (%)"] == TableCell("50.0 [18.7, 81.3]", 50.0, (100 * low, 100 * high))


def test_values_are_not_rounded() -> None:
    thirds = make_evaluation(stages=(make_stage("clean", make_columns([9], [3, 4, 9])),), samples=3)
    assert cells(results_table([thirds]))["clean (%)"] == TableCell("66.7", 200 / 3)
    assert repr(200 / 3) in to_csv(results_table([thirds]))


def test_none_right_is_a_bound_and_not_a_zero() -> None:
    nothing = make_evaluation(stages=(make_stages()[0], make_stage("apgd", make_columns(range(10)))))
    row = cells(results_table([nothing]))
    assert row["apgd (%)"] == TableCell("0.0 (<= 30.85)", 0.0)
    assert (row["worst case (%)"].text, row["worst case (%)"].value) == ("0.0 (<= 30.85)", 0.0)
    assert r"$\leq$ 30.85" in to_latex(results_table([nothing]))


def test_the_paper_s_tables_may_disagree_or_bound() -> None:
    stages = (*make_stages(), make_stage("pgd50-tar-8", make_columns([9]), title="PGD-50, targeted"))
    row = cells(results_table([make_evaluation(model=SCE, stages=stages)]))
    assert row["paper: clean (%)"] == TableCell("92.9 (Table 1), 93.6 (Table 5)")
    assert row["paper: PGD-50, targeted (%)"] == TableCell("<= 1")


def test_without_a_row_in_the_paper_there_is_no_column_for_it() -> None:
    header = results_table([make_evaluation(model={"table": ""})]).header
    assert not [name for name in header if name.startswith("paper")]
    both = results_table([make_evaluation(model={"table": ""}), make_evaluation()])
    assert cells(both, 0)["paper: clean (%)"] == TableCell("")
    assert cells(both, 1)["paper: clean (%)"] == TableCell("92.7", 92.7)


def test_a_model_that_met_other_attacks_leaves_the_rest_empty() -> None:
    extra = make_stage("apgd", make_columns([9]), title="APGD", origin="diagnosis")
    table = results_table([make_evaluation(), make_evaluation(name="sce", stages=(*make_stages(), extra))])
    assert cells(table, 0)["APGD (%)"] == TableCell("")
    assert cells(table, 1)["APGD (%)"].value == 90.0


def test_the_same_attack_alone_and_cumulative_are_two_columns() -> None:
    clean, pgd, square, *_ = make_stages()
    alone = replace(square, scope="all", columns=make_columns([3, 9]))
    table = results_table([make_evaluation(), make_evaluation(name="sce", stages=(clean, pgd, alone))])
    assert cells(table, 0)["Square (%, cumulative)"].value == 50.0
    assert cells(table, 0)["Square (%)"] == TableCell("")
    assert cells(table, 1)["Square (%)"].value == 80.0


def test_equal_titles_are_told_apart_by_name() -> None:
    stages = (make_stages()[0], *(make_stage(name, make_columns([9]), title="PGD") for name in ("pgd-a", "pgd-b")))
    assert results_table([make_evaluation(stages=stages)]).header[-3:-1] == ("PGD (pgd-a) (%)", "PGD (pgd-b) (%)")


def test_unfinished_evaluations_say_so() -> None:
    clean, pgd, *_ = make_stages()
    half = replace(pgd, finished=False, columns=make_columns([0], range(5)), planned=10)
    waiting = replace(pgd, name="apgd", title="APGD", finished=False, columns=make_columns([], []))
    row = cells(results_table([make_evaluation(stages=(clean, half, waiting), finished=False, samples=20)]))
    assert row["samples"] == TableCell("10 of 20", 10)
    assert row["PGD-10, untargeted (%)"] == TableCell("80.0 so far", 80.0)
    assert row["APGD (%)"] == TableCell("not run yet")
    assert row["worst case (%)"] == TableCell("no attack finished yet")
    row = cells(results_table([make_evaluation(stages=(clean, pgd, waiting), finished=False)]))
    assert row["worst case (%)"].text.endswith("] so far")
    nothing = cells(results_table([make_evaluation(stages=(), finished=False)]))
    assert nothing["samples"] == TableCell("0 of 10", 0)
    assert nothing["worst case (%)"] == nothing["clean (%)"] == TableCell("not run yet")


def test_one_table_for_each_suite_data_set_and_threat() -> None:
    several = [
        make_evaluation(),
        make_evaluation(suite="autoattack"),
        make_evaluation(data="cifar100"),
        make_evaluation(epsilon="16/255"),
        make_evaluation(norm="L2"),
        make_evaluation(suite_version=2),
        make_evaluation(name="sce"),
    ]
    tables = results_tables(several)
    assert [len(table.rows) for table in tables] == [2, 1, 1, 1, 1, 1]
    assert tables[0].title == "cifar10, Linf 8/255, suite standard version 1"
    assert results_tables([]) == []


def test_seeds_are_named_where_they_differ() -> None:
    table = results_table([make_evaluation(), make_evaluation(seed=1)])
    assert [row[0].text for row in table.rows] == ["mmc (seed 0)", "mmc (seed 1)"]


def test_two_evaluations_of_one_model_are_told_apart() -> None:
    table = results_table([make_evaluation(), make_evaluation(samples=30), make_evaluation(name="sce")])
    assert [row[0].text for row in table.rows] == ["mmc (10 samples)", "mmc (30 samples)", "sce"]


def test_all_of_the_samples_are_shown_with_their_interval() -> None:
    clean = make_stage("clean", make_columns([]), title="clean")
    row = cells(results_table([make_evaluation(stages=(clean, make_stage("pgd", make_columns([]), title="PGD")))]))
    assert row["clean (%)"] == row["PGD (%)"] == TableCell("100.0 [69.2, 100.0]", 100.0)
    assert row["worst case (%)"].text == "100.0 [69.2, 100.0]"


def test_csv_reads_back_equal() -> None:
    table = results_table([make_evaluation(name='a,"b"\nc'), make_evaluation(name="sce", stages=(), finished=False)])
    header, *rows = csv.reader(io.StringIO(to_csv(table)))
    assert header == [*table.header, "worst case (%) low", "worst case (%) high"]
    for read, row in zip(rows, table.rows, strict=True):
        for text, cell in zip(read, row, strict=False):
            assert text == cell.text if cell.value is None else float(text) == cell.value
    assert tuple(map(float, rows[0][-2:])) == table.rows[0][-1].interval
    assert rows[1][-2:] == ["", ""]


def test_markdown_keeps_its_columns_whatever_a_model_is_called() -> None:
    table = results_table([make_evaluation(name="a|b_c*d\n<b>[x](y)\\")])
    title, _, *lines = to_markdown(table).splitlines()
    assert title == "**cifar10, Linf 8/255, suite standard version 1**"
    assert len(lines) == 3
    assert lines[2].startswith(r"| a\|b\_c\*d \<b>[x\](y)\\ | 10 | 90.0 |")
    assert lines[2].endswith("| 50.0 [18.7, 81.3] |")
    assert lines[1].count("|") == len(table.header) + 1


def test_latex_escapes_what_means_something_to_it() -> None:
    name = r"50% & $x_1$ #{a}~b^c\d <e> f|g >= h"
    text = to_latex(results_table([make_evaluation(name=name)]))
    assert (
        r"50\% \& \$x\_1\$ \#\{a\}\textasciitilde{}b\textasciicircum{}c\textbackslash{}d \textless{}e\textgreater{} "
        r"f\textbar{}g $\geq$ h & 10 & 90.0 &"
    ) in text
    lines = text.splitlines()
    assert lines[0] == "% cifar10, Linf 8/255, suite standard version 1"
    assert lines[1] == r"\begin{tabular}{lrrrrrrrrrr}"
    assert [lines[2], lines[4], *lines[-2:]] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]
    assert r"C\&W (mean distortion)" in lines[3]
    assert r"{[odd]} & 10" in to_latex(results_table([make_evaluation(name="[odd]")]))

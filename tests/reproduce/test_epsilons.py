"""One suite in several balls: cells of their own, planned, run, resumed and shown apart."""

import sqlite3
from pathlib import Path

import pytest
from small_grids import write_grid

from maxmahal.errors import SettingsError
from maxmahal.evaluate import read_evaluations
from maxmahal.evaluate.suite import load_suite
from maxmahal.reproduce import PlanCell, load_grid, make_plan, plan_lines, run_plan
from maxmahal.reproduce.reporter import CellEvent, GridLines
from maxmahal.reproduce.states import CellState, evaluation_seconds
from maxmahal.train import load_settings

DIGITS = '[[model]]\nname = "digits-sce"\n'
TINY = """
about = "one small model in three balls"

[[model]]
name = "sce"
preset = "digits-sce"
set = ["train.epochs=2", "data.limit=192", "data.test_limit=50"]

[[evaluation]]
suite = "short.toml"
limit = 20

[[evaluation]]
suite = "short.toml"
epsilon = "1/255"
limit = 20

[[evaluation]]
suite = "short.toml"
epsilon = "0.5"
limit = 20
"""


class Heard(GridLines):
    """Which cells ended, and how."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.ends: list[tuple[CellEvent, str]] = []

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        if event not in ("started", "running"):
            self.ends.append((event, cell.column))


def planned(folder: Path, text: str, **options: Path) -> dict[str, PlanCell]:
    path = folder / "grid.toml"
    path.write_text(DIGITS + text)
    cells = make_plan(load_grid(path), folder / "out", **options).cells  # type: ignore[arg-type]
    return {cell.key: cell for cell in cells if cell.column != "training"}


def section(suite: str, *lines: str) -> str:
    return "\n".join(["[[evaluation]]", f'suite = "{suite}"', *lines, ""])


def test_balls_are_cells_of_their_own_and_the_suites_own_ball_is_none(tmp_path: Path) -> None:
    text = section("strict", "limit = 100") + section("strict", 'epsilon = "1/255"', "limit = 100")
    text += section("strict", 'epsilon = "2/255"') + section("strict", 'epsilon = "0.15"', "limit = 100")
    cells = planned(tmp_path, text)
    assert {key: cell.column for key, cell in cells.items()} == {
        "digits-sce--strict-100": "strict 100",
        "digits-sce--strict-1-255-100": "strict 1/255 100",
        "digits-sce--strict-2-255": "strict 2/255",
    }
    assert [cell.evaluations[0][4:] for cell in cells.values()] == [("Linf", each) for each in (0.15, 1 / 255, 2 / 255)]
    assert [cell.job.arguments["epsilon"] for cell in cells.values()] == [None, "1/255", "2/255"]


def test_what_stands_longer_is_planned_longer(tmp_path: Path) -> None:
    text = section("strict", "limit = 1000") + section("strict", 'epsilon = "1/255"', "limit = 1000")
    own, small, large = planned(tmp_path, text + section("strict", 'epsilon = "0.2"', "limit = 1000")).values()
    settings, samples, missing = load_settings("digits-sce"), own.evaluations[0][3], CellState("missing")
    times = [
        evaluation_seconds(settings, load_suite("strict"), samples, missing, "cpu", smaller=smaller)
        for smaller in (False, True)
    ]
    assert own.seconds == large.seconds == pytest.approx(times[0])
    assert small.seconds == pytest.approx(times[1])
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("suite", "epsilon", "message"),
    [
        ("paper-table1", '"1/255"', "fixes the ball of each attack"),
        ("strict", '"8"', "Did you mean 8/255"),
        ("strict", '"eight"', "a fraction such as 8/255"),
        ("strict", "0.1", "evaluation.epsilon must be a text"),
    ],
)
def test_balls_that_cannot_be(tmp_path: Path, suite: str, epsilon: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        planned(tmp_path, section(suite, f"epsilon = {epsilon}"))


@pytest.mark.soak
def test_a_grid_of_three_balls_is_trained_evaluated_resumed_and_done(tmp_path: Path) -> None:
    columns = ["short 20", "short 1/255 20", "short 0.5 20"]
    grid, out, heard = load_grid(write_grid(tmp_path, TINY)), tmp_path / "out", Heard()
    outcome = run_plan(make_plan(grid, out), reporter=heard)
    assert (outcome.failed, outcome.left) == ({}, [])
    assert heard.ends == [("done", column) for column in ("training", *columns)]
    found = read_evaluations(out / "records")
    assert [(each.epsilon, each.finished) for each in found] == [("0.1", True), ("1/255", True), ("0.5", True)]
    own, small, large = (each.verdict.robust.count for each in found)
    assert small > own > large
    assert outcome.page is not None
    page = outcome.page.read_text()
    assert all(f"Linf {epsilon}" in page for epsilon in ("0.1", "1/255", "0.5"))

    again = Heard()
    plan = make_plan(grid, out)
    assert plan_lines(plan)[-1] == "In all: everything is done."
    assert run_plan(plan, reporter=again).left == []
    assert again.ends == []

    connection = sqlite3.connect(out / "records" / "records.sqlite")
    number = connection.execute("SELECT id FROM evaluations WHERE body LIKE '%1/255%'").fetchone()[0]
    connection.execute("UPDATE evaluations SET finished = 0 WHERE id = ?", (number,))
    for table in ("chunks", "records", "pictures", "points"):
        connection.execute(f"DELETE FROM {table} WHERE evaluation = ? AND stage = 2", (number,))
    connection.commit()
    connection.close()
    plan = make_plan(grid, out)
    assert {cell.column: cell.state.kind for cell in plan.cells if cell.state.kind != "done"} == {columns[1]: "half"}
    rest = Heard()
    assert run_plan(plan, reporter=rest).left == []
    assert rest.ends == [("done", columns[1])]
    assert [each.finished for each in read_evaluations(out / "records")] == [True] * 3
